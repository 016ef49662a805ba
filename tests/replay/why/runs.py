"""Successive runs of the daemon in one cluster, each with a separate log."""

from collections.abc import Callable
from pathlib import Path

from controller.core import znodes
from controller.core.commands import Issued
from controller.core.operations import SetData
from controller.core.values import ANY_VERSION
from tests.controller.core.cluster import Cluster
from tests.replay.recorded_log import write_log

BETWEEN_MS = 60_000


class Killed(Exception):
    """The daemon is killed: none of its later commands is carried out."""


def kill_before(
    cluster: Cluster, which: Callable[[Issued], bool], what: Callable[[], object]
) -> None:
    """Kills the daemon during `what`, just before it carries out a command."""

    def kill() -> None:
        raise Killed

    cluster.once(which, kill)
    try:
        what()
    except Killed:
        end_session(cluster)
    else:
        raise AssertionError("the daemon issued no such command")


def end_session(cluster: Cluster) -> None:
    """Ends the session of a killed daemon."""
    cluster.zookeeper.end_session(cluster.session)


def next_run(before: Cluster) -> Cluster:
    """The next run of the daemon in the same cluster, a minute later; it has not started."""
    settings = before.fold.controller.configuration
    run = Cluster(zookeeper=before.zookeeper, kip_236_enable=settings.kip_236_enable)
    run.now_ms = before.now_ms + BETWEEN_MS
    run.brokers = before.brokers
    run.broker_sessions = before.broker_sessions
    return run


def stock_term(cluster: Cluster, broker: int, what: Callable[[], object] = lambda: None) -> None:
    """Makes a stock broker the controller during `what`."""
    session = cluster.take_role(broker)
    what()
    cluster.zookeeper.end_session(session)


def store(folder: Path, *runs: Cluster) -> list[Path]:
    """Writes the log of each run with the daemon's names; only the last log is closed."""
    paths = [folder / f"run-{number}" for number in range(1, len(runs) + 1)]
    for path, run in zip(paths, runs, strict=True):
        write_log(path, run, close=run is runs[-1])
    return paths


def set_state(cluster: Cluster, data: bytes) -> None:
    """Writes the state of t-0 as a controller."""
    cluster.ask(SetData(znodes.state_path("t", 0), data, ANY_VERSION))
