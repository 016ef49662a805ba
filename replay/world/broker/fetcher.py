"""The thread with which a follower copies partitions from one leader (AbstractFetcherThread and
ReplicaFetcherThread of Kafka).

All partitions of the leader share one connection with one fetch in flight. Where the logs diverge,
the leader's response to a fetch says it (from inter.broker.protocol.version 2.7 on), or the
follower asks before it fetches (KIP-101, KIP-279).
"""

from collections.abc import Container

from controller.core import error_codes as codes
from controller.core.values import NO_EPOCH
from replay.names import broker_name
from replay.world.broker import messages
from replay.world.broker.context import BrokerContext
from replay.world.broker.messages import (
    EpochEnd,
    EpochEnds,
    EpochEndsResponse,
    EpochPartition,
    Fetch,
    FetchedPartition,
    FetchPartition,
    FetchResponse,
)
from replay.world.broker.partition import Partition
from replay.world.broker.peer import Peer
from replay.world.network import Message
from replay.world.observer import Name


class _Following:
    """One partition: where to fetch next. `sent` is what the leader's session has for it."""

    __slots__ = ("epoch", "is_delayed", "is_truncating", "offset", "partition", "sent")

    def __init__(self, partition: Partition, offset: int, *, is_truncating: bool) -> None:
        self.partition = partition
        self.epoch = partition.leader_epoch
        self.offset = offset
        self.is_truncating = is_truncating
        self.is_delayed = False
        self.sent: FetchPartition | None = None


class Fetcher:
    """Fetches all partitions that this broker follows at one leader."""

    def __init__(self, context: BrokerContext, leader: int) -> None:
        self._context = context
        self._leader = leader
        self._following: dict[Name, _Following] = {}
        self._changed: dict[Name, _Following] = {}
        """The partitions that the leader's session does not have yet."""
        self._forgotten: dict[Name, None] = {}
        self._asked: dict[Name, EpochPartition] = {}
        """The partitions whose truncation offset was asked for."""
        self._peer: Peer | None = None
        self._is_busy = False
        """Whether a request is in flight, or its response is being handled."""
        self._is_waiting = False
        """Whether the leader cannot be reached, until the next attempt."""

    def follow(self, partition: Partition) -> None:
        """Fetch a partition from now on (partitionFetchState)."""
        log = partition.log
        truncates_on_fetch = self._context.settings.truncates_on_fetch
        fetches = truncates_on_fetch and log.latest_epoch != NO_EPOCH
        offset = log.end if fetches else log.high_watermark
        following = _Following(partition, offset, is_truncating=not fetches)
        self._following[partition.name] = self._changed[partition.name] = following
        self._work()

    def stop(self, name: Name) -> None:
        """Do not fetch a partition any more."""
        following = self._following.pop(name, None)
        if following is not None:
            self._leave_out(name, following)

    def close(self) -> None:
        """The broker ends."""
        self._following.clear()
        if self._peer is not None:
            self._peer.close()

    def _leave_out(self, name: Name, following: _Following) -> None:
        self._changed.pop(name, None)
        if following.sent is not None:
            following.sent = None
            self._forgotten[name] = None

    # Requests

    def _work(self) -> None:
        """Send the next request, if none is in flight."""
        if self._is_busy or self._is_waiting or not self._following:
            return
        if self._changed and self._ask_for_ends():
            return
        for one in self._following.values():
            if not one.is_delayed:
                break
        else:
            if not self._forgotten:
                return
        partitions = tuple([self._fetch_of(one) for one in self._changed.values()])
        forgotten = tuple(self._forgotten)
        self._changed, self._forgotten = {}, {}
        self._is_busy = True
        broker = self._context.id
        self._connected_peer().send(lambda number: Fetch(number, broker, partitions, forgotten))

    def _fetch_of(self, following: _Following) -> FetchPartition:
        partition = following.partition
        self._forgotten.pop(partition.name, None)
        truncates_on_fetch = self._context.settings.truncates_on_fetch
        following.sent = FetchPartition(
            partition.name,
            partition.log.topic_id,
            following.offset,
            following.epoch,
            partition.log.epoch_before(following.offset) if truncates_on_fetch else NO_EPOCH,
        )
        return following.sent

    def _ask_for_ends(self) -> bool:
        """Ask where to truncate, before the first fetch. A log without epochs is truncated to its
        high watermark (truncateToHighWatermark)."""
        asked = {}
        for name, one in self._changed.items():
            if one.is_truncating:
                latest = one.partition.log.latest_epoch
                if latest == NO_EPOCH:
                    one.partition.truncate(one.offset)
                    one.is_truncating = False
                else:
                    asked[name] = EpochPartition(name, one.epoch, latest)
        if not asked:
            return False
        self._asked, self._is_busy = asked, True
        partitions = tuple(asked.values())
        self._connected_peer().send(lambda number: EpochEnds(number, partitions))
        return True

    def _connected_peer(self) -> Peer:
        if self._peer is None:
            context = self._context
            self._peer = Peer(
                context.clock,
                context.network,
                context.process,
                broker_name(self._leader),
                self._receive_response,
                self._end_session,
                context.settings.socket_timeout_us,
            )
        return self._peer

    def _end_session(self) -> None:
        """End the session, because the leader cannot be reached; a new one begins later."""
        self._peer = None
        self._is_busy, self._is_waiting = False, True
        self._asked, self._forgotten = {}, {}
        for name, one in self._following.items():
            one.sent = None
            if not one.is_delayed:
                self._changed[name] = one
        self._context.clock.after(self._context.settings.fetch_backoff_us, self._retry)

    def _retry(self) -> None:
        self._is_waiting = False
        self._work()

    # Responses

    def _receive_response(self, message: Message) -> None:
        write_us = self._context.write_us
        if write_us and isinstance(message, FetchResponse) and message.partitions:
            peer = self._peer
            self._context.clock.after(write_us, lambda: self._apply_response(peer, message))
        else:
            self._apply_response(self._peer, message)

    def _apply_response(self, peer: Peer | None, message: Message) -> None:
        if peer is not self._peer:
            return
        if isinstance(message, FetchResponse):
            for fetched in message.partitions:
                self._apply_fetch(fetched)
        else:
            assert isinstance(message, EpochEndsResponse), message
            for end in message.partitions:
                self._apply_epoch_end(end)
            self._asked = {}
        self._is_busy = False
        self._work()

    def _apply_fetch(self, fetched: FetchedPartition) -> None:
        """Apply the response for one partition, unless the partition has changed since the
        request."""
        name = fetched.name
        one = self._following.get(name)
        if one is None or one.sent is None or one.is_delayed or one.is_truncating:
            return
        if one.sent.offset != one.offset or one.sent.leader_epoch != one.epoch:
            return
        partition = one.partition
        if fetched.error:
            self._recover_from_error(name, one, fetched)
        elif fetched.diverging is not None:
            self._truncate(one, *fetched.diverging)
            self._changed[name] = one
        elif one.offset == partition.log.end:
            if fetched.batches:
                partition.append_as_follower(fetched.batches)
                one.offset = partition.log.end
                self._changed[name] = one
            partition.follow_high_watermark(fetched.high_watermark)

    def _recover_from_error(self, name: Name, one: _Following, fetched: FetchedPartition) -> None:
        if fetched.error == messages.OFFSET_OUT_OF_RANGE:
            # fetchOffsetAndTruncate; the leader's log begins at 0.
            if fetched.leader_end >= one.partition.log.end:
                self._delay(name, one)
                return
            one.partition.truncate(fetched.leader_end)
            one.offset = fetched.leader_end
            self._changed[name] = one
        elif fetched.error == codes.FENCED_LEADER_EPOCH:
            # markPartitionFailed: not fetched until the next LeaderAndIsr request.
            self.stop(name)
        else:
            self._delay(name, one)

    def _delay(self, name: Name, one: _Following) -> None:
        one.is_delayed = True
        self._leave_out(name, one)
        self._context.clock.after(
            self._context.settings.fetch_backoff_us, lambda: self._resume(name, one)
        )

    def _resume(self, name: Name, one: _Following) -> None:
        if self._following.get(name) is one:
            one.is_delayed = False
            self._changed[name] = one
            self._work()

    def _apply_epoch_end(self, end: EpochEnd) -> None:
        """Truncate the log by where the leader's log ends for the latest epoch of this log."""
        one, asked = self._following.get(end.name), self._asked[end.name]
        if one is None or one.epoch != asked.leader_epoch or not one.is_truncating:
            return
        if end.error == codes.FENCED_LEADER_EPOCH:
            self.stop(end.name)
        elif end.error:
            self._delay(end.name, one)
        else:
            self._truncate(one, end.epoch, end.end)

    def _truncate(self, one: _Following, epoch: int, end: int) -> None:
        """Truncate to where the logs diverge (getOffsetTruncationState). The leader has `epoch` as
        its largest epoch up to the one that it was asked for; the epoch ends there at `end`."""
        log = one.partition.log
        if end < 0:
            offset, is_complete = one.offset, True
        else:
            local_epoch, local_end = log.end_of(epoch)
            if local_end < 0:
                offset, is_complete = min(end, log.end), True
            elif local_epoch != epoch:
                offset, is_complete = min(local_end, log.end), False
            else:
                offset, is_complete = min(local_end, end, log.end), True
        one.partition.truncate(offset)
        one.offset = offset
        one.is_truncating = not (is_complete or self._context.settings.truncates_on_fetch)


