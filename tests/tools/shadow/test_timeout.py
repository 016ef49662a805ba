"""A shadow that does not end in time is named, with its files; there is no traceback."""

import logging
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer import Typer
from typer.testing import CliRunner

from tools.shadow import __main__ as command
from tools.shadow import incident
from tools.shadow.incident import ShadowProcess, ShadowTimeout

ENDLESS = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('{"message": "follows a folder"}', file=sys.stderr, flush=True)
time.sleep(3600)
"""


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of `refold run`: a process that ignores SIGTERM."""
    monkeypatch.setattr(incident, "command", lambda *_: [sys.executable, "-c", ENDLESS])


@pytest.mark.usefixtures("endless")
async def test_shadow_that_does_not_end_is_killed_and_named_with_its_files(tmp_path: Path) -> None:
    shadow = ShadowProcess(tmp_path / "watches", [])
    await shadow.start()
    with pytest.raises(ShadowTimeout) as raised:
        await shadow.stop(1)
    text = str(raised.value)
    assert f"the shadow in {tmp_path / 'watches'} did not end after SIGTERM within 1 s" in text
    assert f"its log is in {tmp_path / 'watches' / 'logs'}" in text


@pytest.fixture
def logs_again() -> Iterator[None]:
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.usefixtures("logs_again")
def test_time_out_of_a_shadow_has_an_exit_status_and_keeps_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Path] = []

    async def timing_out(folder: Path, *_: object) -> None:
        kept.append(folder)
        (folder / "log").write_text("")
        raise ShadowTimeout("the shadow did not end")

    monkeypatch.setattr(command, "shadow_incident", timing_out)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    app = Typer()
    app.command()(command.main)
    result = CliRunner().invoke(app, [])
    assert result.exit_code == 3
    assert result.stderr == "tools.shadow: the shadow did not end\n"
    assert [(one / "log").exists() for one in kept] == [True]
