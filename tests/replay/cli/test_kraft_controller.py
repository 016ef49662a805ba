"""Commands that describe the controller of a cluster name a KRaft controller as one."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from replay.cli.main import app

LOG = Path(__file__).parents[2] / "incidents/migration-left"


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (["why"], "KRaft controller 3000 has been controller of term 11 since event 81 "),
        (["why"], "KRaft controller 3000 replaced broker 1 (term 10) with the write that deleted"),
        (["why", "--term", "10"], "KRaft controller 3000 took over with term 11 at event 81 "),
        (["why", "--term", "10"], "/controller was deleted by KRaft controller 3000, not by"),
        (["why", "--partition", "orders-0"], "KRaft controller 3000 wrote it, and no rule"),
        (["events"], "transaction 0x14c is a decision of KRaft controller 3000, epoch 11: elect"),
        (
            ["decisions"],
            "term 11  KRaft controller 3000  multi: check /controller_epoch version 11",
        ),
    ],
)
def test_kraft_controller_is_named_by_each_command(command: list[str], line: str) -> None:
    """A KRaft controller has taken the role in a migration."""
    found = CliRunner().invoke(app, [*command, str(LOG)])
    assert line in found.stdout
    assert "broker 3000" not in found.stdout.lower()
