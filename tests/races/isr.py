"""Races of the ISR: R4, R18, R27, and that of followers that shut down."""

from collections.abc import Callable
from typing import Any, Final

from controller.core import error_codes
from controller.core.commands import LeaderAndIsrPartition
from controller.core.controller import Controller
from controller.core.state import Partition
from controller.core.values import LeaderAndIsr
from replay.world.broker.fetch_session import FetchSession
from replay.world.broker.messages import FetchPartition
from replay.world.broker.partition import Partition as Replica
from replay.world.broker.partition import Reader
from replay.world.inputs import CrashBroker, HoldLink, Input, Reassign, StopBroker, Target
from replay.world.scenario import Scenario
from tests.races.clusters import cluster
from tests.races.defect import Defect
from tests.races.planting import Replacement, reach

_PARTITION: Final = "replay.world.broker.partition:Partition"
_ALTER_PARTITION: Final = "controller.core.procedures.elections.alter_partition"
_INELIGIBLE: Final = (error_codes.INELIGIBLE_REPLICA, error_codes.OPERATION_NOT_ATTEMPTED)


def _keeps_cached_version(original: Any) -> Callable[[Replica, LeaderAndIsrPartition], None]:
    def make_leader(self: Replica, asked: LeaderAndIsrPartition) -> None:
        led, version = self.is_leader, self.partition_epoch
        original(self, asked)
        if led and self.partition_epoch != version:
            reach()
            self.partition_epoch = version

    return make_leader


def _keeps_removed_followers(original: Any) -> Callable[[Replica], None]:
    def set_remotes(self: Replica) -> None:
        before = self.remotes
        original(self)
        self.remotes = before | self.remotes

    return set_remotes


def _serves_removed_followers(original: Any) -> Callable[..., int]:
    """Brokers before KIP-320 did not compare leader epochs."""

    def error(self: FetchSession, asked: FetchPartition, partition: Replica) -> int:
        is_removed = self.is_follower and self.replica not in partition.replicas
        if is_removed and partition.is_leader and self.replica in partition.remotes:
            reach()
            return error_codes.NONE
        found: int = original(self, asked, partition)
        return found

    return error


def _removed_followers_fetch(original: Any) -> Callable[[Replica, Reader], bool]:
    """As long as they do not compare leader epochs, a session continues over leader epochs."""

    def is_fetched_by(self: Replica, session: Reader) -> bool:
        is_removed = session.replica not in self.replicas
        return bool(original(self, session) or (is_removed and session.replica in self.remotes))

    return is_fetched_by


def _any_member_is_valid(original: Any) -> Callable[[Partition, LeaderAndIsr], bool]:
    return lambda partition, proposed: True


def _any_member_is_eligible(original: Any) -> Callable[..., int | None]:
    def judge(
        controller: Controller, partition: Partition, proposed: LeaderAndIsr, version: int
    ) -> int | None:
        verdict: int | None = original(controller, partition, proposed, version)
        if verdict not in _INELIGIBLE:
            return verdict
        live, current = controller.context.live_brokers, partition.leadership
        assert current is not None
        if any(one not in live and one not in current.isr for one in proposed.isr):
            reach()
        return None

    return judge


def _followers_may_shut_down(original: Any) -> Callable[..., int | None]:
    def judge(
        controller: Controller, partition: Partition, proposed: LeaderAndIsr, version: int
    ) -> int | None:
        verdict: int | None = original(controller, partition, proposed, version)
        context = controller.context
        ineligible = [one for one in proposed.isr if one not in context.live_brokers]
        followers = [one for one in ineligible if one != proposed.leader]
        shutting_down = [one for one in followers if one in context.shutting_down]
        if verdict not in _INELIGIBLE or shutting_down != ineligible:
            return verdict
        reach()
        return None

    return judge


def _follower_restarts() -> tuple[Scenario, tuple[Input, ...]]:
    return cluster(), (CrashBroker(5_000, 2, restart_after_ms=15_000),)


def _replica_moves() -> tuple[Scenario, tuple[Input, ...]]:
    return cluster(), (Reassign(5_000, (Target("orders", 0, (1, 2, 4)),)),)


def _target_shuts_down() -> tuple[Scenario, tuple[Input, ...]]:
    return cluster(), (
        HoldLink(5_000, "broker 1", "refold 100", 1_000),
        Reassign(5_000, (Target("orders", 0, (1, 2, 4)),)),
        StopBroker(5_500, 4),
    )


def _follower_fetches_during_its_shutdown() -> tuple[Scenario, tuple[Input, ...]]:
    return cluster(), (
        HoldLink(5_000, "broker 1", "refold 100", 1_000),
        Reassign(5_000, (Target("orders", 0, (1, 2, 4)),)),
        StopBroker(5_500, 4, closes_after_ms=3_000),
    )


DEFECTS: Final[tuple[Defect, ...]] = (
    Defect(
        id="R4",
        source="KAFKA-2729",
        planted="A leader that is sent a new leader epoch keeps the version of the state znode in "
        "its cache.",
        needs="The controller writes the state of a partition whose leader stays.",
        invariants=("isrs-full", "reassignments-ended", "partitions-led"),
        replacements=(Replacement(f"{_PARTITION}.make_leader", _keeps_cached_version),),
        directed=_follower_restarts,
    ),
    Defect(
        id="R18",
        source="KAFKA-1097, KAFKA-1170, KAFKA-6638",
        planted="A leader serves a replica that has left the assignment and proposes it for the "
        "ISR, and the controller accepts it.",
        needs="A replica that has left the assignment fetches once more.",
        invariants=("isr-within-assignment", "assigned-replicas-kept"),
        replacements=(
            Replacement(f"{_PARTITION}._set_remotes", _keeps_removed_followers),
            Replacement(
                "replay.world.broker.fetch_session:FetchSession._error", _serves_removed_followers
            ),
            Replacement(f"{_PARTITION}.is_fetched_by", _removed_followers_fetch),
            Replacement(f"{_ALTER_PARTITION}:_is_valid", _any_member_is_valid),
        ),
        directed=_replica_moves,
    ),
    Defect(
        id="R27",
        source="KAFKA-14140, KAFKA-14617",
        planted="The controller accepts an ISR with a broker that is not registered or that is in "
        "controlled shutdown.",
        needs="A leader proposes a broker that the controller knows to be shutting down or gone.",
        invariants=("no-ineligible-in-isr", "acknowledged-records-kept"),
        replacements=(Replacement(f"{_ALTER_PARTITION}:judge", _any_member_is_eligible),),
        directed=_target_shuts_down,
    ),
    Defect(
        id="follower-shuts-down",
        source="KAFKA-14140",
        planted="The controller accepts an ISR with a follower that is registered and in "
        "controlled shutdown.",
        needs="A leader proposes a follower whose shutdown the controller has granted, and which "
        "is still registered.",
        invariants=("no-ineligible-in-isr",),
        replacements=(Replacement(f"{_ALTER_PARTITION}:judge", _followers_may_shut_down),),
        directed=_follower_fetches_during_its_shutdown,
    ),
)
