"""One log, folded from the messages of the mirror's topic.

Events are followed along the checksum chain: one that is there already is passed over, one that
does not go on where the log ended stops it for good, with the reason. Commands are not needed: the
fold makes them again.
"""

from typing import Final

import msgspec
from msgspec import Struct

from controller.core.controller import Controller
from controller.core.fold import Fold
from controller.core.fold_observer import FoldObserver
from controller.core.snapshot import load_snapshot, take_snapshot
from controller.core.state import ControllerContext, Partition, sorted_partitions
from controller.core.values import NO_EPOCH, NO_LEADER
from controller.fingerprint import core_fingerprint
from eventstore import chain
from eventstore.errors import LogError
from eventstore.frames import ClosingFrame, EventRow, EventsFrame, SegmentFrame, decode
from eventstore.records import FORMAT, Closing, EventRecord, Header
from replay.errors import ReplayError
from replay.fleet.live.health import health_of_state
from replay.fleet.mirror_stream import Parts
from replay.logs.decode import UPCASTERS, configuration_of, recorded

REFOLDED_MAX: Final = 500
"""Events; with more since the last snapshot the next one is taken."""


class Kept(Struct, frozen=True, array_like=True):
    """A log between two batches: a snapshot of the fold, and the events since it. `header` is that
    of the segment it is in, `parts` those of a record that is not whole yet, `trouble` why it is
    not followed any further."""

    header: bytes = b""
    seq: int = 0
    event_chain: bytes = b""
    wall_ns: int = 0
    term: int = 0
    is_active: bool = False
    is_ended: bool = False
    trouble: str = ""
    parts: list[bytes] = []
    snapshot: bytes | None = None
    events: list[EventRow] = []


class PartitionHealth(Struct, frozen=True):
    """How a partition is. `leader` is -1 where there is none."""

    topic: str
    partition: int
    health: str
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]


class FollowedLog:
    """Takes messages of one log in their order. `taken` counts the events that were new."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self._header = _header(kept.header) if kept.header else None
        self._parts = Parts(list(kept.parts))
        self._fold: _Fold | None = None
        self._new: list[EventRow] = []
        self._seq, self._chain, self._wall_ns = kept.seq, kept.event_chain, kept.wall_ns
        self._is_ended, self._trouble = kept.is_ended, kept.trouble
        self.taken = 0

    def take(self, value: bytes, part: str | None) -> None:
        """The next message. Nothing is raised: what is wrong becomes the log's trouble."""
        if self._trouble:
            return
        try:
            whole = self._parts.take(value, part)
            if whole is not None:
                self._take(whole)
        except _Broken as error:
            self._trouble = str(error)
        except (LogError, ReplayError, msgspec.MsgspecError) as error:
            self._trouble = f"after event {self._seq}: {error}"

    def kept(self) -> Kept:
        """What the next batch goes on from."""
        fold, kept = self._fold, self._kept
        snapshot, events = kept.snapshot, [*kept.events, *self._new]
        term, is_active = kept.term, kept.is_active
        if fold is not None:
            term, is_active = max(fold.known_term, term), fold.is_active
            if len(events) > REFOLDED_MAX and fold.is_idle:
                snapshot, events = fold.snapshot(), []
        if self._is_ended or self._trouble:
            snapshot, events, is_active = None, [], False
        return Kept(
            kept.header,
            self._seq,
            self._chain,
            self._wall_ns,
            term,
            is_active,
            self._is_ended,
            self._trouble,
            self._parts.begun,
            snapshot,
            events,
        )

    def partitions(self) -> list[PartitionHealth] | None:
        """How they are, as the daemon of this log knew it last; None where nothing is new of it."""
        return self._fold.partitions() if self._fold is not None else None

    def _take(self, whole: bytes) -> None:
        frame = decode(whole)
        match frame:
            case SegmentFrame(format=number, header=body):
                self._begin(number, body)
            case EventsFrame(rows=rows):
                for row in rows:
                    self._event(row)
            case ClosingFrame(body=body):
                self._end(body)

    def _begin(self, number: int, body: bytes) -> None:
        if body == self._kept.header:
            return
        if number > FORMAT:
            raise _Broken(f"made by a newer refold (format {number}, this one reads {FORMAT})")
        header = _header(body)
        if self._header is None:
            self._check_first(header)
        elif header.first_seq <= self._seq:
            return
        elif header.predecessor is None or header.predecessor.event_chain != self._chain:
            raise _Broken(f"segment {header.first_seq} does not follow event {self._seq}")
        start = chain.start(header, body)
        self._header, self._kept = header, msgspec.structs.replace(self._kept, header=body)
        self._seq, self._chain = start.last_seq, start.event_chain

    def _check_first(self, header: Header) -> None:
        if header.kind != "recorded":
            raise _Broken("an imported log, of a stock controller: it is not followed")
        if header.first_seq != 1:
            raise _Broken("its beginning is not on the topic")

    def _event(self, row: EventRow) -> None:
        if self._header is None:
            raise _Broken("its beginning is not on the topic")
        seq = row[0]
        if seq <= self._seq:
            return
        if seq != self._seq + 1 or chain.link(self._chain, row[:-1]) != row[-1]:
            raise _Broken(f"event {seq} does not follow event {self._seq}: records are missing")
        if self._fold is None:
            self._fold = _Fold(self._header, self._kept)
        self._fold.take(row)
        self._new.append(row)
        self._seq, self._chain, self._wall_ns = seq, row[-1], row[1]
        self.taken += 1

    def _end(self, body: bytes) -> None:
        closing = msgspec.json.decode(body, type=Closing)
        if closing.tip.event_chain != self._chain and closing.tip.last_seq >= self._seq:
            raise _Broken(f"it ends with event {closing.tip.last_seq}, not {self._seq}")
        self._is_ended = True


