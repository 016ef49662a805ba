"""Answers the commands of a version that has left the log.

A command that the log also contains gets the log's outcome (`CounterfactualRun`). Other reads are
answered at once, and other commands after the usual time.
"""

import hashlib
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final, Protocol

from msgspec import Struct, field, structs

from controller.core import znodes
from controller.core.canonical import digest, encode_command, kind_of
from controller.core.commands import (
    BrokerRequest,
    CancelTimer,
    Command,
    CommandId,
    DrawNumbers,
    DrawTopicIds,
    Issued,
    ReadChildren,
    ReadStats,
    ReadZnodes,
    Reason,
    StartTimer,
    SyncZnodes,
    WatchSubtree,
    WriteAtomically,
    WriteZnodes,
    ZooKeeperCommand,
)
from controller.core.events import (
    BrokerResponded,
    ChildrenRead,
    Event,
    NumbersDrawn,
    Recorded,
    TimerFired,
    TopicIdsDrawn,
    WatchFired,
    ZnodesRead,
    ZnodesWritten,
)
from controller.core.fold import Fold
from controller.core.operations import OK
from replay.diff.version import assumptions
from replay.diff.version.fold_recorder import FoldRecorder
from replay.diff.version.log_commands import LogCommand, LogCommands
from replay.errors import ReplayError
from replay.logs.recorded_fold import fold_event
from replay.world.outcomes import ZooKeeperOutcome
from replay.znode_tree.tree import Znode

READS: Final = (ReadZnodes, ReadStats, ReadChildren, SyncZnodes, WatchSubtree)
WRITES: Final = (WriteZnodes, WriteAtomically)
AS_IN_LOG: Final = 0
"""For a timer that fires when it fires in the log."""

_DRAWS: Final = (DrawTopicIds, DrawNumbers)
_EVENTS_IN_A_ROW_MAX: Final = 20_000
_ZOOKEEPER: Final = "zookeeper"
_END_NS: Final = 1 << 63
_NO_REASON: Final = Reason("")
_DRAWN_BYTES: Final = 16

Act = Callable[[], None]


class SimulatedZooKeeper(Protocol):
    """The ZooKeeper that carries out the commands of the controller's `session`."""

    session: int

    def find(self, path: str) -> Znode | None:
        """A znode, or None if it does not exist."""

    def watch(self, command: ZooKeeperCommand) -> None:
        """Set the watches of a command, whether or not it is carried out here."""

    def carry_out(
        self, id: CommandId, command: ZooKeeperCommand, now_ms: int
    ) -> tuple[list[ZooKeeperOutcome], list[WatchFired]]:
        """Carry out a command. Return its outcomes, and the watches that fire before them."""


class PendingCommand(Struct, eq=False):
    """A command without an outcome. If the log answers it in parts, `results` are the received
    results (error, version) by position, and `missing` is the number of the others."""

    issued: Issued
    results: dict[int, tuple[int, int]] = field(default_factory=dict)
    missing: int = 0


