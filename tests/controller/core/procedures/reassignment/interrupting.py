"""A simulated cluster whose reassignments can be interrupted, and its KIP-236 znodes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from controller.core import znodes
from controller.core.commands import Issued, WriteAtomically, WriteZnodes, ZooKeeperCommand
from controller.core.events import WatchFired, ZnodesWritten
from controller.core.operations import OK, CreateSequential, Delete
from controller.core.values import ANY_VERSION, LeaderAndIsr
from controller.core.znodes import (
    CANCEL_CONTENT,
    FORCED_CANCEL_CONTENT,
    REASSIGN_CANCEL,
    REASSIGN_PARTITIONS_EXTRA,
    REASSIGNMENT_REQUESTS,
    REASSIGNMENTS,
    REQUEST_PREFIX,
    Entry,
    Reassignment,
    read_entries,
    read_reassignment,
    reassignment_path,
    reassignments_path,
    write_entries,
    write_request,
)
from replay.world.outcomes import ZooKeeperOutcome
from replay.world.requests import GetChildren, GetData
from tests.controller.core.cluster import Cluster
from tests.controller.core.procedures.reassignment.reassigning import T0, T1, Name, catch_up

_NO_AUTH = -102

Targets = Mapping[Name, Sequence[int]]


def interruptible(brokers: int, *replicas: int, **settings: Any) -> Cluster:
    """Brokers 1 to `brokers`, and t-0 on `replicas`."""
    cluster = Cluster(*range(1, brokers + 1), kip_236_enable=True, **settings).start()
    cluster.create_topic("t", {0: replicas})
    return cluster


def two_partitions(
    first: Sequence[int] = (1,), second: Sequence[int] = (2,), kind: type[Cluster] = Cluster
) -> Cluster:
    """Brokers 1 to 4. t-0 is on the brokers `first`, and t-1 on `second`."""
    cluster = kind(1, 2, 3, 4, kip_236_enable=True).start()
    cluster.create_topic("t", {0: first, 1: second})
    return cluster


def one_by_each_route() -> Cluster:
    """t-0 moves to 3 by an entry, t-1 to 4 by a request."""
    cluster = two_partitions()
    submit(cluster, {T0: [3]})
    request(cluster, {T1: [4]})
    return cluster


def half_way(*in_sync: int) -> Cluster:
    """The example of KIP-236 M-06: [1,2,3] moves to [4,5,6], of which some are in sync."""
    cluster = interruptible(6, 1, 2, 3)
    submit(cluster, {T0: [4, 5, 6]})
    catch_up(cluster, *in_sync)
    return cluster


class WriteRejectingCluster(Cluster):
    """A cluster whose ZooKeeper rejects the controller's writes that `refuses` matches."""

    def __init__(self, *brokers: int, **settings: Any) -> None:
        super().__init__(*brokers, **settings)
        self.refuses: Callable[[Issued], bool] = lambda issued: False

    def ask_zookeeper(self, issued: Issued, command: ZooKeeperCommand) -> list[ZooKeeperOutcome]:
        if isinstance(command, WriteZnodes | WriteAtomically) and self.refuses(issued):
            errors = [_NO_AUTH for _ in command.operations]
            if isinstance(command, WriteAtomically):
                # The first operation checks /controller_epoch.
                errors = [OK, *errors[1:]]
            return [ZnodesWritten(issued.id, 0, errors, [-1] * len(errors))]
        return super().ask_zookeeper(issued, command)


