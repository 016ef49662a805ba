"""The commands of a version that has left the log: who answers them, and when.

One that the log has, too, is answered by the log (`CounterfactualRun`); reads that it has not are
answered at once, everything else after the usual time.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Final

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
    LeaderAndIsrRequest,
    ReadChildren,
    ReadStats,
    ReadZnodes,
    Reason,
    StartTimer,
    StopReplicaRequest,
    SyncZnodes,
    UpdateMetadataRequest,
    WriteAtomically,
    WriteZnodes,
    ZooKeeperCommand,
)
from controller.core.events import (
    BrokerAnswered,
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
from replay.diff.version.draws import numbers, topic_ids
from replay.diff.version.fold_options import Wanted
from replay.diff.version.log_commands import LogCommand, LogCommands
from replay.diff.version.own_zookeeper import OwnZooKeeper
from replay.diff.version.schedule import Schedule
from replay.errors import ReplayError
from replay.logs.recorded_fold import fold_event
from replay.world.outcomes import ZooKeeperOutcome

READS: Final = (ReadZnodes, ReadStats, ReadChildren, SyncZnodes)
WRITES: Final = (WriteZnodes, WriteAtomically)
AS_IN_LOG: Final = 0
"""Of a timer: it fires when it does in the log."""

_REQUESTS: Final = (LeaderAndIsrRequest, UpdateMetadataRequest, StopReplicaRequest)
_DRAWS: Final = (DrawTopicIds, DrawNumbers)
_EVENTS_IN_A_ROW_MAX: Final = 20_000
_ZOOKEEPER: Final = "zookeeper"
_END_NS: Final = 1 << 63
_NO_REASON: Final = Reason("")


class Waiting(Struct, eq=False):
    """A command that is not answered. Where the log answers it in parts: the results that are
    there by place, (error, version) each, and how many are not."""

    issued: Issued
    results: dict[int, tuple[int, int]] = field(default_factory=dict)
    open: int = 0


class CommandResponder:
    """The fold, and what its commands wait for. `seq` and `event` are the event of the log that
    came last and its kind, `now_ns` the wall clock, `turn` the number of the last own event.
    `usual_ns` tells how long the answer to a kind of command takes, `timers` are those that run."""

    def __init__(
        self,
        fold: Fold,
        world: OwnZooKeeper,
        log: LogCommands,
        usual_ns: Callable[[str], int],
        timers: Iterable[str],
        last: Recorded,
        wanted: Wanted,
    ) -> None:
        self.seq = self.turn = last.seq
        self.event = kind_of(last.event)
        self.now_ns = last.wall_ns
        self.timers: dict[str, int] = dict.fromkeys(timers, AS_IN_LOG)
        self.waiting: dict[CommandId, Waiting] = {}
        self.assumed: Counter[str] = Counter()
        self.drawn: dict[bytes, deque[TopicIdsDrawn | NumbersDrawn]] = defaultdict(deque)
        """What the log has drawn and the version has not, by the digest of the command."""
        self.answered: dict[bytes, deque[BrokerAnswered]] = defaultdict(deque)
        """The same for brokers' answers to requests that the version had not sent by then."""
        self.is_timed_by_log: Callable[[str], bool] = lambda _: False
        """Of a timer that the log need not have: whether it fires only when the log says."""
        self.is_silent: Callable[[int], bool] = lambda _: False
        """Of a broker that is registered: whether it answers nothing now."""
        self._fold = fold
        self._world = world
        self._log = log
        self._usual_ns = usual_ns
        self._wanted = wanted
        self._mono_ns = last.mono_ns - last.wall_ns
        self._inbox: deque[tuple[str, Event]] = deque()
        self._schedule = Schedule()
        self._timer_starts = AS_IN_LOG

    @property
    def now_ms(self) -> int:
        """The wall clock in ms."""
        return self.now_ns // 1_000_000

    def adopt(self, id: CommandId, command: Command) -> None:
        """It was asked for, as in the log, before the version left it."""
        issued = Issued(id, 0, command, _NO_REASON)
        self.waiting[id] = Waiting(issued)
        self._log.adopt(issued)

    # What happens

    def happen(self, event: Event, channel: str) -> None:
        """An event has come; `work` folds it."""
        self._inbox.append((channel, event))

    def work(self) -> None:
        """Fold what has come, carry out what comes of it, until nothing more does."""
        begun = self.turn
        while self._inbox:
            if self.turn - begun > _EVENTS_IN_A_ROW_MAX:
                raise ReplayError(
                    f"behind event {self.seq} this version goes round in circles: "
                    f"{_EVENTS_IN_A_ROW_MAX} events in a row, and no end"
                )
            channel, event = self._inbox.popleft()
            self.turn += 1
            mono_ns = self.now_ns + self._mono_ns
            own = Recorded(self.turn, self.now_ns, mono_ns, self._fold.term, channel, event)
            issued = fold_event(self._fold, own)
            causes = self._wanted.causes.take()
            deciding = self._wanted.deciding
            deciding.take(issued, self.seq, self.turn, self.now_ns, self.event, causes)
            self._wanted.courses.look(self._fold.controller, self.now_ns)
            self.carry_out(issued)

    def run_until(self, time_ns: int) -> None:
        """All that is due before."""
        while (due := self._schedule.take(time_ns)) is not None:
            self.now_ns = max(self.now_ns, due[0])
            due[1]()
            self.work()
        self.now_ns = max(self.now_ns, time_ns)

    def finish(self) -> None:
        """The log is over. What is under way goes on to its end; no timer fires any more."""
        begun = self.turn
        while self.turn - begun < _EVENTS_IN_A_ROW_MAX:
            self.timers.clear()
            self._schedule.drop("timer")
            due = self._schedule.take(_END_NS)
            if due is not None:
                self.now_ns = max(self.now_ns, due[0])
                due[1]()
            elif self.waiting and self._fold.controller.is_connected:
                self.assumed[assumptions.CUT] += 1
                self._answer_open(next(iter(self.waiting.values())).issued)
            else:
                return
            self.work()

    def lose_all(self, error: int) -> None:
        """The connection or the session is over: nothing that waits for it is answered."""
        self._schedule.drop(_ZOOKEEPER)
        for waiting in list(self.waiting.values()):
            command = waiting.issued.command
            if isinstance(command, (*READS, *WRITES)):
                del self.waiting[waiting.issued.id]
                self.happen(_lost(waiting.issued.id, command, error), _ZOOKEEPER)

    # Commands

    def carry_out(self, issued: Iterable[Issued]) -> None:
        """What the fold wants done."""
        for one in issued:
            command = one.command
            if isinstance(command, READS):
                self._read(one, command)
            elif isinstance(command, WRITES):
                self._write(one, command)
            elif isinstance(command, _REQUESTS):
                self._send(one, command)
            elif isinstance(command, StartTimer):
                self._start_timer(one, command)
            elif isinstance(command, CancelTimer):
                self.timers.pop(command.timer, None)
            elif isinstance(command, _DRAWS):
                self._draw(one, command)

    def _read(self, issued: Issued, command: ZooKeeperCommand) -> None:
        self._world.watch(command)
        self.waiting[issued.id] = waiting = Waiting(issued)
        if self._log.take(issued, self.now_ns, ahead=False) is not None:
            return
        if isinstance(command, (ReadZnodes, ReadStats)):
            waiting.open = len(self._log.take_items(issued, self.now_ns))
        if not waiting.open:
            self.assumed[assumptions.READS] += not isinstance(command, SyncZnodes)
            self.answer_by_world(issued)

    def _write(self, issued: Issued, command: WriteZnodes | WriteAtomically) -> None:
        self.waiting[issued.id] = waiting = Waiting(issued)
        if self._log.take(issued, self.now_ns, ahead=True) is not None:
            return
        found: dict[int, LogCommand] = {}
        if isinstance(command, WriteZnodes):
            found = self._log.take_items(issued, self.now_ns)
        if not found:
            self.assumed[assumptions.WRITES] += 1
            self._later(command, _ZOOKEEPER, lambda: self.answer_by_world(issued))
            return
        waiting.open = len(command.operations)
        rest = [place for place in range(waiting.open) if place not in found]
        if rest:
            self.assumed[assumptions.WRITES] += 1
            self._later(command, _ZOOKEEPER, lambda: self.write_places(waiting, rest))

    def write_places(self, waiting: Waiting, places: list[int]) -> None:
        """Write some operations of a bulk in the world."""
        command = waiting.issued.command
        assert isinstance(command, WriteZnodes), "an atomic write has no parts"
        operations = tuple(command.operations[place] for place in places)
        part = WriteZnodes(operations, command.epoch_version)
        [written], fired = self._world.carry_out(waiting.issued.id, part, self.now_ms)
        assert isinstance(written, ZnodesWritten), "what is written has written outcomes"
        self.tell(fired)
        for place, error, version in zip(places, written.errors, written.versions, strict=True):
            self.settle(waiting, place, error, version)

    def settle(self, waiting: Waiting, place: int, error: int, version: int) -> None:
        """One write of a bulk has its result; with the last one the fold is told."""
        waiting.results[place] = (error, version)
        waiting.open -= 1
        if waiting.open > 0:
            return
        results = [result for _, result in sorted(waiting.results.items())]
        id = waiting.issued.id
        self.waiting.pop(id, None)
        errors, versions = [one for one, _ in results], [one for _, one in results]
        self.happen(ZnodesWritten(id, 0, errors, versions), _ZOOKEEPER)

    def answer_by_world(self, issued: Issued) -> None:
        """Do what is asked in the version's own ZooKeeper."""
        command = issued.command
        if self.waiting.pop(issued.id, None) is None:
            return
        assert isinstance(command, (*READS, *WRITES)), "the world is ZooKeeper"
        outcomes, fired = self._world.carry_out(issued.id, command, self.now_ms)
        # What changed before the reply is told before the reply.
        self.tell(fired)
        for one in outcomes:
            self.happen(one, _ZOOKEEPER)

    def tell(self, fired: Iterable[WatchFired]) -> None:
        """Watches have fired."""
        for one in fired:
            self.happen(one, "watches")

    def _later(self, command: Command, kind: str, act: Callable[[], None]) -> None:
        self._schedule.add(self.now_ns + self._usual_ns(kind_of(command)), kind, act)

    def _send(self, issued: Issued, request: BrokerRequest) -> None:
        if self._log.take(issued, self.now_ns, ahead=True) is not None:
            return
        missed = self.answered.get(digest(encode_command(request)))
        if missed:
            answered = structs.replace(missed.popleft(), command=issued.id)
        else:
            self.assumed[assumptions.REQUESTS] += 1
            answered = BrokerAnswered(issued.id, request.broker, request.broker_epoch, OK, [])

        def answer() -> None:
            is_there = self._world.find(znodes.broker_path(request.broker)) is not None
            if is_there and not self.is_silent(request.broker):
                self.happen(answered, f"broker:{request.broker}")

        self._later(request, "broker", answer)

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
                self.happen(TimerFired(timer), f"timer:{timer}")

        self._schedule.add(self.now_ns + command.delay_ms * 1_000_000, "timer", fire)

    def _draw(self, issued: Issued, command: DrawTopicIds | DrawNumbers) -> None:
        if self._log.take(issued, self.now_ns, ahead=False) is not None:
            self.waiting[issued.id] = Waiting(issued)
        elif missed := self.drawn.get(digest(encode_command(command))):
            # It draws later than the log did: a value is as good then.
            self.happen(structs.replace(missed.popleft(), command=issued.id), "draw")
        else:
            self._make_up(issued.id, command)

    def _make_up(self, id: CommandId, command: DrawTopicIds | DrawNumbers) -> None:
        self.assumed[assumptions.DRAWS] += 1
        seed = encode_command(command) + bytes([self.assumed[assumptions.DRAWS] % 256])
        if isinstance(command, DrawTopicIds):
            self.happen(TopicIdsDrawn(id, topic_ids(seed, command.count)), "draw")
        else:
            self.happen(NumbersDrawn(id, numbers(seed, command.bounds)), "draw")

    def _answer_open(self, issued: Issued) -> None:
        command = issued.command
        if isinstance(command, _DRAWS):
            del self.waiting[issued.id]
            self._make_up(issued.id, command)
        else:
            self.answer_by_world(issued)


def _lost(id: CommandId, command: ZooKeeperCommand, error: int) -> ZooKeeperOutcome:
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
        case SyncZnodes():
            return ZnodesWritten(id, 0, [error], [-1])
