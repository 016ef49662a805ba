"""The handling of the fetches of one connection by a broker.

The models are ReplicaManager.fetchMessages, DelayedFetch, and the fetch sessions of KIP-227.

A fetch is answered at once if it gets records or errors, otherwise when there is something, or
after the maximal wait. Kafka looks at each partition of the session at each fetch. Here partitions
report themselves when something changes, so that a fetch costs only what changed.
"""

from collections.abc import Callable
from typing import Final

from controller.core import error_codes as codes
from controller.core.values import NO_EPOCH
from replay.world.broker import messages
from replay.world.broker.context import BrokerContext
from replay.world.broker.log import UNKNOWN_END
from replay.world.broker.messages import (
    Fetch,
    FetchedPartition,
    FetchPartition,
    FetchResponse,
)
from replay.world.broker.partition import Partition, Position
from replay.world.observer import Name
from replay.world.scheduler import ScheduledAction

RECORDS_MAX: Final = 1000
"""The most records of one partition in one response."""

FindPartition = Callable[[Name], Partition | int]
"""Returns the partition, or the error code if the broker does not host it."""
SendResponse = Callable[[FetchResponse], None]


class FetchSession:
    """The fetches of one follower or consumer on one connection. `fetch_us` is the time of the last
    one."""

    def __init__(
        self, context: BrokerContext, replica: int, find: FindPartition, send: SendResponse
    ) -> None:
        self.replica = replica
        self.is_follower = replica != messages.CONSUMER
        self.fetch_us = context.clock.now_us
        self._context = context
        self._find = find
        self._send = send
        self._positions: dict[Name, Position] = {}
        self._ready: dict[Name, Position] = {}
        """Positions with records, an error, or a change that may be one."""
        self._stale: dict[Name, Position] = {}
        """Positions whose reader does not know the high watermark."""
        self._outside: dict[Name, Position] = {}
        """Positions of a follower that is not in the ISR."""
        self._sent: dict[Name, Position] = {}
        """Positions that were in the last response, until the reader asks for other offsets."""
        self._waiting = 0
        """The number of the fetch that waits, 0: none."""
        self._timer: ScheduledAction | None = None

    def fetch(self, request: Fetch) -> None:
        """Handle a fetch."""
        self.fetch_us = self._context.clock.now_us
        self._waiting = request.number
        for name in request.forgotten:
            self._forget(name)
        # A position that the reader did not change has the same outcome as before.
        for name, position in self._sent.items():
            if name in self._positions:
                self._ready[name] = position
        self._sent = {}
        for asked in request.partitions:
            self._ask(asked)
        if self._outside:
            for position in list(self._outside.values()):
                partition = position.partition
                # A fetch that fails, such as one at another leader epoch, says nothing.
                if partition is not None and partition.is_fetched_by(self):
                    partition.expand_isr(self.replica)
        if self._ready:
            self._respond()
        if self._waiting and self._timer is None:
            self._wait()

    def end(self) -> None:
        """The connection has ended."""
        self._waiting = 0
        for name in list(self._positions):
            self._forget(name)
        if self._timer is not None:
            self._timer.cancel()

    # Called by partitions

    def position_changed(self, position: Position) -> None:
        """Answer the waiting fetch, because the partition of this position has new data or another
        state."""
        self._ready[position.asked.name] = position
        if self._waiting:
            self._respond()

    def high_watermark_changed(self, position: Position) -> None:
        """A consumer can read more. A follower gets the high watermark with the next response."""
        if self.is_follower:
            self._stale[position.asked.name] = position
        else:
            self.position_changed(position)

    def isr_changed(self, position: Position, partition: Partition) -> None:
        """The ISR of the partition is another one."""
        replica, name = self.replica, position.asked.name
        if replica in partition.remotes and replica not in partition.maximal_isr:
            self._outside[name] = position
        else:
            self._outside.pop(name, None)

    # Reading

    def _ask(self, requested: FetchPartition) -> None:
        name = requested.name
        position = self._positions.get(name)
        if position is None:
            position = self._positions[name] = Position(requested)
        elif position.asked.leader_epoch != requested.leader_epoch:
            # The follower has dropped the response to its last fetch at the old leader epoch; a
            # Kafka follower would use its high watermark.
            position.high_watermark = -1
            self._stale[name] = position
        position.asked = requested
        self._ready.pop(name, None)
        partition = self._find(name)
        if isinstance(partition, int):
            self._ready[name] = position
            return
        if position.partition is not partition:
            self._detach(position)
            position.partition = partition
            partition.readers[self] = position
            self._stale[name] = position
            self.isr_changed(position, partition)
        if self._failure(position, partition) is not None:
            self._ready[name] = position
            self._release(partition)
            return
        if self.is_follower:
            partition.fetched(self, requested.offset)
        if requested.offset < self._limit(partition):
            self._ready[name] = position

    def _limit(self, partition: Partition) -> int:
        return partition.log.end if self.is_follower else partition.log.high_watermark

    def _failure(self, position: Position, partition: Partition) -> FetchedPartition | None:
        """The error of a read, or that the logs diverge (Partition.fetchRecords)."""
        asked = position.asked
        error = self._error(asked, partition)
        if error:
            return FetchedPartition(asked.name, error)
        log = partition.log
        is_unknown = False
        if asked.last_epoch != NO_EPOCH:
            epoch, end = log.end_of(asked.last_epoch)
            is_unknown = (epoch, end) == UNKNOWN_END
            if not is_unknown and (epoch < asked.last_epoch or end < asked.offset):
                return FetchedPartition(
                    asked.name, codes.NONE, log.high_watermark, (), (epoch, end)
                )
        if not is_unknown and asked.offset <= log.end:
            return None
        return FetchedPartition(
            asked.name,
            messages.OFFSET_OUT_OF_RANGE,
            leader_end=log.end if self.is_follower else log.high_watermark,
        )

    def _error(self, requested: FetchPartition, partition: Partition) -> int:
        known, topic_id = partition.log.topic_id, requested.topic_id
        if known != topic_id and known is not None and topic_id is not None:
            return codes.INCONSISTENT_TOPIC_ID
        error = epoch_error(requested.leader_epoch, partition)
        if not error and self.is_follower and self.replica not in partition.remotes:
            return messages.UNKNOWN_LEADER_EPOCH
        return error

    def _read_partition(self, name: Name, position: Position) -> FetchedPartition | None:
        """The response for a position, None if its reader has everything."""
        partition = self._find(name)
        if isinstance(partition, int):
            return FetchedPartition(name, partition)
        failure = self._failure(position, partition)
        if failure is not None:
            return failure
        log, offset = partition.log, position.asked.offset
        end = min(self._limit(partition), offset + RECORDS_MAX)
        if offset >= end and position.high_watermark == log.high_watermark:
            return None
        position.high_watermark = log.high_watermark
        batches = log.read(offset, end) if offset < end else ()
        return FetchedPartition(name, codes.NONE, log.high_watermark, batches)

    def _respond(self, *, is_due: bool = False) -> None:
        """Answer the fetch that waits, unless there is nothing to send and it is not due."""
        ready, self._ready = self._ready, {}
        number, fetched = self._waiting, []
        for name, position in ready.items():
            one = self._read_partition(name, position)
            if one is not None:
                fetched.append(one)
                if one.error or one.batches or one.diverging:
                    self._sent[name] = position
        if not fetched and not is_due:
            return
        stale, self._stale = self._stale, {}
        for name, position in stale.items():
            one = None if name in ready else self._read_partition(name, position)
            if one is not None:
                fetched.append(one)
        self._waiting = 0
        self._send(FetchResponse(number, tuple(fetched)))

    def _wait(self) -> None:
        due_us = self.fetch_us + self._context.settings.fetch_wait_us
        self._timer = self._context.clock.call_at(due_us, self._time_out)

    def _time_out(self) -> None:
        self._timer = None
        if not self._waiting:
            return
        now_us = self._context.clock.now_us
        if now_us - self.fetch_us >= self._context.settings.fetch_wait_us:
            self.fetch_us = now_us
            self._respond(is_due=True)
        else:
            self._wait()

    def _forget(self, name: Name) -> None:
        position = self._positions.pop(name, None)
        if position is not None:
            self._detach(position)
        for positions in (self._ready, self._stale, self._sent):
            positions.pop(name, None)

    def _detach(self, position: Position) -> None:
        partition, position.partition = position.partition, None
        self._outside.pop(position.asked.name, None)
        if partition is None:
            return
        partition.readers.pop(self, None)
        self._release(partition)

    def _release(self, partition: Partition) -> None:
        """Later fetches of the session say nothing about this partition."""
        remote = partition.remotes.get(self.replica)
        if remote is not None and remote.session is self:
            remote.take_over_last_fetch(partition.log.end)
            remote.session = None


def epoch_error(leader_epoch: int, partition: Partition) -> int:
    """The error of a request to a leader at a leader epoch (checkCurrentLeaderEpoch)."""
    if leader_epoch != NO_EPOCH and leader_epoch != partition.leader_epoch:
        if leader_epoch < partition.leader_epoch:
            return codes.FENCED_LEADER_EPOCH
        return messages.UNKNOWN_LEADER_EPOCH
    return codes.NONE if partition.is_leader else messages.NOT_LEADER_OR_FOLLOWER
