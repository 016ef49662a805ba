"""The runbooks of a full and of a slow disk."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.controller.daemon.test_log_faults import LONG, fill, small_disk
from tests.lab.runbooks.clusters import cluster, runbook
from tools.lab.ports import HOST, free_port

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]
__all__ = ["small_disk"]

SLOW = """
import time
from replay.cli.main import main
from eventstore.writer import LogWriter

append = LogWriter.append

def append_slowly(self, events, commands=()):
    time.sleep(0.3)
    append(self, events, commands)

LogWriter.append = append_slowly
main()
"""
"""A daemon whose disk needs 0.3 s for each append."""


async def test_space_is_made_on_a_full_disk(small_disk: Path, tmp_path: Path) -> None:
    log_dir = small_disk / "logs"
    async with cluster() as lab_cluster:
        earlier = await lab_cluster.controlling(log_dir=log_dir, settings=LONG)
        await lab_cluster.until_reported(earlier, "failover_done")
        assert await earlier.stop() == 0
        await lab_cluster.until_stock_controller()
        daemon = await lab_cluster.controlling(log_dir=log_dir, settings=LONG)
        await lab_cluster.create_topic("orders", {0: [1, 2, 3]})
        await lab_cluster.until_in_sync("orders", 3)
        fill(small_disk / "filler")
        for number in range(20):
            await lab_cluster.view.create_topic(f"more-{number}", {0: [1, 2, 3]})
        assert await daemon.ended() == 1
        assert "full" in daemon.last_output()
        await lab_cluster.until_stock_controller()
        backup = tmp_path / "backup"
        page = runbook("full-disk", tmp_path, lab_cluster, daemon, **{"/backup": str(backup)})
        await page.expect(0, "100%")
        await page.expect(0, "run-")
        await page.expect(0, "sound and closed")
        [left] = log_dir.glob("run-*")
        (small_disk / "filler").unlink()
        again = await lab_cluster.controlling(log_dir=log_dir, settings=LONG)
        await lab_cluster.until_reported(again, "failover_done")
        await lab_cluster.until_in_sync("orders", 3)
        await page.expect(0)
        await page.expect(0, "role: active")
        await page.expect(0)
        await page.expect(0, "agrees")
        assert page.is_done
        assert left.exists()


async def test_slow_disk_is_found_and_replaced(tmp_path: Path) -> None:
    port = free_port()
    address = f"{HOST}:{port}"
    options = ("--metrics-address", address)
    with TemporaryDirectory() as made:
        fast = Path(made)
        async with cluster() as lab_cluster:
            await lab_cluster.create_topic("orders", {0: [1, 2, 3]})
            slow = await lab_cluster.controlling(*options, settings=LONG, program=SLOW)
            await lab_cluster.until_reported(slow, "failover_done")
            places = {
                "/mnt/fast/refold": str(fast / "refold"),
                "/mnt/fast": str(fast),
                "127.0.0.1:9404": address,
            }
            page = runbook("slow-disk", tmp_path, lab_cluster, slow, **places)
            assert longest_append(await page.expect(0)) >= 0.3
            await page.expect(0, "event lag")
            await page.expect(1, "fsync takes up to")
            await page.expect(0, PID=str(slow.pid))
            assert await slow.ended() == 0
            await lab_cluster.until_stock_controller()
            await page.expect(0)
            daemon = await lab_cluster.controlling(*options, settings=LONG, log_dir=fast / "refold")
            await lab_cluster.until_reported(daemon, "failover_done")
            await lab_cluster.until_in_sync("orders", 3)
            await page.expect(0, "role: active")
            assert longest_append(await page.expect(0)) < 0.3
            await page.expect(0)
            assert page.is_done


def longest_append(output: str) -> float:
    """The highest quantile of the appends."""
    return max(float(line.rpartition(" ")[2]) for line in output.splitlines())
