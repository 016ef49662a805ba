"""`make demo-secure` ends with status 0 only if all its checks hold."""

from pathlib import Path

import pytest

from tools.demo.incident import BROKER_CONFIG, DemoIncident
from tools.demo.secured import SecuredStage
from tools.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.timeout(400)]


async def test_incident_on_a_secured_cluster_loses_nothing_and_strangers_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with Lab(tmp_path / "cluster") as lab, SecuredStage(lab, tmp_path) as stage:
        await stage.start(BROKER_CONFIG)
        await stage.take_over()
        await stage.refuse_strangers()
        await stage.deny_and_allow()
        await DemoIncident(stage).play()
    output = capsys.readouterr().out
    assert "no ACL allows Create on Topic audits for User:alice" in output
    assert "0 of them lost" in output