class _Broken(Exception):
    """A log that cannot be followed any further, and why."""


class _Fold(FoldObserver):
    """The fold, and for which term its context is whole."""

    def __init__(self, header: Header, kept: Kept) -> None:
        """As it is after the events of `kept`. Raises ReplayError."""
        configuration = configuration_of(header)
        self._origin = header
        self._fold = (
            Fold(configuration)
            if kept.snapshot is None
            else load_snapshot(kept.snapshot, configuration)
        )
        self.known_term = self._controller.context.epoch if kept.snapshot else 0
        self._controller.observer = self
        self._known: ControllerContext | None = None
        for row in kept.events:
            self.take(row)

    @property
    def _controller(self) -> Controller:
        return self._fold.controller

    @property
    def is_active(self) -> bool:
        return self._controller.is_active

    @property
    def is_idle(self) -> bool:
        return self._fold.is_idle

    def ends(self) -> None:
        # The first procedure of a term is its failover; before its end not all is read.
        if self._controller.is_active:
            self.known_term = self._controller.context.epoch

    def take(self, row: EventRow) -> None:
        """Fold an event. Raises ReplayError, LogError, _Broken."""
        event = recorded(UPCASTERS.upcast(EventRecord._make(row[:-1]), "the topic"))
        try:
            for _ in self._fold.apply(event):
                pass
        except Exception as error:
            raise _Broken(
                f"recorded by core {self._origin.core_fingerprint} (refold "
                f"{self._origin.code_version}); this one, {core_fingerprint()}, cannot fold event "
                f"{event.seq} ({error!r})"
            ) from error
        # What is given up with the role is another object afterwards: this one stays as it was.
        if self._knows_all:
            self._known = self._controller.context

    def snapshot(self) -> bytes:
        return take_snapshot(self._fold)

    def partitions(self) -> list[PartitionHealth] | None:
        context = self._known
        if context is None:
            return None
        staying = (one for one in context.partitions() if not context.is_queued(one))
        return [_health(one) for one in sorted_partitions(staying)]

    @property
    def _knows_all(self) -> bool:
        return self._controller.is_active and self.known_term == self._controller.context.epoch


def _health(partition: Partition) -> PartitionHealth:
    state = partition.leadership
    return PartitionHealth(
        partition.topic.name,
        partition.number,
        health_of_state(state, partition.assignment),
        NO_LEADER if state is None else state.leader,
        NO_EPOCH if state is None else state.leader_epoch,
        () if state is None else state.isr,
        partition.assignment.replicas,
    )


def _header(body: bytes) -> Header:
    return msgspec.json.decode(body, type=Header)