class CommandResponder:
    """Drives the fold with the outcomes of its commands.

    `seq` and `event` are the last event of the log and its kind, `now_ns` is the wall clock, and
    `turn` the number of the last folded event. `usual_ns` returns the usual time until the outcome
    of a kind of command. `timers` are the running timers.
    """

    def __init__(
        self,
        fold: Fold,
        zookeeper: SimulatedZooKeeper,
        log: LogCommands,
        usual_ns: Callable[[str], int],
        timers: Iterable[str],
        last: Recorded,
        recorder: FoldRecorder,
    ) -> None:
        self.seq = self.turn = last.seq
        self.event = kind_of(last.event)
        self.now_ns = last.wall_ns
        self.timers: dict[str, int] = dict.fromkeys(timers, AS_IN_LOG)
        self.pending: dict[CommandId, PendingCommand] = {}
        self.assumed: Counter[str] = Counter()
        self.drawn: dict[bytes, deque[TopicIdsDrawn | NumbersDrawn]] = defaultdict(deque)
        """Random draws of the log that the version has not requested, by the command's digest."""
        self.answered: dict[bytes, deque[BrokerResponded]] = defaultdict(deque)
        """Brokers' responses in the log to requests that the version had not sent, by digest."""
        self.is_timed_by_log: Callable[[str], bool] = lambda _: False
        """Whether a timer that the log may lack fires only when the log says so."""
        self.is_unresponsive: Callable[[int], bool] = lambda _: False
        """Whether a registered broker sends no responses now."""
        self._fold = fold
        self._zookeeper = zookeeper
        self._log = log
        self._usual_ns = usual_ns
        self._recorder = recorder
        self._mono_ns = last.mono_ns - last.wall_ns
        self._inbox: deque[tuple[str, Event]] = deque()
        self._schedule = _Schedule()
        self._timer_starts = AS_IN_LOG

    @property
    def now_ms(self) -> int:
        """The wall clock in ms."""
        return self.now_ns // 1_000_000

    def adopt(self, id: CommandId, command: Command) -> None:
        """Add a command from before the version left the log, which has no outcome yet. A broker
        may never answer a request."""
        issued = Issued(id, 0, command, _NO_REASON)
        if not isinstance(command, BrokerRequest):
            self.pending[id] = PendingCommand(issued)
        self._log.adopt(issued)

    # Events

    def receive(self, event: Event, channel: str) -> None:
        """Queue an event for `work`."""
        self._inbox.append((channel, event))

    def work(self) -> None:
        """Fold the queued events and carry out their commands, until the queue is empty."""
        begun = self.turn
        while self._inbox:
            if self.turn - begun > _EVENTS_IN_A_ROW_MAX:
                raise ReplayError(
                    f"this version does not stop after event {self.seq}: it caused "
                    f"{_EVENTS_IN_A_ROW_MAX} further events"
                )
            channel, event = self._inbox.popleft()
            self.turn += 1
            mono_ns = self.now_ns + self._mono_ns
            own = Recorded(self.turn, self.now_ns, mono_ns, self._fold.term, channel, event)
            self._recorder.note(event)
            issued = fold_event(self._fold, own)
            self._recorder.record(
                self._fold.controller, issued, self.seq, self.turn, self.now_ns, self.event
            )
            self.carry_out(issued)

    def run_until(self, time_ns: int) -> None:
        """Do everything that is due up to a time."""
        while (due := self._schedule.take(time_ns)) is not None:
            self.now_ns = max(self.now_ns, due[0])
            due[1]()
            self.work()
        self.now_ns = max(self.now_ns, time_ns)

    def finish(self) -> None:
        """The log has ended: complete the pending commands. Timers do not fire any more."""
        begun = self.turn
        while self.turn - begun < _EVENTS_IN_A_ROW_MAX:
            self.timers.clear()
            self._schedule.drop("timer")
            due = self._schedule.take(_END_NS)
            if due is not None:
                self.now_ns = max(self.now_ns, due[0])
                due[1]()
            elif self.pending and self._fold.controller.is_connected:
                self.assumed[assumptions.CUT] += 1
                self._answer_pending(next(iter(self.pending.values())).issued)
            else:
                return
            self.work()

    def lose_all(self, error: int) -> None:
        """Fail all pending ZooKeeper commands: the connection was lost or the session expired."""
        self._schedule.drop(_ZOOKEEPER)
        for pending in list(self.pending.values()):
            command = pending.issued.command
            if isinstance(command, ZooKeeperCommand):
                del self.pending[pending.issued.id]
                self.receive(_failed_outcome(pending.issued.id, command, error), _ZOOKEEPER)

    # Commands

    def carry_out(self, issued: Iterable[Issued]) -> None:
        """Carry out the commands of the fold."""
        for one in issued:
            command = one.command
            if isinstance(command, READS):
                self._read(one, command)
            elif isinstance(command, WRITES):
                self._write(one, command)
            elif isinstance(command, BrokerRequest):
                self._send(one, command)
            elif isinstance(command, StartTimer):
                self._start_timer(one, command)
            elif isinstance(command, CancelTimer):
                self.timers.pop(command.timer, None)
            elif isinstance(command, _DRAWS):
                self._draw(one, command)

    def _read(self, issued: Issued, command: ZooKeeperCommand) -> None:
        self._zookeeper.watch(command)
        self.pending[issued.id] = pending = PendingCommand(issued)
        if self._log.take(issued, self.now_ns, ahead=False) is not None:
            return
        if isinstance(command, (ReadZnodes, ReadStats)):
            pending.missing = len(self._log.take_items(issued, self.now_ns))
        if not pending.missing:
            self.assumed[assumptions.READS] += not isinstance(command, (SyncZnodes, WatchSubtree))
            self.answer_simulated(issued)

    def _write(self, issued: Issued, command: WriteZnodes | WriteAtomically) -> None:
        self.pending[issued.id] = pending = PendingCommand(issued)
        if self._log.take(issued, self.now_ns, ahead=True) is not None:
            return
        found: dict[int, LogCommand] = {}
        if isinstance(command, WriteZnodes):
            found = self._log.take_items(issued, self.now_ns)
        if not found:
            self.assumed[assumptions.WRITES] += 1
            self._schedule_act(command, _ZOOKEEPER, lambda: self.answer_simulated(issued))
            return
        pending.missing = len(command.operations)
        rest = [place for place in range(pending.missing) if place not in found]
        if rest:
            self.assumed[assumptions.WRITES] += 1
            self._schedule_act(command, _ZOOKEEPER, lambda: self.write_places(pending, rest))

    def write_places(self, pending: PendingCommand, places: list[int]) -> None:
        """Carry out some operations of a batch in the simulated ZooKeeper."""
        command = pending.issued.command
        assert isinstance(command, WriteZnodes), "an atomic write has no parts"
        operations = tuple(command.operations[place] for place in places)
        part = WriteZnodes(operations, command.epoch_version)
        [written], fired = self._zookeeper.carry_out(pending.issued.id, part, self.now_ms)
        assert isinstance(written, ZnodesWritten), "writes have this outcome"
        self.fire(fired)
        for place, error, version in zip(places, written.errors, written.versions, strict=True):
            self.add_result(pending, place, error, version)

    def add_result(self, pending: PendingCommand, place: int, error: int, version: int) -> None:
        """Add the result of one write of a batch. The last result completes the outcome."""
        pending.results[place] = (error, version)
        pending.missing -= 1
        if pending.missing > 0:
            return
        results = [result for _, result in sorted(pending.results.items())]
        id = pending.issued.id
        self.pending.pop(id, None)
        errors, versions = [one for one, _ in results], [one for _, one in results]
        self.receive(ZnodesWritten(id, 0, errors, versions), _ZOOKEEPER)

    def answer_simulated(self, issued: Issued) -> None:
        """Carry out a command in the simulated ZooKeeper."""
        command = issued.command
        if self.pending.pop(issued.id, None) is None:
            return
        assert isinstance(command, ZooKeeperCommand), "the simulation is of ZooKeeper only"
        outcomes, fired = self._zookeeper.carry_out(issued.id, command, self.now_ms)
        # ZooKeeper sends the watch events of a change before the reply.
        self.fire(fired)
        for one in outcomes:
            self.receive(one, _ZOOKEEPER)

    def fire(self, fired: Iterable[WatchFired]) -> None:
        """Queue watch events."""
        for one in fired:
            self.receive(one, "watches")

    def _schedule_act(self, command: Command, kind: str, act: Act) -> None:
        self._schedule.add(self.now_ns + self._usual_ns(kind_of(command)), kind, act)

    def _send(self, issued: Issued, request: BrokerRequest) -> None:
        if self._log.take(issued, self.now_ns, ahead=True) is not None:
            return
        missed = self.answered.get(digest(encode_command(request)))
        if missed:
            answered = structs.replace(missed.popleft(), command=issued.id)
        else:
            self.assumed[assumptions.REQUESTS] += 1
            answered = BrokerResponded(issued.id, request.broker, request.broker_epoch, OK, [])

        def answer() -> None:
            is_registered = self._zookeeper.find(znodes.broker_path(request.broker)) is not None
            if is_registered and not self.is_unresponsive(request.broker):
                self.receive(answered, f"broker:{request.broker}")

        self._schedule_act(request, "broker", answer)

    def _start_timer(self, issued: Issued, command: StartTimer) -> None:
        timer = command.timer
        taken = self._log.take(issued, self.now_ns, ahead=True)
        if taken is not None or self.is_timed_by_log(timer):
            self.timers[timer] = AS_IN_LOG
            return
        self.assumed[assumptions.TIMERS] += 1
        self._timer_starts += 1
        self.timers[timer] = start = self._timer_starts

        def fire() -> None:
            if self.timers.get(timer) == start:
                del self.timers[timer]
                self.receive(TimerFired(timer), f"timer:{timer}")

        self._schedule.add(self.now_ns + command.delay_ms * 1_000_000, "timer", fire)

    def _draw(self, issued: Issued, command: DrawTopicIds | DrawNumbers) -> None:
        if self._log.take(issued, self.now_ns, ahead=False) is not None:
            self.pending[issued.id] = PendingCommand(issued)
        elif missed := self.drawn.get(digest(encode_command(command))):
            # The version draws later than the log did; the same value is valid.
            self.receive(structs.replace(missed.popleft(), command=issued.id), "draw")
        else:
            self._generate(issued.id, command)

    def _generate(self, id: CommandId, command: DrawTopicIds | DrawNumbers) -> None:
        self.assumed[assumptions.DRAWS] += 1
        seed = encode_command(command) + bytes([self.assumed[assumptions.DRAWS] % 256])
        if isinstance(command, DrawTopicIds):
            ids = [_drawn_bytes(seed, number) for number in range(command.count)]
            self.receive(TopicIdsDrawn(id, ids), "draw")
        else:
            self.receive(NumbersDrawn(id, _numbers(seed, command.bounds)), "draw")

    def _answer_pending(self, issued: Issued) -> None:
        command = issued.command
        if isinstance(command, _DRAWS):
            del self.pending[issued.id]
            self._generate(issued.id, command)
        else:
            self.answer_simulated(issued)


