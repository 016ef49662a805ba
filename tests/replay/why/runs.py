"""Runs of the daemon in one cluster, one after the other, each with a log of its own."""

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
    """The daemon is killed: nothing that it has decided since is carried out."""


def kill_before(
    cluster: Cluster, which: Callable[[Issued], bool], what: Callable[[], object]
) -> None:
    """Do something, in which the daemon is killed just before it carries out a command."""

    def kill() -> None:
        raise Killed

    cluster.once(which, kill)
    try:
        what()
    except Killed:
        end_session(cluster)
    else:
        raise AssertionError("the daemon has decided no such command")


def end_session(cluster: Cluster) -> None:
    """The session of a daemon that is gone ends."""
    cluster.zookeeper.end_session(cluster.session)


def next_run(before: Cluster) -> Cluster:
    """Another run of the daemon in the same cluster, a minute later; it has not begun."""
    settings = before.fold.controller.configuration
    run = Cluster(zookeeper=before.zookeeper, kip_236_enable=settings.kip_236_enable)
    run.now_ms = before.now_ms + BETWEEN_MS
    run.brokers = before.brokers
    run.broker_sessions = before.broker_sessions
    return run


def stock_term(cluster: Cluster, broker: int, what: Callable[[], object] = lambda: None) -> None:
    """A stock broker is controller for a while, and does something."""
    session = cluster.take_role(broker)
    what()
    cluster.zookeeper.end_session(session)


def store(folder: Path, *runs: Cluster) -> list[Path]:
    """The log of each run, as the daemon names them; all but the last were not closed."""
    paths = [folder / f"run-{number}" for number in range(1, len(runs) + 1)]
    for path, run in zip(paths, runs, strict=True):
        write_log(path, run, close=run is runs[-1])
    return paths


def set_state(cluster: Cluster, data: bytes) -> None:
    """A controller writes the state of t-0."""
    cluster.ask(SetData(znodes.state_path("t", 0), data, ANY_VERSION))
