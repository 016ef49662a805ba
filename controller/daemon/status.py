"""Collects what `refold status` shows. Reads memory only, so that it takes no time."""

import os
import time
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from controller.core.canonical import kind_of
from controller.core.commands import target_of
from controller.core.fold import Fold
from controller.core.triggers import trigger_name
from controller.core.values import format_session
from controller.daemon.daemon import Inbox
from controller.daemon.progress import LoopProgress
from controller.fingerprint import code_version
from controller.operator.daemon_status import (
    DaemonStatus,
    DecisionStatus,
    EventStatus,
    LogStatus,
    QueueStatus,
    Role,
    RoleAtStart,
    SessionStatus,
    StandbyStatus,
    TermStatus,
)
from controller.structured_log import utc_time
from controller.zookeeper.connection import ConnectionStatus
from eventstore.writer import LogWriter

_NEXT_MAX: Final = 10
_NS_PER_MS: Final = 1_000_000
_NS_PER_S: Final = 1_000_000_000
_MS_PER_S: Final = 1000


class KnownStandbys(Protocol):
    """The other daemons that run as standbys; None if they are not known, with the reason."""

    @property
    def others(self) -> list[StandbyStatus] | None: ...

    @property
    def fault(self) -> str: ...


class RunningParts:
    """The parts of a running daemon that its status is read from."""

    def __init__(
        self,
        fold: Fold,
        inbox: Inbox,
        progress: LoopProgress,
        log: LogWriter,
        session: Callable[[], ConnectionStatus],
        standbys: KnownStandbys,
    ) -> None:
        self.fold = fold
        self.inbox = inbox
        self.progress = progress
        self.log = log
        self.folder = str(log.folder.absolute())
        self.session = session
        self.standbys = standbys


class StatusSource:
    """The status of this process: before its daemon runs (`parts` is None), and then. `connect`:
    the servers and the chroot of ZooKeeper."""

    def __init__(self, broker_id: int, connect: str) -> None:
        self._broker_id = broker_id
        self._connect = connect
        self._version = code_version()
        self._started_ns = time.time_ns()
        self.role_at_start: RoleAtStart = "waiting for ZooKeeper"
        self.parts: RunningParts | None = None

    def document(self) -> bytes:
        """The status now, as JSON."""
        return msgspec.json.encode(self.status()) + b"\n"

    def status(self) -> DaemonStatus:
        """The present status of the daemon, as `refold status` shows it."""
        parts = self.parts
        if parts is None:
            return self._status(self.role_at_start, QueueStatus([], 0, [], 0))
        progress, triggers = parts.progress, parts.fold.controller.triggers
        queue = QueueStatus(
            [trigger_name(one) for one in parts.fold.unfinished],
            len(triggers),
            [trigger_name(one) for one, _ in zip(triggers, range(_NEXT_MAX), strict=False)],
            len(parts.inbox),
        )
        return msgspec.structs.replace(
            self._status(_role(parts.fold), queue),
            term=parts.fold.term,
            term_since=_time(progress.term_since_ns) if parts.fold.term else None,
            last_term=_last_term(progress),
            event_lag_ms=_lag_ms(progress, parts.inbox),
            last_event=_last_event(progress),
            last_decision=_last_decision(progress),
            standbys=parts.standbys.others if parts.fold.term else None,
            is_standby=parts.fold.controller.configuration.standby,
            standbys_fault=parts.standbys.fault,
            log=LogStatus(parts.folder, parts.log.tip.last_seq, parts.log.size_bytes),
            zookeeper=_session(parts.session(), self._connect),
        )

    @property
    def is_prepared(self) -> bool:
        """Whether the daemon is active, or has read what a standby reads before it can take the
        role fast."""
        if self.parts is None:
            return False
        controller = self.parts.fold.controller
        standby = controller.standby
        follows = controller.configuration.standby and not controller.is_active
        return not follows or standby.is_ready or standby.is_unsupported

    def _status(self, role: Role, queue: QueueStatus) -> DaemonStatus:
        return DaemonStatus(
            version=self._version,
            process=os.getpid(),
            broker_id=self._broker_id,
            started=_time(self._started_ns),
            time=_time(time.time_ns()),
            role=role,
            term=0,
            term_since=None,
            queue=queue,
            event_lag_ms=0.0,
            last_event=None,
            last_decision=None,
            standbys=None,
            log=None,
            zookeeper=None,
        )


def _role(fold: Fold) -> Role:
    if fold.controller.is_stopping:
        return "stopping"
    if not fold.controller.is_active:
        return "standby"
    return "failing over" if fold.is_failing_over else "active"


def _lag_ms(progress: LoopProgress, inbox: Inbox) -> float:
    """The events that the loop has taken are older than those in the inbox."""
    oldest_ns = progress.oldest_arrived_ns or inbox.oldest_arrived_ns
    return 0.0 if oldest_ns is None else _ms(time.monotonic_ns() - oldest_ns)


def _last_event(progress: LoopProgress) -> EventStatus | None:
    event = progress.last_event
    if event is None:
        return None
    kind = kind_of(event.event)
    return EventStatus(event.seq, _time(event.wall_ns), kind, _ms(progress.folded_after_ns))


def _last_term(progress: LoopProgress) -> TermStatus | None:
    ended = progress.last_term
    if ended is None:
        return None
    silent_s = round(ended.silent_ms / _MS_PER_S, 1)
    return TermStatus(ended.term, ended.seq, _time(ended.wall_ns), ended.why, silent_s)


def _last_decision(progress: LoopProgress) -> DecisionStatus | None:
    last = progress.last_decision
    if last is None:
        return None
    return DecisionStatus(
        f"{last.id.cause}.{last.id.ordinal}",
        _time(progress.decided_ns),
        last.term,
        kind_of(last.command),
        target_of(last.command),
        last.reason.rule,
    )


def _session(found: ConnectionStatus, connect: str) -> SessionStatus:
    return SessionStatus(
        format_session(found.session_id) if found.session_id else "",
        found.is_connected,
        found.server,
        found.timeout_ms,
        found.heard_ms_ago,
        "" if found.is_connected else found.fault,
        connect,
    )


def _time(wall_ns: int) -> str:
    return utc_time(wall_ns / _NS_PER_S)


def _ms(ns: int) -> float:
    return round(ns / _NS_PER_MS, 1)
