"""Names that clients choose can neither control a terminal nor make separate lines."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from controller.core.api_requests.topics import CreateTopicsReceived, NewTopic
from replay.cli.main import app
from tests.controller.core.cluster import Cluster
from tests.controller.core.endpoint import call, next_request
from tests.replay.recorded_log import write_log

FORGED = "x\n2026-11-28T11:30:00.000Z INFO elected controller, epoch 99\x1b[31mRED"


@pytest.mark.parametrize("command", ["events", "decisions", "log show"])
def test_name_with_control_characters_is_escaped(command: str, tmp_path: Path) -> None:
    cluster = Cluster(1, 2).start()
    topic = NewTopic(FORGED, 1, 1, [], [])
    call(cluster, CreateTopicsReceived(next_request(cluster), 7, 1_000, False, [topic]))
    log = write_log(tmp_path / "log", cluster)
    done = CliRunner().invoke(app, [*command.split(), str(log)])
    assert "elected controller, epoch 99" in done.stdout
    assert "\x1b" not in done.stdout
    assert not any(line.startswith("2026-11-28") for line in done.stdout.splitlines())
