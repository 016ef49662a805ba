"""Invariants of elections: which replica a controller makes the leader."""

from typing import ClassVar

from controller.core.values import NO_LEADER, LeaderAndIsr
from controller.core.znodes import Name
from replay.explore.invariants.invariant import (
    Invariant,
    Report,
    StateWrite,
)
from replay.explore.invariants.known_cluster import KnownCluster, LeaderCandidates
from replay.names import partition_name


class _Election(Invariant):
    """Looks at the writes by which a controller makes another replica the leader, with what the
    controller knew when it decided that."""

    def __init__(self, known: KnownCluster, report: Report) -> None:
        super().__init__(known, report)
        self._decided: dict[tuple[str, Name], LeaderCandidates] = {}

    def decided(self, process: str, name: Name, state: LeaderAndIsr) -> None:
        known = self.known
        candidates = known.candidates_of(process, name)
        if candidates is not None:
            stays = (
                one for one in candidates.online if not known.has_granted_shutdown(process, one)
            )
            self._decided[process, name] = candidates._replace(online=tuple(stays))

    def state_written(self, write: StateWrite) -> None:
        candidates = self._decided.pop((write.process, write.name), None)
        leader, before = write.after.leader, write.before
        if candidates is None or leader == NO_LEADER:
            return
        if before is None or before.leader != leader:
            self.elected(write, candidates)

    def elected(self, write: StateWrite, candidates: LeaderCandidates) -> None:
        """A controller made another replica the leader."""
        raise NotImplementedError


class ElectedIsOnline(_Election):
    """Source: KB 4.3 and 4.4."""

    NAME: ClassVar[str] = "elected-is-online"
    STATEMENT: ClassVar[str] = (
        "A controller elects no replica that, as far as it knows, is not online: its broker is not "
        "registered or in controlled shutdown, or its log directory has failed. It knows of each "
        "controlled shutdown that it has granted since its election, as long as the broker has not "
        "registered again."
    )

    def elected(self, write: StateWrite, candidates: LeaderCandidates) -> None:
        leader = write.after.leader
        if leader not in candidates.online:
            self.violated(
                partition_name(*write.name),
                f"{write.process} elected broker {leader}; online are {list(candidates.online)}",
            )


class UncleanIsAllowed(_Election):
    """Source: KB 4.4, unclean.leader.election.enable."""

    NAME: ClassVar[str] = "unclean-is-allowed"
    STATEMENT: ClassVar[str] = (
        "A controller elects a replica outside of the ISR only if the configuration of the topic "
        "or of the brokers has allowed it, or a client has requested an unclean election."
    )

    def elected(self, write: StateWrite, candidates: LeaderCandidates) -> None:
        before, leader = write.before, write.after.leader
        if before is None or leader in before.isr or self.known.may_elect_uncleanly(write.name):
            return
        self.violated(
            partition_name(*write.name),
            f"{write.process} elected broker {leader} with the ISR {list(before.isr)}; unclean "
            "elections are not allowed",
        )


class FirstReplicaLeads(_Election):
    """Source: KB 4.3 and 4.4: every rule takes the first replica that is eligible. While a
    reassignment is cancelled, replicas in sync follow the originals in the order of the ISR. A
    failover may pass over replicas that have restarted (deviation restarts-seen-at-failover)."""

    NAME: ClassVar[str] = "first-replica-leads"
    STATEMENT: ClassVar[str] = (
        "A controller elects the first replica that is online and in sync as far as it knows. The "
        "order is that of the replicas, or of the target or the originals of a reassignment. "
        "Replicas that a requested target drops are passed over."
    )

    def elected(self, write: StateWrite, candidates: LeaderCandidates) -> None:
        leader, before = write.after.leader, write.before
        in_sync = before.isr if before is not None else candidates.online
        if leader not in in_sync or self.known.cancel_known_to(write.process):
            return
        eligible = [one for one in in_sync if one in candidates.surely_online]
        unchanged = [one for one in eligible if one not in write.restarted]
        choices = [eligible]
        if leader not in write.restarted:
            choices.append(unchanged)
        for order in candidates.orders:
            for few in choices:
                if next((one for one in order if one in few or one == leader), leader) == leader:
                    return
        self.violated(
            partition_name(*write.name),
            f"{write.process} elected broker {leader} of {eligible}, which are online and in sync; "
            f"the replicas are {list(candidates.orders[0])}",
        )
