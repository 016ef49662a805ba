"""A daemon that cannot store events resigns at once. Also: a log that rolls over."""

import json
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controller.daemon.lab_cluster import OWN_ID, LabCluster, timed
from tools.lab.refold import Refold, run

pytestmark = [pytest.mark.lab, pytest.mark.timeout(120)]

LONG_SESSION_MS = 18_000
GIVE_UP_SECONDS_MAX = 3.0
TMPFS_BYTES = 8 << 20
PADDING = " " * 400_000
LONG = {"zookeeper.session.timeout.ms": LONG_SESSION_MS}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a tmpfs")
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={TMPFS_BYTES}", "tmpfs", str(folder)], check=False
    )
    if mounted.returncode != 0:
        pytest.skip("no tmpfs can be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


async def assert_gave_up(lab_cluster: LabCluster, daemon: Refold, *words: str) -> None:
    """The daemon exited with one error, and a stock broker was elected without waiting for the end
    of its session."""
    seconds = await lab_cluster.until_stock_controller()
    assert seconds < GIVE_UP_SECONDS_MAX
    assert await daemon.ended() == 1
    said = daemon.last_output()
    assert "Traceback" not in said
    (error,) = [one for one in daemon.messages() if one["message"].startswith("gave up")]
    assert [word for word in words if word not in error["message"]] == []


async def assert_ended_unclosed(lab_cluster: LabCluster) -> None:
    """Every stored record can be read."""
    (log,) = lab_cluster.logs()
    status, output = await run("log", "verify", str(log))
    assert status == 0, output
    assert "not closed" in output


@pytest.mark.ci
async def test_full_disk_resigns_the_role(lab_cluster: LabCluster, small_disk: Path) -> None:
    daemon = await lab_cluster.controlling(log_dir=small_disk / "logs", settings=LONG)
    await lab_cluster.create_topic("before-the-disk-is-full", {0: [1, 2, 3]})
    fill(small_disk / "filler")
    for number in range(20):
        await lab_cluster.view.create_topic(f"disk-full-{number}", {0: [1, 2, 3]})
    await assert_gave_up(lab_cluster, daemon, str(small_disk), "full")
    (small_disk / "filler").unlink()
    await assert_ended_unclosed(lab_cluster)
    await lab_cluster.check_logs()


def fill(file: Path) -> None:
    """Fill the file system completely."""
    with file.open("wb", buffering=0) as filler:
        try:
            while filler.write(b"\0" * 4096):
                pass
        except OSError:
            pass


@pytest.mark.ci
async def test_log_locked_by_another_process_resigns_the_role(lab_cluster: LabCluster) -> None:
    """The daemon resigns after an append of a third of the session timeout."""
    daemon = await lab_cluster.controlling(settings={"zookeeper.session.timeout.ms": 6000})
    (log,) = lab_cluster.logs()
    (segment,) = log.glob("*.refold")
    other = sqlite3.connect(segment, isolation_level=None)
    try:
        other.execute("begin immediate")
        await lab_cluster.view.create_topic("while-locked", {0: [1, 2, 3]})
        await lab_cluster.until_stock_controller()
        assert await daemon.ended() == 1
    finally:
        other.close()
    assert "Traceback" not in daemon.last_output()
    assert str(log) in daemon.last_output()
    await assert_ended_unclosed(lab_cluster)


async def test_removed_log_file_resigns_the_role(lab_cluster: LabCluster) -> None:
    daemon = await lab_cluster.controlling(settings=LONG)
    (log,) = lab_cluster.logs()
    (segment,) = log.glob("*.refold")
    moved = segment.with_suffix(".moved")
    segment.rename(moved)
    await lab_cluster.view.create_topic("file-taken-away", {0: [1, 2, 3]})
    await assert_gave_up(lab_cluster, daemon, str(segment))
    moved.rename(segment)
    await assert_ended_unclosed(lab_cluster)


HANGS = """
import threading
from replay.cli.main import main
from eventstore.writer import LogWriter

append = LogWriter.append

def hang_later(self, events, commands=()):
    if any(one.kind == "watch_fired" and b"/brokers/topics" in one.payload for one in events):
        connection = self._database.conn
        connection.create_function("hang", 0, lambda: threading.Event().wait())
        connection.execute("create temp trigger h before insert on events begin select hang(); end")
    append(self, events, commands)

LogWriter.append = hang_later
main()
"""
"""A daemon whose SQLite never answers after a topic is created."""


@pytest.mark.ci
async def test_disk_that_hangs_forever_resigns_the_role(lab_cluster: LabCluster) -> None:
    daemon = lab_cluster.daemon("--take-over", settings=LONG, program=HANGS)
    await daemon.start()
    await lab_cluster.until_reported(daemon, "failover_done")
    await lab_cluster.view.create_topic("while-the-disk-hangs", {0: [1, 2, 3]})
    seconds = await lab_cluster.until_stock_controller()
    # After a third of the session timeout the session is closed, and does not expire.
    assert seconds < LONG_SESSION_MS / 3000 + GIVE_UP_SECONDS_MAX
    assert await daemon.ended() == 1
    said = daemon.last_output()
    assert "Traceback" not in said
    assert "so the controller role was given up" in said


@pytest.mark.ci
async def test_log_rolls_over_and_old_segments_are_removed(lab_cluster: LabCluster) -> None:
    daemon = await lab_cluster.controlling(
        settings={
            "refold.log.segment.bytes": 1 << 20,
            "refold.log.retention.bytes": 3 << 20,
        }
    )
    await lab_cluster.create_topic("rolled", {0: [1, 2, 3]})
    await lab_cluster.until_in_sync("rolled", 3)
    (log,) = lab_cluster.logs()
    for number in range(1, 16):
        # The daemon reads the znode again each time. Spaces in it have no meaning.
        added = {str(one): [1, 2, 3] for one in range(number + 1)}
        content = json.dumps({"version": 1, "partitions": added}) + PADDING
        await lab_cluster.view.overwrite("/brokers/topics/rolled", content)
        await lab_cluster.until_led("rolled", dict.fromkeys(range(number + 1), 1))

    async def first_is_gone() -> bool:
        return not (log / "00000000000000000001.refold").exists()

    await timed(first_is_gone, "retention removed the first segment")
    assert await lab_cluster.view.controller() == OWN_ID
    assert await daemon.stop() == 0
    status, output = await run("log", "verify", str(log))
    assert status == 0, output
    assert len(list(log.glob("*.refold"))) > 1
