"""Failures of stock controllers, from the lines of their controller.log."""

import re
from typing import Final, NamedTuple

from msgspec import Struct, field

from replay.cluster_view.waiting import STUCK_NS
from replay.stock_clusters.imported_log.events import BrokerLogged, ControllerLogged
from replay.times import iso_time
from replay.why.facts import AnyFact, NoticeIssued, RoleChanged
from replay.why.subject import PROCEDURE_FAILED, QUEUE_STUCK, STATE_MACHINE_STUCK

_COMPONENT: Final = r"\[[^]]*\] "
_WHY: Final = r"(?:: (?P<why>.*))?$"
_FAILOVER: Final = re.compile(
    _COMPONENT + r"Error while electing or becoming controller on broker \d+\."
    r" Trigger controller movement immediately" + _WHY,
    re.DOTALL,
)
_CHANGE: Final = re.compile(
    _COMPONENT + r"Error while moving some (?P<what>partition|replica)s to (?P<target>\w+) state"
    r"(?: using strategy [^:]*)?" + _WHY,
    re.DOTALL,
)
_PROCESSING: Final = re.compile(
    _COMPONENT + r"Error processing event (?P<what>\w+)" + _WHY, re.DOTALL
)
_DONE: Final = re.compile(_COMPONENT + "Starting the controller scheduler$")
_NOT_EMPTY: Final = "batch is not empty"
_PACKAGE: Final = re.compile(r"^(?:\w+\.)+")


class _Place(NamedTuple):
    seq: int
    wall_ns: int


class StockFailures(Struct):
    """Notes the failures that stock controllers logged, and changes of brokers that a controller
    does not process.

    A line belongs to the last term of its broker: what a broker logs after its term is about that
    term, too.
    """

    _controller: int = -1
    _epochs: dict[int, int] = field(default_factory=dict)
    _unprocessed: dict[int, tuple[str, _Place]] = field(default_factory=dict)
    _last_line_ns: dict[int, int] = field(default_factory=dict)
    _logs_events: bool = False

    def elected(self, broker: int, epoch: int) -> None:
        """A broker becomes controller."""
        self._controller, self._epochs[broker] = broker, epoch
        self._unprocessed.clear()
        self._logs_events = False

    def changed(self, broker: int, what: str, seq: int, wall_ns: int) -> None:
        """A broker registers or is gone, which the controller is to process."""
        self._unprocessed.setdefault(broker, (what, _Place(seq, wall_ns)))

    def logs(self, event: BrokerLogged, wall_ns: int) -> None:
        """A broker logs a line of any file."""
        self._last_line_ns[event.broker] = wall_ns
        if isinstance(event, ControllerLogged) and event.broker == self._controller:
            self._logs_events = True
            if event.event in ("BrokerChange", "Elected"):
                self._unprocessed.clear()

    def stuck_controller(self, seq: int, wall_ns: int) -> AnyFact | None:
        """The fact that the controller is stuck at this time: it is alive, since its broker logs,
        and has not processed a change of the brokers."""
        if not self._unprocessed or not self._logs_events:
            return None
        broker, (what, at) = min(self._unprocessed.items(), key=lambda one: one[1][1])
        if self._last_line_ns.get(self._controller, 0) - at.wall_ns < STUCK_NS:
            return None
        seconds = (wall_ns - at.wall_ns) // 1_000_000_000
        text = (
            f"it has not processed that broker {broker} {what} at event {at.seq} "
            f"({iso_time(at.wall_ns)}), {seconds} s ago"
        )
        epoch = self._epochs.get(self._controller, 0)
        return NoticeIssued(
            seq=seq,
            wall_ns=wall_ns,
            epoch=epoch,
            level="error",
            code=QUEUE_STUCK,
            subject="controller events",
            text=text,
        )

    def fact(self, logged: ControllerLogged, seq: int, wall_ns: int) -> AnyFact | None:
        """The fact that a line shows, if it shows one."""
        epoch, text = self._epochs.get(logged.broker, 0), logged.text
        if found := _FAILOVER.match(text):
            code, why = "failover_failed", _cause(found["why"])
        elif _DONE.match(text):
            code, why = "failover_done", f"the failover of controller epoch {epoch} is done"
        else:
            return _failure(logged, _Place(seq, wall_ns), epoch)
        broker = logged.broker
        return RoleChanged(
            seq=seq, wall_ns=wall_ns, epoch=epoch, code=code, broker=broker, text=why
        )


def _failure(logged: ControllerLogged, at: _Place, epoch: int) -> AnyFact | None:
    if found := _CHANGE.match(logged.text):
        code, why = _change(found)
        subject = f"{found['what']} state machine"
    elif found := _PROCESSING.match(logged.text):
        code, subject = PROCEDURE_FAILED, found["what"]
        why = f"{subject} failed: {_cause(found['why'])}"
    else:
        return None
    return NoticeIssued(
        seq=at.seq,
        wall_ns=at.wall_ns,
        epoch=epoch,
        level="error",
        code=code,
        subject=subject,
        text=why,
    )


def _change(found: re.Match[str]) -> tuple[str, str]:
    """The code and the text of a change of states that failed."""
    head = f"nothing is moved to {found['target']}"
    if _NOT_EMPTY not in (found["why"] or ""):
        return PROCEDURE_FAILED, f"{head}: {_cause(found['why'])}"
    return (
        STATE_MACHINE_STUCK,
        f"{head}: requests of an earlier change were never sent ({_NOT_EMPTY})",
    )


def _cause(exception: str | None) -> str:
    """An exception without its package."""
    return _PACKAGE.sub("", exception.strip()) if exception else "the log has no cause"