class Fetchers:
    """The fetchers of a broker, one for each leader (ReplicaFetcherManager).

    `slow` are partitions that are not fetched for now.
    """

    def __init__(self, context: BrokerContext, slow: Container[Name] = ()) -> None:
        self._context = context
        self._slow = slow
        self._fetchers: dict[int, Fetcher] = {}
        self._leaders: dict[Name, int] = {}
        self._followed: dict[Name, Partition] = {}

    def follow(self, partition: Partition) -> None:
        """Fetch a partition from its leader."""
        self._followed[partition.name] = partition
        if partition.name not in self._slow:
            self._fetch(partition)

    def slow_changed(self, name: Name) -> None:
        """A partition is slow from now on, or no longer."""
        partition = self._followed.get(name)
        if partition is not None:
            self._stop_fetching(name)
            self.follow(partition)

    def _fetch(self, partition: Partition) -> None:
        leader = self._leaders[partition.name] = partition.leader
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            fetcher = self._fetchers[leader] = Fetcher(self._context, leader)
        fetcher.follow(partition)

    def stop(self, name: Name) -> None:
        """Do not fetch a partition any more."""
        self._followed.pop(name, None)
        self._stop_fetching(name)

    def _stop_fetching(self, name: Name) -> None:
        leader = self._leaders.pop(name, None)
        if leader is not None:
            self._fetchers[leader].stop(name)

    def close(self) -> None:
        """Fetch nothing any more."""
        for fetcher in self._fetchers.values():
            fetcher.close()
