"""`refold status`: what a running daemon says about itself on its status socket.

The daemon writes one JSON object to each client that connects, and closes the connection. It reads
nothing, so `nc -U SOCKET` works as well.
"""

import os
import socket
import struct
import sys
from contextlib import closing
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct

from controller.operator.errors import LeftOverSocket, NoDaemon
from controller.settings.parsing import SOCKET_PATH_BYTES_MAX

SOCKET_SUFFIX: Final = ".sock"
OWN_SOCKETS: Final = f"status-*{SOCKET_SUFFIX}"
"""The names of the sockets that have no configured path."""
_ANSWER_SECONDS_MAX: Final = 5.0
_CREDENTIALS: Final = struct.Struct("3i")

RoleAtStart = Literal[
    "waiting for ZooKeeper", "waiting for the end of its previous session", "checking the cluster"
]
"""The roles of a daemon that has no log yet."""
Role = Literal[RoleAtStart, "standby", "failing over", "active", "stopping"]


class QueueStatus(Struct, frozen=True):
    """The controller events and observations that wait to be processed. `running`: the controller
    events whose procedures have begun, the paused one first. `waiting`: how many are queued, and
    `next` the first of them. `inbox`: how many events have arrived and are not in the log yet."""

    running: list[str]
    waiting: int
    next: list[str]
    inbox: int


class EventStatus(Struct, frozen=True):
    """The last event that was folded, and how long after its arrival that was."""

    seq: int
    time: str
    kind: str
    folded_after_ms: float


class DecisionStatus(Struct, frozen=True):
    """The last command that decides something: named as in `refold decisions`."""

    command: str
    time: str
    term: int
    kind: str
    target: str
    rule: str


class TermStatus(Struct, frozen=True):
    """A term of the daemon that is over: it ended at the event `seq`, at `time`, because of `why`.
    `silent_s`: how long ZooKeeper had been silent before, if the session was over."""

    term: int
    seq: int
    time: str
    why: str
    silent_s: float


class StandbyStatus(Struct, frozen=True):
    """A daemon that waits for the role of this one. `core` is the fingerprint of its rules;
    `started` is in UTC."""

    host: str
    process: int
    broker_id: int
    version: str
    core: str
    started: str


class LogStatus(Struct, frozen=True):
    """The event log of this run; its size with SQLite's write-ahead log."""

    folder: str
    events: int
    bytes: int


class SessionStatus(Struct, frozen=True):
    """The ZooKeeper session. `session`: its id in hex, empty for none. `heard_ms`: how long ago the
    server was last heard, null if none was. `fault`: why the last connection ended; only while
    there is none. `connect`: all servers and the chroot, as in the settings."""

    session: str
    is_connected: bool
    server: str
    timeout_ms: int
    heard_ms: int | None
    fault: str
    # A daemon of 0.2.0 does not say it.
    connect: str = ""


class DaemonStatus(Struct, frozen=True):
    """A daemon at a moment. Times are UTC. `term`: the controller epoch that it holds, 0 for none,
    since `term_since`; `last_term` is the last one that ended. `event_lag_ms`: the age of the
    oldest event that is not folded yet. `standbys` is None if the daemon does not know them, or
    none can wait for its role: it does not have it. `is_standby`: the daemon runs with --standby;
    only then it knows the standbys. `standbys_fault`: why it does not know them nevertheless, "" if
    nothing failed. `log` and `zookeeper` are None until the start of the daemon is complete."""

    version: str
    process: int
    broker_id: int
    started: str
    time: str
    role: Role
    term: int
    term_since: str | None
    queue: QueueStatus
    event_lag_ms: float
    last_event: EventStatus | None
    last_decision: DecisionStatus | None
    standbys: list[StandbyStatus] | None
    log: LogStatus | None
    zookeeper: SessionStatus | None
    # A daemon of 0.2.0 does not say these.
    last_term: TermStatus | None = None
    is_standby: bool | None = None
    standbys_fault: str = ""

    @property
    def role_in_words(self) -> str:
        """The role. A daemon that runs without --standby is no standby: it only waits for the role,
        or for a session."""
        is_cold = self.role == "standby" and self.is_standby is False
        return "not controller, runs without --standby" if is_cold else self.role


def sockets_at(path: Path) -> list[Path]:
    """The status socket at a path, or those of the daemons with that log folder.

    Raises NoDaemon.
    """
    if not path.exists():
        raise NoDaemon(f"{path} does not exist: give the log folder of the daemon, or its socket")
    if not path.is_dir():
        return [path]
    try:
        found = sorted(one for one in path.iterdir() if one.suffix == SOCKET_SUFFIX)
    except OSError as error:
        raise NoDaemon(f"{path}: {error.strerror}") from None
    if not found:
        raise NoDaemon(
            f"no daemon runs with the log folder {path}: it has no status socket "
            f"(*{SOCKET_SUFFIX}); if refold.status.socket is set, give its path"
        )
    return found


def ask_any(path: Path) -> DaemonStatus:
    """The status of the daemon at a path: with several, of the one that has the role. Raises
    NoDaemon."""
    found, faults = ask_all(path)
    if not found:
        raise faults[0]
    return max(found, key=lambda one: (one.term, one.started))


def ask_all(path: Path) -> tuple[list[DaemonStatus], list[NoDaemon]]:
    """The daemons at a path, and why some do not answer. Sockets of killed daemons matter only if
    no daemon answers. There is at least one daemon or one reason."""
    found: list[DaemonStatus] = []
    left_over: list[NoDaemon] = []
    silent: list[NoDaemon] = []
    try:
        sockets = sockets_at(path)
    except NoDaemon as fault:
        return [], [fault]
    for one in sockets:
        try:
            found.append(ask(one))
        except LeftOverSocket as fault:
            left_over.append(fault)
        except NoDaemon as fault:
            silent.append(fault)
    return found, silent or ([] if found else left_over[-1:])


def ask(path: Path) -> DaemonStatus:
    """The status of the daemon that listens on this socket. Raises NoDaemon."""
    with closing(socket.socket(socket.AF_UNIX)) as client:
        client.settimeout(_ANSWER_SECONDS_MAX)
        try:
            connect(client, path)
            return msgspec.json.decode(_receive_all(client), type=DaemonStatus)
        except (ConnectionRefusedError, FileNotFoundError):
            raise LeftOverSocket(
                f"no daemon runs there: {path} is left from one that was killed"
            ) from None
        except TimeoutError:
            raise NoDaemon(
                f"{_listener(client)} listens on {path}, but has not answered within "
                f"{_ANSWER_SECONDS_MAX:g} s: it is suspended, or hangs"
            ) from None
        except OSError as error:
            raise NoDaemon(f"{path}: {error.strerror or error}") from None
        except msgspec.DecodeError as error:
            raise NoDaemon(f"{path}: no status of refold ({error})") from None


def connect(client: socket.socket, path: Path) -> None:
    """Connect to a Unix socket. Raises OSError, also for a path that is too long."""
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES_MAX:
        # Python would raise an OSError without errno.
        text = f"the path of a Unix socket has at most {SOCKET_PATH_BYTES_MAX} bytes"
        raise OSError(text)
    client.connect(str(path))


def _receive_all(client: socket.socket) -> bytes:
    parts = []
    while part := client.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def _listener(client: socket.socket) -> str:
    """The process that listens, if the system reports it."""
    if sys.platform != "linux":
        return "a process"
    try:
        credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    except OSError:
        return "a process"
    pid, _, _ = _CREDENTIALS.unpack(credentials)
    return f"process {pid}"
