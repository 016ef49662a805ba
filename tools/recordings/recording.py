"""One recording: set the cluster up, run the mix, write the folder."""

import asyncio
import json
import shutil
import tarfile
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from tools.lab.zookeeper import LATEST
from tools.recordings.brokers import log_names
from tools.recordings.journal import now_ms
from tools.recordings.mixes import MIXES
from tools.recordings.operations.servers import restore_log_dirs
from tools.recordings.operations.settings import UNLIMITED, set_rate
from tools.recordings.recorded_cluster import RecordedCluster
from tools.recordings.setup import SetupOptions, draw_setup

_IN_SYNC_SECONDS_MAX = 40.0
_QUIET_SECONDS = 4.0
_QUIET_SECONDS_MAX = 30.0
_POLL_SECONDS = 0.5


async def record(options: SetupOptions, folder: Path) -> None:
    """Record an incident into the existing folder `folder`.

    An error of the script is stored in scenario.json, with everything recorded so far.
    """
    rng = Random(f"{options.mix} {options.seed}")
    mix = MIXES[options.mix]
    setup = draw_setup(options, rng, mix.setup)
    with tempfile.TemporaryDirectory(prefix="recording-") as servers:
        cluster = RecordedCluster(Path(servers), setup, options.logging, rng)
        scenario: dict[str, Any] = {
            "scenario": options.mix,
            "seed": options.seed,
            "kafka_version": setup.kafka,
            "zookeeper_version": LATEST,
            "started_ms": now_ms(),
            "ending": setup.ending,
            "error": None,
            "chroot": setup.chroot,
            "inter.broker.protocol.version": setup.protocol,
            "zookeeper_config": {name: int(value) for name, value in setup.zookeeper.items()},
            "logging": options.logging,
        }
        async with cluster:
            scenario["brokers"] = {str(one.broker_id): one.config.copy() for one in cluster.brokers}
            try:
                await mix.run(cluster, rng, options.seconds)
                await bring_back(cluster)
                (folder / "final.json").write_text(json.dumps(await _final(cluster)))
                await _end(cluster)
            except Exception:
                scenario["error"] = traceback.format_exc()
        scenario |= {
            "ended_ms": now_ms(),
            "recorder_sessions": cluster.znodes.sessions,
            "actions": cluster.journal.actions,
        }
        text = json.dumps(scenario, indent=1, default=str).replace(servers, ".")
        (folder / "scenario.json").write_text(text)
        await asyncio.to_thread(_collect, cluster, folder)


def pack(folder: Path) -> Path:
    """Write the archive FOLDER.tar.xz next to the folder."""
    packed = folder.with_name(f"{folder.name}.tar.xz")
    with tarfile.open(packed, "w:xz") as archive:
        archive.add(folder, folder.name)
    return packed


# The end of an incident ---------------------------------------------------------------------------


async def bring_back(cluster: RecordedCluster) -> None:
    """Start all servers again, and wait until replicas are in sync where possible."""
    cluster.journal.note("the mix has ended; all servers are started again")
    await cluster.all_done()
    for broker in cluster.in_state("paused"):
        broker.resume()
    for broker in cluster.brokers:
        if any(one.is_file() for one in broker.log_dirs) and broker.running:
            broker.kill()
        if not broker.running:
            restore_log_dirs(broker)
            await cluster.start(broker)
    await set_rate(cluster, UNLIMITED)
    with cluster.journal.action("wait_full_isr"):
        await _until_in_sync(cluster)
    with cluster.journal.action("wait_quiet"):
        await _until_quiet(cluster)


async def _until_in_sync(cluster: RecordedCluster) -> None:
    deadline = time.monotonic() + _IN_SYNC_SECONDS_MAX
    while True:
        not_in_sync = [
            topic
            for topic, partitions in (await cluster.topics()).items()
            for number, state in (await cluster.states(topic)).items()
            if len(state["isr"]) < len(partitions[str(number)])
        ]
        if not not_in_sync:
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"not in sync: {sorted(set(not_in_sync))}")
        await asyncio.sleep(_POLL_SECONDS)


async def _until_quiet(cluster: RecordedCluster) -> None:
    deadline = time.monotonic() + _QUIET_SECONDS_MAX
    before, since = await _zxid(cluster), time.monotonic()
    while time.monotonic() < deadline:
        if time.monotonic() - since > _QUIET_SECONDS:
            return
        await asyncio.sleep(_POLL_SECONDS)
        if (now := await _zxid(cluster)) != before:
            before, since = now, time.monotonic()


async def _zxid(cluster: RecordedCluster) -> str:
    """ZooKeeper's last zxid."""
    lines = (await cluster.zookeeper.four_letter_word("srvr")).splitlines()
    return next(line.split()[1] for line in lines if line.startswith("Zxid:"))


async def _final(cluster: RecordedCluster) -> dict[str, Any]:
    before = await _zxid(cluster)
    znodes = await cluster.znodes.dump()
    return {
        "zxid_before": before,
        "zxid_after": await _zxid(cluster),
        "taken_ms": now_ms(),
        "chroot": cluster.setup.chroot,
        "znodes": znodes,
    }


async def _end(cluster: RecordedCluster) -> None:
    if cluster.setup.ending == "abrupt":
        with cluster.journal.action("zookeeper_stop", signal="SIGKILL"):
            cluster.zookeeper.kill()
        return
    with cluster.journal.action("brokers_stop", signal="SIGTERM"):
        for broker in cluster.brokers:
            await broker.stop()
    with cluster.journal.action("zookeeper_stop", signal="SIGTERM"):
        await cluster.zookeeper.stop()


# The folder ---------------------------------------------------------------------------------------


def _collect(cluster: RecordedCluster, folder: Path) -> None:
    versioned = cluster.zookeeper.folder / "data" / "version-2"
    kept = [one for one in versioned.iterdir() if one.name.startswith(("log.", "snapshot."))]
    (folder / "zookeeper" / "version-2").mkdir(parents=True)
    for file in kept:
        shutil.copyfile(file, folder / "zookeeper" / "version-2" / file.name)
    for source, target in _logs(cluster, folder):
        target.parent.mkdir(parents=True, exist_ok=True)
        with source.open(errors="replace") as lines, target.open("w") as copy:
            copy.writelines(line.replace(str(cluster.lab.folder), ".") for line in lines)


def _logs(cluster: RecordedCluster, folder: Path) -> Iterator[tuple[Path, Path]]:
    for broker in cluster.brokers:
        for name in log_names(cluster.logging):
            if (broker.folder / name).exists():
                yield broker.folder / name, folder / "logs" / broker.name / name
