"""Incidents on two real clusters under refold. Their logs are published to a topic on the first
cluster, and a live job reads the topic meanwhile."""

import asyncio
import signal
import subprocess
from pathlib import Path
from typing import Final, NamedTuple

from eventstore.folders import logs_in
from eventstore.reader import LogReader
from tests.replay.fleet.live.job import START_MAX_S, command, job, kafka_jars, log_rows
from tools.incidents import scripts
from tools.incidents.incident_cluster import IncidentCluster
from tools.lab import refold
from tools.lab.cluster_view import until

TOPIC: Final = "refold-log"
_PARTITIONS: Final = 6
_END_MAX_S: Final = 60.0


class Played(NamedTuple):
    """The results: the daemons' logs of both clusters, the same logs fetched from the topic, the
    folder of the live job, and its output."""

    first: list[Path]
    second: list[Path]
    fetched: Path
    live: Path
    output: list[str]


def play(folder: Path) -> Played:
    """Run all incidents; no server is left running. Raises RuntimeError, TimeoutError."""
    return asyncio.run(_play(folder))


async def _play(folder: Path) -> Played:
    fetched, live = folder / "fetched", folder / "live"
    async with IncidentCluster(folder / "first", "3.9", mirror="own") as first:
        await first.make(scripts.TOPIC, scripts.PARTITIONS)
        await first.make("moved", {0: [1, 2], 1: [1, 2]})
        await first.until_partitions(TOPIC, _PARTITIONS)
        with (
            (folder / "live.out").open("wb") as output,
            job(command(first.bootstrap, TOPIC, live, kafka_jars(), "--json"), output) as following,
        ):
            for _ in range(3):
                await scripts.broker_crash(first)
            await scripts.reassignment(first)
            await scripts.reassignment_end(first)
            await scripts.failover(first)
            async with IncidentCluster(folder / "second", "2.8", mirror=first.bootstrap) as second:
                await second.make(scripts.TOPIC, scripts.PARTITIONS)
                await scripts.controlled_shutdown(second)
                await scripts.session_expiry(second)
                await scripts.unclean_election(second)
                await second.hand_back()
            await first.hand_back()
            logs = [logs_in(one.log_dir) for one in (first, second)]
            for one in (first, second):
                await _refold("log", "mirror", str(one.log_dir), *_at(first))
            await _refold("log", "fetch", *_at(first), "--out", str(fetched))
            await _until_followed([*logs[0], *logs[1]], live, following)
            following.send_signal(signal.SIGINT)
            if await asyncio.to_thread(following.wait, _END_MAX_S) != 0:
                raise RuntimeError(f"the live job failed: {_last_output(following)}")
    return Played(*logs, fetched, live, (folder / "live.out").read_text().splitlines())


def _at(cluster: IncidentCluster) -> tuple[str, ...]:
    return ("--bootstrap-server", cluster.bootstrap, "--topic", TOPIC)


async def _refold(*arguments: str) -> None:
    status, output = await refold.run(*arguments)
    if status != 0:
        raise RuntimeError(f"refold {' '.join(arguments)}: {output}")


async def _until_followed(logs: list[Path], live: Path, following: subprocess.Popen[str]) -> None:
    """Waits until the live job has folded each log completely."""
    ends = {}
    for log in logs:
        with LogReader(log) as reader:
            ends[log.name] = reader.last_seq

    async def followed() -> bool:
        if following.poll() is not None:
            raise RuntimeError(f"the live job has ended: {_last_output(following)}")
        return {log: seq for log, (_, seq, _) in log_rows(live).items()} == ends

    await until(followed, START_MAX_S, f"the live job is at {ends}")


def _last_output(following: subprocess.Popen[str]) -> str:
    assert following.stderr is not None
    return following.stderr.read()
