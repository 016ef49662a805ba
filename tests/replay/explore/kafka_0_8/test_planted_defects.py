"""Each invariant of the 0.8 design is broken by a defect in the code of the design."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from controller.core.commands import Reason
from controller.core.operations import NO_AUTH, NO_NODE, WriteOperation
from controller.core.outcomes import Writes, ZnodeColumns
from controller.kafka_0_8 import admin, records, rules, znodes
from controller.kafka_0_8.broker import Broker
from controller.kafka_0_8.commands import RespondFetch
from controller.kafka_0_8.configuration import CURRENT_RULES
from controller.kafka_0_8.procedures import election, isr, leadership, reassignment, replicas
from controller.kafka_0_8.state import Name, Partition
from replay.explore.kafka_0_8.invariants import ALWAYS, RECOVERY
from replay.explore.kafka_0_8.losses import KNOWN_FLAWS
from replay.explore.run import NO_EXCEPTION
from replay.world.inputs import (
    CrashBroker,
    CreateTopic,
    CutConnection,
    DeleteTopic,
    ExpireSession,
    HoldLink,
    Reassign,
    StopBroker,
    Target,
)
from replay.world.kafka_0_8.networked.inputs import Input08
from replay.world.scenario import Scenario
from tests.replay.explore.kafka_0_8.small import broken_by, small

Plant = Callable[[pytest.MonkeyPatch], None]
LEADER_CUT_OFF = [
    CutConnection(5_000, "broker 1", "zookeeper", 9_000),
    HoldLink(5_000, "broker 1", "broker 2", 9_000),
    HoldLink(5_000, "broker 1", "broker 3", 9_000),
]


def commit_at_once(patch: pytest.MonkeyPatch) -> None:
    def commit(broker: Broker, partition: Partition) -> None:
        partition.local.hw = max(partition.local.hw, partition.local.leo)

    patch.setattr(records, "commit", commit)


def overrate_followers(patch: pytest.MonkeyPatch) -> None:
    original = records.commit

    def commit(broker: Broker, partition: Partition) -> None:
        for replica in partition.ar.values():
            replica.leo = partition.local.leo
        original(broker, partition)

    patch.setattr(records, "commit", commit)


def never_catch_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(isr, "has_caught_up", lambda partition, replica: False)


def join_twice(patch: pytest.MonkeyPatch) -> None:
    """Replicas of the ISR that was written are still taken for joining ones."""

    def commit(broker: Broker, partition: Partition) -> None:
        records.commit(broker, partition)
        partition.joining = partition.isr

    patch.setattr(isr, "commit", commit)


def forget_epochs(patch: pytest.MonkeyPatch) -> None:
    """A candidate does not notice that /brokers/epoch was set back."""
    patch.setattr(election, "seen_epoch", lambda broker, partition, found: 0)


def share_an_epoch(patch: pytest.MonkeyPatch) -> None:
    forget_epochs(patch)
    patch.setattr(znodes, "read_epoch", lambda data: 0)


def lead_without_the_znode(patch: pytest.MonkeyPatch) -> None:
    """A candidate takes the epoch of the leader before, whose ISR it does not check."""
    original = znodes.write_isr
    forget_epochs(patch)
    patch.setattr(znodes, "read_epoch", lambda data: 0)
    patch.setattr(znodes, "write_isr", lambda content: original(znodes.Isr(content.brokers, 1)))


def go_back_to_epoch(patch: pytest.MonkeyPatch) -> None:
    forget_epochs(patch)
    epochs = iter(range(90, 0, -1))
    patch.setattr(znodes, "read_epoch", lambda data: next(epochs))


def forget_the_leader_in_the_isr(patch: pytest.MonkeyPatch) -> None:
    original = znodes.write_isr

    def write_isr(content: znodes.Isr) -> bytes:
        return original(znodes.Isr(content.brokers[1:] or content.brokers, content.epoch))

    patch.setattr(znodes, "write_isr", write_isr)


def keep_the_isr(patch: pytest.MonkeyPatch) -> None:
    """A reassignment that ends keeps the old replicas in the ISR."""
    original = znodes.write_isr
    patch.setattr(
        reassignment.znodes,
        "write_isr",
        lambda content: original(znodes.Isr(tuple(sorted({1, *content.brokers})), content.epoch)),
    )


def close_assigned_replicas(patch: pytest.MonkeyPatch) -> None:
    """A request to close a replica is carried out as if the partition were deleted."""
    original = replicas.read_znodes

    async def read_znodes(broker: Broker, paths: Sequence[str], rule: str) -> ZnodeColumns:
        found = await original(broker, paths, rule)
        if rule == rules.ASSIGNMENT_DECIDES:
            found.errors[0] = NO_NODE
        return found

    patch.setattr(replicas, "read_znodes", read_znodes)


def elect_the_replica_of_a_deleted_partition(patch: pytest.MonkeyPatch) -> None:
    original = election.read_znodes

    async def read_znodes(broker: Broker, paths: Sequence[str], rule: str) -> ZnodeColumns:
        found = await original(broker, paths, rule)
        known = {znodes.replicas_path(*name): one for name, one in broker.partitions.items()}
        found.czxids[0] = known[paths[0]].czxid
        return found

    patch.setattr(election, "read_znodes", read_znodes)
    # A replica with records does not elect a leader of a partition without ISR either.
    patch.setattr(election, "THIRD_RULES", CURRENT_RULES)


def truncate_too_much(patch: pytest.MonkeyPatch) -> None:
    original = leadership.truncate

    async def truncate(broker: Broker, partition: Partition, offset: int, rule: str) -> None:
        await original(broker, partition, max(0, offset - 5), rule)

    patch.setattr(leadership, "truncate", truncate)


def show_uncommitted_records(patch: pytest.MonkeyPatch) -> None:
    """A response has all records of the leader, also to a consumer."""

    def respond(*fields: Any) -> RespondFetch:
        response = RespondFetch(*fields)
        return response if response.error else replace(response, end=response.leo)

    patch.setattr(records, "RespondFetch", respond)


def never_elect(patch: pytest.MonkeyPatch) -> None:
    """Only broker 1 can become leader."""
    original = election.write_atomically

    async def write_atomically(broker: Broker, operations: Sequence[Any], reason: Reason) -> Any:
        if broker.id == 1:
            return await original(broker, operations, reason)
        return [NO_AUTH] * len(operations)

    patch.setattr(election, "write_atomically", write_atomically)


def never_complete(patch: pytest.MonkeyPatch) -> None:
    async def complete(broker: Broker, partition: Partition) -> None: ...

    for module in (isr, reassignment):
        patch.setattr(module, "complete_if_caught_up", complete)


def keep_requests(patch: pytest.MonkeyPatch) -> None:
    """A request that was carried out is not deleted."""

    async def write(broker: Broker, operations: Sequence[WriteOperation], reason: Reason) -> Writes:
        return Writes(len(operations))

    patch.setattr(replicas, "write", write)


def never_close(patch: pytest.MonkeyPatch) -> None:
    async def close_replica(broker: Broker, name: Name) -> None: ...

    patch.setattr(replicas, "close_replica", close_replica)


def keep_producers_waiting(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leadership, "refuse_queued", lambda broker, partition: None)


def never_truncate(patch: pytest.MonkeyPatch) -> None:
    async def truncate(*_: object) -> None: ...

    patch.setattr(leadership, "truncate", truncate)


def raise_an_error(patch: pytest.MonkeyPatch) -> None:
    def read_leader(path: str, data: bytes | None) -> znodes.LeaderZnode:
        raise KeyError(path)

    patch.setattr(znodes, "read_leader", read_leader)


def check_only_the_version_of_the_isr(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(isr, "FIRST_RULES", CURRENT_RULES)


def delete_without_the_epoch(patch: pytest.MonkeyPatch) -> None:
    original = admin.delete_topic

    def delete_topic(*args: Any, **more: Any) -> list[WriteOperation]:
        return [one for one in original(*args, **more) if one.path != znodes.EPOCH]

    patch.setattr(admin, "delete_topic", delete_topic)


def let_replicas_join_that_were_started_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(isr, "SECOND_RULES", CURRENT_RULES)


DEFECTS: tuple[tuple[str, Plant, Scenario, Sequence[Input08]], ...] = (
    ("high-watermark-rises", commit_at_once, small((1, 2, 3)), []),
    ("isr-has-committed-records", overrate_followers, small((1, 2, 3)), []),
    ("isrs-full", never_catch_up, small((1, 2)), [StopBroker(5_000, 2, 6_000)]),
    ("ar-is-isr-and-cur", join_twice, small((1, 2)), []),
    ("one-leadership-in-an-epoch", share_an_epoch, small((1,), (1,)), []),
    (
        "one-leader-per-epoch",
        lead_without_the_znode,
        small((1, 2), acks=()),
        [StopBroker(5_000, 1, 3_000)],
    ),
    ("leader-epochs-forward", go_back_to_epoch, small((1,)), [ExpireSession(5_000, "broker 1")]),
    ("leader-in-isr", forget_the_leader_in_the_isr, small((1, 2)), [StopBroker(5_000, 2, 9_000)]),
    (
        "isr-within-assignment",
        keep_the_isr,
        small((1, 2)),
        [Reassign(5_000, (Target("t", 0, (2, 3)),))],
    ),
    (
        "assigned-replicas-kept",
        close_assigned_replicas,
        small((1,)),
        [
            StopBroker(5_000, 2, 3_000),
            CreateTopic(5_500, "u", ((2,),)),
            DeleteTopic(6_000, "u"),
            CreateTopic(6_500, "u", ((2,),)),
        ],
    ),
    (
        "leader-in-isr",
        check_only_the_version_of_the_isr,
        small((1, 2), acks=(-1,)),
        [
            HoldLink(5_000, "broker 2", "broker 1", 9_000),
            HoldLink(8_000, "zookeeper", "broker 1", 4_500),
            DeleteTopic(8_100, "t"),
            CreateTopic(8_200, "t", ((2, 3, 1),)),
        ],
    ),
    (
        "assigned-replicas-kept",
        delete_without_the_epoch,
        small((1, 2), acks=()),
        [
            CreateTopic(5_000, "u", ((1, 2),)),
            HoldLink(5_008, "broker 1", "zookeeper", 500),
            DeleteTopic(5_100, "u"),
            CreateTopic(5_150, "u", ((1, 2),)),
        ],
    ),
    (
        "assigned-replicas-kept",
        elect_the_replica_of_a_deleted_partition,
        small((1,), (1, 3), acks=(), zookeeper="3.5"),
        [DeleteTopic(8_000, "t"), CreateTopic(8_011, "t", ((3, 2, 1), (3, 2, 1)))],
    ),
    (
        "committed-records-kept",
        truncate_too_much,
        small((1, 2)),
        [
            CrashBroker(8_000, 2, restart_after_ms=0),
            CutConnection(8_000, "broker 1", "broker 2", 3_000),
            StopBroker(9_200, 1, 9_000),
        ],
    ),
    (
        "committed-records-kept",
        let_replicas_join_that_were_started_again,
        small((1, 2), acks=(-1,), active_ms=16_000),
        [
            StopBroker(5_000, 2, 5_000),
            HoldLink(11_010, "broker 1", "zookeeper", 1_600),
            CrashBroker(11_100, 2, restart_after_ms=0),
            CutConnection(11_100, "broker 1", "broker 2", 3_000),
            StopBroker(12_700, 1, 3_000),
        ],
    ),
    (
        "read-records-stable",
        show_uncommitted_records,
        small((1, 2, 3), active_ms=20_000),
        LEADER_CUT_OFF,
    ),
    ("partitions-led", never_elect, small((1, 2)), [StopBroker(5_000, 1, None)]),
    ("moves-ended", never_complete, small((1, 2)), [Reassign(5_000, (Target("t", 0, (2, 3)),))]),
    ("queues-are-drained", keep_requests, small((1, 2)), []),
    ("replicas-closed", never_close, small((1, 2)), [DeleteTopic(5_000, "t")]),
    (
        "producers-are-answered",
        keep_producers_waiting,
        small((2, 1)),
        [
            StopBroker(3_000, 2, 1_000),
            HoldLink(8_000, "broker 2", "broker 1", 2_000),
            ExpireSession(8_500, "broker 1"),
        ],
    ),
    ("replicas-are-equal", never_truncate, small((1, 2, 3)), LEADER_CUT_OFF),
    (NO_EXCEPTION, raise_an_error, small((1, 2)), []),
)


@pytest.mark.parametrize(
    ("invariant", "plant", "scenario", "inputs"),
    DEFECTS,
    ids=[f"{name}-{plant.__name__}" for name, plant, *_ in DEFECTS],
)
def test_defect_breaks_the_invariant(
    invariant: str,
    plant: Plant,
    scenario: Scenario,
    inputs: Sequence[Input08],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert broken_by(scenario, inputs) in ("", *KNOWN_FLAWS)
    plant(monkeypatch)
    assert broken_by(scenario, inputs) == invariant


def test_every_invariant_has_a_defect_that_breaks_it() -> None:
    names = {one.NAME for one in (*ALWAYS, *RECOVERY)}
    assert {one[0] for one in DEFECTS} == {*names, NO_EXCEPTION}
