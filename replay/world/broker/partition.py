"""A replica of a partition: as leader, or as follower (Partition of Kafka).

The ISR is committed, or a change of it is pending: until its outcome is known, the high watermark
waits for the *maximal* ISR, which has the replicas of both (KIP-497).
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from controller.core import error_codes as codes
from controller.core.commands import LeaderAndIsrPartition
from controller.core.values import NO_EPOCH, NO_LEADER, RECOVERED, LeaderAndIsr
from replay.world.broker import messages
from replay.world.broker.context import BrokerContext
from replay.world.broker.log import Log
from replay.world.broker.messages import FetchPartition, RecordBatch
from replay.world.broker.remote_replica import FollowerSession, RemoteReplica
from replay.world.observer import Name


class ProduceOutcome(NamedTuple):
    """The outcome of a produce request: an error, or the offset of its first record."""

    error: int
    offset: int = -1
    leader_epoch: int = NO_EPOCH
    isr: tuple[int, ...] = ()


Respond = Callable[[ProduceOutcome], None]


class PendingIsr:
    """A change of the ISR that the leader has proposed and that is not committed yet."""

    __slots__ = ("isr", "maximal")

    def __init__(self, isr: tuple[int, ...], maximal: tuple[int, ...]) -> None:
        self.isr = isr
        self.maximal = maximal


class IsrChanges(Protocol):
    """Where leaders propose changes of the ISR (AlterPartitionManager)."""

    def submit(self, partition: "Partition", pending: PendingIsr) -> None:
        """Propose a change. `Partition.isr_committed` or `isr_refused` follows, unless the broker
        ends before."""


class Position:
    """One partition of a session: what its reader asked for last, and what it was sent."""

    __slots__ = ("asked", "high_watermark", "partition")

    def __init__(self, requested: FetchPartition) -> None:
        self.asked = requested
        self.partition: Partition | None = None
        """Where the position is one of the readers."""
        self.high_watermark = -1


class Reader(FollowerSession, Protocol):
    """A fetch session of a follower or consumer."""

    @property
    def replica(self) -> int:
        """The follower, or CONSUMER."""

    @property
    def is_follower(self) -> bool:
        """Whether it is that of a follower."""

    def position_changed(self, position: Position) -> None:
        """A fetch at this position has to be answered: the partition has new data or another
        state."""

    def high_watermark_changed(self, position: Position) -> None:
        """The high watermark changed for a position."""

    def isr_changed(self, position: Position, partition: "Partition") -> None:
        """The ISR of the partition is another one."""


class _Waiting(NamedTuple):
    """A produce request that waits until the high watermark reaches `required`."""

    required: int
    offset: int
    respond: Respond


class Partition:
    """One replica, over the leader epochs in one run of its broker.

    `readers` are the positions of all sessions that fetch it from this broker. `isr` is the
    committed ISR, known to a leader only.
    """

    __slots__ = (
        "_changes",
        "_context",
        "_waiting",
        "controller_epoch",
        "epoch_start",
        "is_leader",
        "isr",
        "leader",
        "leader_epoch",
        "log",
        "maximal_isr",
        "name",
        "partition_epoch",
        "pending",
        "readers",
        "recovery_state",
        "remotes",
        "replicas",
    )

    def __init__(
        self, name: Name, log: Log | None, context: BrokerContext, changes: IsrChanges
    ) -> None:
        self.name = name
        self.log = log if log is not None else Log()
        self._context = context
        self._changes = changes
        self.leader = NO_LEADER
        self.is_leader = False
        self.leader_epoch = self.controller_epoch = self.partition_epoch = NO_EPOCH
        self.epoch_start = 0
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.maximal_isr: tuple[int, ...] = ()
        self.recovery_state = RECOVERED
        self.pending: PendingIsr | None = None
        self.remotes: dict[int, RemoteReplica] = {}
        self.readers: dict[Reader, Position] = {}
        self._waiting: deque[_Waiting] = deque()

    # Leadership

    def is_newer_than(self, requested: LeaderAndIsrPartition) -> bool:
        """Whether what is known is of a later version of the state znode."""
        return requested.leadership.partition_epoch < self.partition_epoch

    def make_leader(self, requested: LeaderAndIsrPartition) -> None:
        """Lead from now on, with a higher leader epoch (makeLeader)."""
        state, context = requested.leadership, self._context
        is_new_leader = not self.is_leader
        self.controller_epoch = state.controller_epoch
        self.replicas = requested.assignment.replicas
        self._set_remotes()
        end, now_us = self.log.end, context.clock.now_us
        self.log.start_epoch(state.leader_epoch, end)
        for remote in self.remotes.values():
            remote.take_over_last_fetch(end)
            remote.reset(now_us, end, is_new_leader, remote.id in state.isr)
        self.leader_epoch, self.epoch_start = state.leader_epoch, end
        self.leader, self.is_leader = context.id, True
        self._commit(state.isr, state.partition_epoch)
        # A leader after an unclean election considers itself recovered.
        self.recovery_state = RECOVERED
        self._report_leader(state.isr)
        self._raise_high_watermark()
        self._wake_readers()

    def make_follower(self, requested: LeaderAndIsrPartition) -> None:
        """Follow another leader from now on (makeFollower)."""
        state = requested.leadership
        self.controller_epoch = state.controller_epoch
        self.leader, self.is_leader = state.leader, False
        self.leader_epoch, self.partition_epoch = state.leader_epoch, state.partition_epoch
        self.replicas = requested.assignment.replicas
        self.recovery_state = state.recovery_state
        self.isr = self.maximal_isr = ()
        self.pending = None
        self.remotes.clear()
        self._report_leader(state.isr)
        self.give_up_waiting()
        self._wake_readers()

    def _report_leader(self, isr: tuple[int, ...]) -> None:
        context = self._context
        context.observer.leader_changed(
            context.process, self.name, self.leader, self.leader_epoch, isr
        )

    def _set_remotes(self) -> None:
        known, own_id = self.remotes, self._context.id
        self.remotes = {
            one: known.get(one) or RemoteReplica(one) for one in self.replicas if one != own_id
        }

    def close(self) -> None:
        """The replica is deleted, or its log directory has failed: it leads no more, and readers
        get an error."""
        self.is_leader = False
        self.give_up_waiting()
        self._wake_readers()

    def give_up_waiting(self) -> None:
        """Refuse the produce requests that wait, unless this is the leader."""
        if not self.is_leader:
            waiting, self._waiting = self._waiting, deque()
            for one in waiting:
                one.respond(ProduceOutcome(messages.NOT_LEADER_OR_FOLLOWER))

    def _wake_readers(self) -> None:
        for session, position in list(self.readers.items()):
            session.position_changed(position)

    # The leader's log

    def produce(self, records: tuple[int, ...], acks: int, respond: Respond) -> None:
        """Append a producer's records; respond at once, or, with acks ALL, when all members of the
        ISR have them."""
        if not self.is_leader:
            respond(ProduceOutcome(messages.NOT_LEADER_OR_FOLLOWER))
            return
        if acks == messages.ALL and self._is_under_min_isr(self.isr):
            respond(ProduceOutcome(messages.NOT_ENOUGH_REPLICAS))
            return
        log, context = self.log, self._context
        for remote in self.remotes.values():
            remote.take_over_last_fetch(log.end)
        offset = log.append(self.leader_epoch, records)
        context.observer.appended(context.process, self.name, offset, self.leader_epoch, records)
        if acks == messages.ALL:
            self._waiting.append(_Waiting(log.end, offset, respond))
        else:
            respond(ProduceOutcome(codes.NONE, offset, self.leader_epoch, self.maximal_isr))
        for session, position in list(self.readers.items()):
            if session.is_follower:
                session.position_changed(position)
        self._raise_high_watermark()

    def _is_under_min_isr(self, isr: tuple[int, ...]) -> bool:
        """Whether the ISR is smaller than min.insync.replicas, of which no more than the number of
        replicas count (effectiveMinIsr)."""
        size, replicas = len(isr), len(self.remotes) + 1
        return size < replicas and size < min(self._context.min_isr(self.name[0]), replicas)

    def _raise_high_watermark(self) -> None:
        """Committed is what all members of the maximal ISR have, and the followers that are about
        to join the ISR (maybeIncrementLeaderHW)."""
        context = self._context
        if not self.is_leader or (
            context.settings.protocol.has_alter_partition and self._is_under_min_isr(self.isr)
        ):
            return
        end = high_watermark = self.log.end
        for remote in self.remotes.values():
            if remote.end < high_watermark and (
                remote.id in self.maximal_isr
                or (
                    remote.is_caught_up(end, context.clock.now_us, context.settings.lag_us)
                    and self._is_eligible(remote.id)
                )
            ):
                high_watermark = remote.end
        if high_watermark <= self.log.high_watermark:
            return
        self._set_high_watermark(high_watermark)
        self._respond_to_waiting()

    def _set_high_watermark(self, offset: int) -> None:
        context = self._context
        self.log.high_watermark = offset
        context.observer.high_watermark_changed(context.process, self.name, offset)
        for session, position in list(self.readers.items()):
            session.high_watermark_changed(position)

    def _respond_to_waiting(self) -> None:
        reached = self.log.high_watermark
        while self._waiting and self._waiting[0].required <= reached:
            waiting = self._waiting.popleft()
            if self._is_under_min_isr(self.maximal_isr):
                waiting.respond(ProduceOutcome(messages.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
            else:
                waiting.respond(
                    ProduceOutcome(codes.NONE, waiting.offset, self.leader_epoch, self.maximal_isr)
                )

    # Followers of this leader

    def fetched(self, session: Reader, offset: int) -> None:
        """A follower fetched at `offset`: it has everything before (updateFollowerFetchState)."""
        remote = self.remotes[session.replica]
        before, end = remote.end, self.log.end
        remote.fetched(offset, end, self._context.clock.now_us, session)
        if session.replica not in self.maximal_isr:
            self.expand_isr(session.replica)
        if offset != before:
            self._raise_high_watermark()

    def is_fetched_by(self, session: Reader) -> bool:
        """Whether a follower's session fetches at the current leader epoch without an error."""
        remote = self.remotes.get(session.replica)
        return remote is not None and remote.session is session

    def expand_isr(self, replica: int) -> None:
        """Propose to add a follower to the ISR if it is in sync (maybeExpandIsr)."""
        remote = self.remotes.get(replica)
        if (
            remote is None
            or not self.is_leader
            or self.pending is not None
            or replica in self.isr
            or remote.end < self.log.high_watermark
            or remote.end < self.epoch_start
            or not self._is_eligible(replica)
        ):
            return
        wider = (*self.isr, replica)
        self._propose(PendingIsr(wider, wider))

    def _is_eligible(self, replica: int) -> bool:
        """Kafka 2.x, which has no AlterPartition, adds any follower (isReplicaIsrEligible)."""
        context = self._context
        return not context.settings.protocol.has_alter_partition or replica in context.metadata.live

    def shrink_isr(self) -> None:
        """Propose to remove the followers that lag (maybeShrinkIsr); called periodically."""
        if not self.is_leader or self.pending is not None:
            return
        context, end = self._context, self.log.end
        now_us, lag_us = context.clock.now_us, context.settings.lag_us
        left = tuple(
            one
            for one in self.isr
            if one == context.id
            or (one in self.remotes and self.remotes[one].is_caught_up(end, now_us, lag_us))
        )
        if left != self.isr:
            self._propose(PendingIsr(left, self.isr))

    def _propose(self, pending: PendingIsr) -> None:
        context = self._context
        self.pending, self.maximal_isr = pending, pending.maximal
        self._note_followers_outside()
        context.observer.isr_proposed(context.process, self.name, self.leader_epoch, pending.isr)
        self._changes.submit(self, pending)

    def isr_committed(self, pending: PendingIsr, state: LeaderAndIsr) -> None:
        """The controller, or ZooKeeper, accepted a proposal (handleAlterPartitionUpdate)."""
        if self.pending is not pending or state.leader_epoch != self.leader_epoch:
            return
        if state.partition_epoch < self.partition_epoch:
            return
        context = self._context
        self._commit(state.isr, state.partition_epoch)
        self.recovery_state = state.recovery_state
        context.observer.isr_changed(
            context.process, self.name, self.leader_epoch, state.isr, state.partition_epoch
        )
        self._raise_high_watermark()

    def isr_refused(self, pending: PendingIsr, *, is_over: bool) -> None:
        """A proposal was refused. `is_over`: it is certain that it has had no effect and will have
        none; otherwise it stays pending until a LeaderAndIsr request (handleAlterPartitionError).
        """
        if self.pending is pending and is_over:
            self._commit(self.isr, self.partition_epoch)

    def _commit(self, isr: tuple[int, ...], partition_epoch: int) -> None:
        self.isr = self.maximal_isr = isr
        self.partition_epoch = partition_epoch
        self.pending = None
        self._note_followers_outside()

    def _note_followers_outside(self) -> None:
        for session, position in self.readers.items():
            session.isr_changed(position, self)

    # The follower

    def append_as_follower(self, batches: tuple[RecordBatch, ...]) -> None:
        """Append what was fetched from the leader."""
        context = self._context
        for batch in batches:
            self.log.append(batch.leader_epoch, batch.records)
            context.observer.appended(
                context.process, self.name, batch.offset, batch.leader_epoch, batch.records
            )

    def follow_high_watermark(self, offset: int) -> None:
        """Take over the leader's high watermark, as far as the log goes. It may go back."""
        offset = min(offset, self.log.end)
        if offset != self.log.high_watermark:
            self._set_high_watermark(offset)

    def truncate(self, end: int) -> None:
        """Remove the records from `end` on: they diverge from the leader's log.

        A leader epoch that begins at the end of the log is removed in any case, as by
        UnifiedLog.truncateTo: this broker may have led in it without a record.
        """
        context, before = self._context, self.log.high_watermark
        is_shorter = end < self.log.end
        self.log.truncate(end)
        if is_shorter:
            context.observer.truncated(context.process, self.name, end, "leader")
            if self.log.high_watermark != before:
                context.observer.high_watermark_changed(
                    context.process, self.name, self.log.high_watermark
                )