class _Schedule:
    """Actions to run at a time. Actions of the same time run in the order of their addition."""

    def __init__(self) -> None:
        self._numbers = count()
        self._waiting: list[tuple[int, int, str, Act]] = []

    def add(self, time_ns: int, kind: str, act: Act) -> None:
        """Add an action. `kind` is for `drop`."""
        heappush(self._waiting, (time_ns, next(self._numbers), kind, act))

    def take(self, until_ns: int) -> tuple[int, Act] | None:
        """Remove and return the next action that is due, with its time."""
        if not self._waiting or self._waiting[0][0] > until_ns:
            return None
        time_ns, _, _, act = heappop(self._waiting)
        return time_ns, act

    def drop(self, kind: str) -> None:
        """Remove all actions of a kind."""
        self._waiting = [one for one in self._waiting if one[2] != kind]
        heapify(self._waiting)


def _numbers(seed: bytes, bounds: Sequence[int]) -> list[int]:
    """A number below each bound."""
    return [
        int.from_bytes(_drawn_bytes(seed, number)) % bound for number, bound in enumerate(bounds)
    ]


def _drawn_bytes(seed: bytes, number: int) -> bytes:
    """A pseudo-random value. It depends on the command only, so that all versions draw the same."""
    content = seed + number.to_bytes(8, "big")
    return hashlib.blake2b(content, digest_size=_DRAWN_BYTES).digest()


def _failed_outcome(id: CommandId, command: ZooKeeperCommand, error: int) -> ZooKeeperOutcome:
    match command:
        case ReadChildren():
            return ChildrenRead(id, error, [])
        case ReadZnodes(paths=paths) | ReadStats(paths=paths):
            count = len(paths)
            none = [-1] * count
            return ZnodesRead(id, 0, [error] * count, [None] * count, none, none, none, none)
        case WriteZnodes(operations=operations) | WriteAtomically(operations=operations):
            count = len(operations)
            return ZnodesWritten(id, 0, [error] * count, [-1] * count)
        case SyncZnodes() | WatchSubtree():
            return ZnodesWritten(id, 0, [error], [-1])
