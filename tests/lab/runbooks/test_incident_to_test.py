"""The runbook of an incident that becomes a test without names."""

import lzma
from pathlib import Path

import pytest

from tests.lab.runbooks.clusters import cluster, runbook
from tests.lab.standby.test_rolling_upgrade import ROOT, copied

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]


async def test_crash_of_a_broker_becomes_a_test_without_names(tmp_path: Path) -> None:
    async with cluster() as lab_cluster:
        daemon = await lab_cluster.controlling()
        await lab_cluster.create_topic("orders", {0: [1, 2, 3]})
        await lab_cluster.until_in_sync("orders", 3)
        lab_cluster.lab.brokers[0].kill()
        await lab_cluster.until_reported(daemon, "broker_failed")
        await lab_cluster.until_reported(daemon, "leaders_elected")
        places = {"/opt/refold-1": str(copied(tmp_path / "old")), "/opt/refold-2": str(ROOT)}
        page = runbook("incident-to-test", tmp_path, lab_cluster, daemon, **places)
        await page.expect(0)
        await page.expect(0, "broker 1")
        await page.expect(0)
        await page.expect(0)
        await page.expect(0, "agrees")
        assert (await page.expect(0)).strip() == "0"
        await page.expect(0)
        await page.expect(0, "agrees")
        await page.expect(0)
        assert page.is_done
    assert b"orders" not in lzma.decompress((tmp_path / "shared.jsonl.xz").read_bytes())
    made = tmp_path / "incidents" / "our-incident"
    assert "orders" not in (made / "transcript.txt").read_text()
