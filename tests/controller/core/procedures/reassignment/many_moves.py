"""Moves of 25 partitions of t in parts of 10, and urgent events meanwhile.

u-0 is on brokers 1 and 2 and stays there.
"""

from collections.abc import Callable

from controller.core import znodes
from controller.core.api_requests.alter_partition import (
    AlterPartitionReceived,
    AlterPartitionResponse,
)
from controller.core.api_requests.controlled_shutdown import (
    ControlledShutdownReceived,
    ControlledShutdownResponse,
)
from controller.core.commands import (
    Issued,
    ReadStats,
    ReadZnodes,
    WriteAtomically,
)
from controller.core.znodes import Entry, Reassignment, reassignment_path
from tests.controller.core.cluster import Cluster, Seen
from tests.controller.core.endpoint import proposal
from tests.controller.core.procedures.reassignment.interrupting import (
    OtherControllersTerm,
    entries,
    identity,
    record,
    submit_quietly,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    Name,
    assert_no_failures,
    assignment,
    reassigning,
)

COUNT = 25
PART = 10
ALL: list[Name] = [("t", number) for number in range(COUNT)]
LAST = ALL[-1]
U0 = ("u", 0)
UNDER_WAY = "3,4,1,2 adding 3,4 removing 1,2"
RECORD = Reassignment((3, 4), 2, True, (1, 2))


def with_25_partitions() -> Cluster:
    """t with 25 partitions on [1,2], and u-0 on [1,2]."""
    cluster = Cluster(1, 2, 3, 4, 5, kip_236_enable=True).start()
    cluster.create_topic("t", {key: [1, 2] for _, key in ALL})
    cluster.create_topic("u", {0: [1, 2]})
    return cluster


def begin_elsewhere(cluster: Cluster, count: int = COUNT, *target: int) -> None:
    """A stock controller begins moves of the first partitions of t from [1,2], to [3,4] if there is
    no `target`."""
    to, moving = list(target or (3, 4)), [str(key) for _, key in ALL[:count]]
    submit_quietly(cluster, {name: to for name in ALL[:count]})
    cluster.change_topic_quietly(
        "t",
        {key: [*to, 1, 2] if key < count else [1, 2] for _, key in ALL},
        adding_replicas={key: to for key in moving},
        removing_replicas={key: [1, 2] for key in moving},
    )


def set_isrs(cluster: Cluster, *isr: int) -> None:
    """The ISR of each partition of t while another controller has the role."""
    for name in ALL:
        cluster.set_isr(*name, isr)


def taken_over(cluster: Cluster) -> Cluster:
    """The daemon takes over the moves of all partitions of t."""
    with OtherControllersTerm(cluster):
        begin_elsewhere(cluster)
    return cluster


def taken_over_quietly(cluster: Cluster) -> None:
    """As `taken_over`, but the daemon may lose the role meanwhile."""
    session = cluster.seize_role(9)
    cluster.run()
    begin_elsewhere(cluster)
    cluster.leave_role(session)


def reads(*paths: str) -> Callable[[Issued], bool]:
    """A predicate that matches a read of one of these znodes."""

    def matches(issued: Issued) -> bool:
        command = issued.command
        return isinstance(command, ReadZnodes | ReadStats) and command.paths[0] in paths

    return matches


def creates_record(*names: Name) -> Callable[[Issued], bool]:
    """A predicate that matches the write of the record of one of these partitions."""
    paths = {reassignment_path(*name) for name in names}

    def matches(issued: Issued) -> bool:
        command = issued.command
        return isinstance(command, WriteAtomically) and any(
            one.path in paths for one in command.operations
        )

    return matches


ANY_RECORD = creates_record(*ALL)
READS_RECORDS = reads(*(reassignment_path(*name) for name in ALL))
READS_ENTRIES = reads(znodes.REASSIGN_PARTITIONS)
FIRST_PART = creates_record(ALL[0])
SECOND_PART = creates_record(ALL[PART])


def steps(seen: Seen) -> list[str]:
    """The written records, reads of the entries, elections of u-0 and of t-24, and answers, in
    order."""
    states = {"u-0": znodes.state_path(*U0), "t-24": znodes.state_path(*LAST)}
    found: list[str] = []
    for issued in (one for _, commands in seen.history for one in commands):
        command = issued.command
        paths = [one.path for one in getattr(command, "operations", ())]
        if ANY_RECORD(issued):
            found.append("record")
        if READS_ENTRIES(issued):
            found.append("entries")
        if "election" in issued.reason.rule:
            found += [one for one, path in states.items() if path in paths]
        if isinstance(command, AlterPartitionResponse | ControlledShutdownResponse):
            found.append("answer")
    return found


def records_before(seen: Seen, what: str) -> int:
    """The number of records that were written before `what`."""
    found = steps(seen)
    return found[: found.index(what)].count("record")


def assert_recorded_once(cluster: Cluster) -> None:
    """Each move has a separate record and is under way."""
    assert {record(cluster, name) for name in ALL} == {RECORD}
    assert {assignment(cluster, name) for name in ALL} == {UNDER_WAY}
    assert len({identity(cluster, name)[0] for name in ALL}) == COUNT
    assert entries(cluster) == dict.fromkeys(ALL, Entry((3, 4), (1, 2)))
    assert reassigning(cluster) == ALL
    assert_no_failures(cluster)


def broker_1_dies(cluster: Cluster) -> None:
    """The registration of broker 1, which leads all partitions, is deleted."""
    cluster.unregister(1)


def leader_asks_for_isr(cluster: Cluster) -> None:
    """The leader of u-0 requests an ISR without broker 2."""
    asked = proposal(cluster, *U0, isr=(1,))
    epoch = cluster.broker_epoch(1)
    cluster.happen_next(AlterPartitionReceived(77, 3, 1, epoch, [asked]), "api:1")


def broker_1_shuts_down(cluster: Cluster) -> None:
    """Broker 1 asks for a controlled shutdown."""
    shuts_down(cluster, 1)


def shuts_down(cluster: Cluster, broker: int) -> None:
    """A broker asks for a controlled shutdown."""
    epoch = cluster.broker_epoch(broker)
    cluster.happen_next(ControlledShutdownReceived(77, 3, broker, epoch), f"api:{broker}")
