"""One log, folded from the messages of the mirror's topic.

Events are checked against the checksum chain. A repeated event is ignored. An event that does not
continue the chain stops the log permanently, with the reason. Commands are not needed: the fold
issues them again.
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
from replay.fleet.mirror_stream import PartJoiner
from replay.fleet.segments import name_of_log
from replay.logs.decode import UPCASTERS, configuration_of, decode_recorded
from replay.logs.other_core import name_with_command

REFOLDED_MAX: Final = 500
"""With more events since the last snapshot, a new snapshot is taken."""


class MirroredLogState(Struct, frozen=True, array_like=True):
    """A log between two batches: a snapshot of the fold, and the events since then. `header` is the
    header of the current segment, `parts` are the parts of an incomplete record, `trouble` says why
    the log is not folded any more, `name` is its name in a table of `refold fleet ingest`."""

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
    name: str = ""


class MirroredPartition(Struct, frozen=True):
    """The health of a partition. `leader` is -1 if there is none."""

    topic: str
    partition: int
    health: str
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]


class MirroredLog:
    """Takes the messages of one log in order. `new_events` counts the events that were new."""

    def __init__(self, state: MirroredLogState) -> None:
        self._state = state
        self._header = _header(state.header) if state.header else None
        self._parts = PartJoiner(list(state.parts))
        self._fold: _MirroredFold | None = None
        self._new: list[EventRow] = []
        self._seq, self._chain, self._wall_ns = state.seq, state.event_chain, state.wall_ns
        self._is_ended, self._trouble = state.is_ended, state.trouble
        self.new_events = 0

    def add(self, value: bytes, part: str | None) -> None:
        """Take the next message. Errors are not raised: they become the log's `trouble`."""
        if self._trouble:
            return
        try:
            whole = self._parts.add(value, part)
            if whole is not None:
                self._add(whole)
        except _LogBroken as error:
            self._trouble = str(error)
        except (LogError, ReplayError, msgspec.MsgspecError) as error:
            self._trouble = f"after event {self._seq}: {error}"

    def state(self) -> MirroredLogState:
        """The state that the next batch resumes from."""
        fold, state = self._fold, self._state
        snapshot, events = state.snapshot, [*state.events, *self._new]
        term, is_active = state.term, state.is_active
        if fold is not None:
            term, is_active = max(fold.known_term, term), fold.is_active
            if len(events) > REFOLDED_MAX and fold.is_idle:
                snapshot, events = fold.snapshot(), []
        if self._is_ended or self._trouble:
            snapshot, events, is_active = None, [], False
        return MirroredLogState(
            state.header,
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
            state.name,
        )

    def partitions(self) -> list[MirroredPartition] | None:
        """The health of all partitions, as the daemon of this log last knew it; None without new
        events."""
        return self._fold.partitions() if self._fold is not None else None

    def _add(self, whole: bytes) -> None:
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
        if body == self._state.header:
            return
        if number > FORMAT:
            raise _LogBroken(f"written by a newer refold (format {number}, not {FORMAT})")
        header = _header(body)
        name = self._state.name
        if self._header is None:
            self._check_first(header)
            name = name_of_log(header, body)
        elif header.first_seq <= self._seq:
            return
        elif header.predecessor is None or header.predecessor.event_chain != self._chain:
            raise _LogBroken(f"segment {header.first_seq} does not follow event {self._seq}")
        start = chain.start(header, body)
        self._header, self._state = (
            header,
            msgspec.structs.replace(self._state, header=body, name=name),
        )
        self._seq, self._chain = start.last_seq, start.event_chain

    def _check_first(self, header: Header) -> None:
        if header.kind != "recorded":
            raise _LogBroken("an imported log of a stock controller: only recorded logs are folded")
        if header.first_seq != 1:
            raise _LogBroken("the topic does not contain the beginning of the log")

    def _event(self, row: EventRow) -> None:
        if self._header is None:
            raise _LogBroken("the topic does not contain the beginning of the log")
        seq = row[0]
        if seq <= self._seq:
            return
        if seq != self._seq + 1 or chain.link(self._chain, row[:-1]) != row[-1]:
            raise _LogBroken(f"event {seq} does not follow event {self._seq}: records are missing")
        if self._fold is None:
            self._fold = _MirroredFold(self._header, self._state)
        self._fold.add(row)
        self._new.append(row)
        self._seq, self._chain, self._wall_ns = seq, row[-1], row[1]
        self.new_events += 1

    def _end(self, body: bytes) -> None:
        closing = msgspec.json.decode(body, type=Closing)
        if closing.tip.event_chain != self._chain and closing.tip.last_seq >= self._seq:
            raise _LogBroken(f"the log ends with event {closing.tip.last_seq}, not {self._seq}")
        self._is_ended = True


class _LogBroken(Exception):
    """Why a log cannot be folded any further."""


class _MirroredFold(FoldObserver):
    """The fold of a log, and the last term for which its context is complete."""

    def __init__(self, header: Header, state: MirroredLogState) -> None:
        """Restore the fold after the events of `state`. Raises ReplayError."""
        configuration = configuration_of(header)
        self._origin = header
        self._fold = (
            Fold(configuration)
            if state.snapshot is None
            else load_snapshot(state.snapshot, configuration)
        )
        self.known_term = self._controller.context.epoch if state.snapshot else 0
        self._controller.observer = self
        self._known: ControllerContext | None = None
        for row in state.events:
            self.add(row)

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
        # The first procedure of a term is its failover; the context is complete at its end.
        if self._controller.is_active:
            self.known_term = self._controller.context.epoch

    def add(self, row: EventRow) -> None:
        """Fold an event. Raises ReplayError, LogError, _LogBroken."""
        event = decode_recorded(UPCASTERS.upcast(EventRecord._make(row[:-1]), "the topic"))
        try:
            for _ in self._fold.apply(event):
                pass
        except Exception as error:
            raise _LogBroken(
                f"recorded by core {self._origin.core_fingerprint} (refold "
                f"{self._origin.code_version}); this one, {core_fingerprint()}, cannot fold "
                f"{name_with_command(event)}"
            ) from error
        # A resignation replaces the context, so this object stays unchanged.
        if self._knows_all:
            self._known = self._controller.context

    def snapshot(self) -> bytes:
        return take_snapshot(self._fold)

    def partitions(self) -> list[MirroredPartition] | None:
        context = self._known
        if context is None:
            return None
        staying = (one for one in context.partitions() if not context.is_queued(one))
        return [_health(one) for one in sorted_partitions(staying)]

    @property
    def _knows_all(self) -> bool:
        return self._controller.is_active and self.known_term == self._controller.context.epoch


def _health(partition: Partition) -> MirroredPartition:
    state = partition.leadership
    return MirroredPartition(
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
