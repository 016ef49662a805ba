"""The output of `python -m tools.shadow` about the summaries of the shadows."""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
from typer import Typer
from typer.testing import CliRunner

from replay.agreement.results import DetailedTally, ExplainedDivergences
from replay.shadow.summary import ShadowResult
from tools.shadow import __main__ as command
from tools.shadow.incident import ShadowOutcome


@pytest.fixture(autouse=True)
def logs_again() -> Iterator[None]:
    """The command disables logging."""
    yield
    logging.disable(logging.NOTSET)


def printed(result: ShadowResult, monkeypatch: pytest.MonkeyPatch) -> Sequence[str]:
    async def incident(*_: object) -> list[ShadowOutcome]:
        return [ShadowOutcome(3, msgspec.to_builtins(result), [], [], Path())]

    monkeypatch.setattr(command, "shadow_incident", incident)
    app = Typer()
    app.command()(command.main)
    done = CliRunner().invoke(app, ["--follows", "watches"])
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


def test_divergences_that_a_rule_explains_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    explained = ExplainedDivergences("either-order", "", [0x5F, 0x61])
    requests = DetailedTally(extra=1, explained=[ExplainedDivergences("either-order", "", [0])])
    result = ShadowResult(differs=1, extra=1, explained=[explained], requests=requests)
    lines = printed(result, monkeypatch)
    assert "decisions by kind: {}; explained: 2 (either-order explains zxid 0x5f 0x61)" in lines
    assert "requests by kind: {}; explained: 1 (either-order explains requests)" in lines


def test_summary_without_an_explanation_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "decisions by kind: {}; explained: 0" in printed(ShadowResult(), monkeypatch)
