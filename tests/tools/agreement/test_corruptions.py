"""`tools.agreement.corruptions` counts the corruptions of a recording that are reported."""

from collections.abc import Callable
from pathlib import Path

import pytest
from typer import Typer
from typer.testing import CliRunner

from replay.agreement.results import AgreementResult
from tools.agreement import corruptions

Get = Callable[[str], Path]

app = Typer()
app.command()(corruptions.main)


def test_reported_corruptions_are_counted(folder_of: Get) -> None:
    result = CliRunner().invoke(app, [str(folder_of("broker-crash-2")), "--seeds", "2"])
    assert (result.exit_code, result.output) == (0, "broker-crash-2: 2 of 2 reported\n")


def test_corruptions_that_are_not_reported_are_printed(
    folder_of: Get, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corruptions, "agree", lambda log: AgreementResult())
    result = CliRunner().invoke(app, [str(folder_of("broker-crash-2")), "--seeds", "1"])
    assert result.exit_code == 1
    line, last = result.output.splitlines()
    assert line.startswith("broker-crash-2: not reported: seed 0, zxid 0x")
    assert last == "broker-crash-2: 0 of 1 reported"


def test_unusable_source_is_rejected(tmp_path: Path) -> None:
    for source in (tmp_path, tmp_path / "nothing", Path(__file__)):
        result = CliRunner().invoke(app, [str(source)])
        assert result.exit_code == 2
        assert str(source) in result.output or "holds no" in result.output
        assert isinstance(result.exception, SystemExit)