class OtherControllersTerm:
    """The term of another controller that does nothing. The daemon sees changes of the `with`
    block when it is controller again."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def __enter__(self) -> None:
        self._session = self._cluster.seize_role(9)
        self._cluster.run()

    def __exit__(self, *_: object) -> None:
        self._cluster.leave_role(self._session)
        assert self._cluster.is_active


# Writes of tools --------------------------------------------------------------------------------


def entries_json(targets: Targets) -> bytes:
    """Entries without originals."""
    return write_entries({name: Entry(tuple(replicas)) for name, replicas in targets.items()})


def submit(cluster: Cluster, targets: Targets) -> None:
    """A tool writes /admin/reassign_partitions."""
    cluster.put(znodes.REASSIGN_PARTITIONS, entries_json(targets))


def submit_extra(cluster: Cluster, targets: Targets) -> None:
    """A tool writes /admin/reassign_partitions_extra."""
    cluster.put(REASSIGN_PARTITIONS_EXTRA, entries_json(targets))


def request_quietly(cluster: Cluster, targets: Targets, *, legacy: bool = False) -> str:
    """A client creates a request. The controller does not react yet. Returns the path."""
    wanted = {name: tuple(replicas) for name, replicas in targets.items()}
    created = cluster.ask(CreateSequential(REQUEST_PREFIX, write_request(wanted, legacy=legacy)))
    assert created.path
    return created.path


def request(cluster: Cluster, targets: Targets, *, legacy: bool = False) -> str:
    """A client creates a request. Returns the path."""
    path = request_quietly(cluster, targets, legacy=legacy)
    cluster.run()
    return path


def cancel_all(cluster: Cluster) -> None:
    """--cancel."""
    cluster.put(REASSIGN_CANCEL, CANCEL_CONTENT)


def force_all(cluster: Cluster) -> None:
    """--cancel --force."""
    cluster.put(REASSIGN_CANCEL, FORCED_CANCEL_CONTENT)


def cancel_quietly(cluster: Cluster) -> None:
    """As `cancel_all`, but the controller does not react yet."""
    cluster.put_quietly(REASSIGN_CANCEL, CANCEL_CONTENT)


def cancel_briefly(cluster: Cluster) -> None:
    """/admin/reassign_cancel is created and deleted again before the controller reacts."""
    cancel_quietly(cluster)
    remove_cancel_quietly(cluster)


def submit_quietly(cluster: Cluster, targets: Targets) -> None:
    """As `submit`, but the controller does not react yet."""
    cluster.put_quietly(znodes.REASSIGN_PARTITIONS, entries_json(targets))


def put_isr_quietly(cluster: Cluster, *isr: int) -> None:
    """Another controller writes the state of t-0: the ISR, whose first member leads."""
    before = cluster.leadership("t", 0)
    state = LeaderAndIsr(isr[0], before.leader_epoch + 1, isr, 0, before.controller_epoch)
    cluster.put_quietly(znodes.state_path("t", 0), znodes.write_state(state))


def set_minimum(cluster: Cluster, least: int, topic: str = "t") -> None:
    """Set the topic's min.insync.replicas."""
    config = {"version": 1, "config": {"min.insync.replicas": str(least)}}
    cluster.put_quietly(znodes.topic_config_path(topic), msgspec.json.encode(config))


def remove_cancel(cluster: Cluster) -> None:
    """--remove-cancel."""
    cluster.remove(REASSIGN_CANCEL)


def remove_cancel_quietly(cluster: Cluster) -> None:
    """As `remove_cancel`, but the controller does not react yet."""
    cluster.ask(Delete(REASSIGN_CANCEL, ANY_VERSION))


# State of the cluster ---------------------------------------------------------------------------


def entries(cluster: Cluster, path: str = znodes.REASSIGN_PARTITIONS) -> dict[Name, Entry] | None:
    """The entries of /admin/reassign_partitions; None if it does not exist."""
    data = cluster.data(path)
    return None if data is None else read_entries(path, data).entries


def extra(cluster: Cluster) -> dict[Name, Entry] | None:
    """The entries of /admin/reassign_partitions_extra; None if it does not exist."""
    return entries(cluster, REASSIGN_PARTITIONS_EXTRA)


def record(cluster: Cluster, name: Name = T0) -> Reassignment | None:
    """The record of a partition below /admin/reassignments; None if it has none."""
    path = reassignment_path(*name)
    data = cluster.data(path)
    return None if data is None else read_reassignment(path, data)


def identity(cluster: Cluster, name: Name = T0) -> tuple[int, int]:
    """The czxid and mzxid of a partition's record."""
    stat = cluster.ask(GetData(reassignment_path(*name))).stat
    assert stat is not None, f"{name} has no record"
    return stat.czxid, stat.mzxid


def records(cluster: Cluster) -> list[Name]:
    """The partitions with a record."""
    return [
        (topic, int(number))
        for topic in cluster.ask(GetChildren(REASSIGNMENTS)).children or ()
        for number in cluster.ask(GetChildren(reassignments_path(topic))).children or ()
    ]


def topics_with_records(cluster: Cluster) -> list[str]:
    """The parents below /admin/reassignments."""
    return list(cluster.ask(GetChildren(REASSIGNMENTS)).children or ())


def requests(cluster: Cluster) -> list[str]:
    """The waiting requests."""
    return list(cluster.ask(GetChildren(REASSIGNMENT_REQUESTS)).children or ())


def assert_nothing_is_left(cluster: Cluster) -> None:
    """No znode of a reassignment exists, except perhaps a cancellation."""
    assert entries(cluster) is None
    assert extra(cluster) is None
    assert topics_with_records(cluster) == []
    assert requests(cluster) == []


def files(cluster: Cluster) -> list[int]:
    """The brokers that have files of t-0."""
    return [id for id, one in cluster.brokers.items() if T0 in one.logs]


def written_in(step: Sequence[Issued]) -> list[str]:
    """The paths that a step wrote."""
    return [
        operation.path
        for issued in step
        for operation in getattr(issued.command, "operations", ())
        if not operation.path.endswith("/controller_epoch")
    ]


class OldServerCluster(Cluster):
    """A cluster whose ZooKeeper does not report the transaction of a watch event (before 3.9)."""

    def take_watch_events(self) -> list[WatchFired]:
        return [msgspec.structs.replace(one, zxid=-1) for one in super().take_watch_events()]


KINDS = [Cluster, OldServerCluster]
"""Clusters whose servers do and do not report the transaction of a watch event."""
