"""`refold status`: what a running daemon does."""

import os
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from controller.cli.output import print_result
from controller.operator.daemon_status import (
    DaemonStatus,
    QueueStatus,
    SessionStatus,
    TermStatus,
    ask_all,
)
from controller.operator.reassignment.progress import format_bytes
from controller.settings.errors import SettingsError
from controller.settings.sources import effective_setting, from_environment, from_file

_NO_DAEMON: Final = 1
_UNUSABLE: Final = 2
_LONG_SECONDS: Final = 1.0
"""A shorter silence before the end of a session says nothing."""
_PLACES: Final = ("refold.status.socket", "refold.log.dir")

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command("status")
def status(
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="[LOG_DIR|SOCKET]",
            help="The daemon's --log-dir or --status-socket. Default: as in the environment and "
            "in --config.",
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="The file that the daemon has as --config.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per daemon, each in one line.")
    ] = False,
) -> None:
    """Show what a running daemon does: its role, its queue, its log, its ZooKeeper session.

    Several daemons may have the same log folder; each of them is shown.

    Exit status: 0 the daemon answered; 1 no daemon runs there, or it does not answer; 2 no log
    folder or socket is given, or --config cannot be read.
    """
    found, faults = ask_all(path or _configured_path(config))
    for number, one in enumerate(found):
        print_result(one, partial(_print, one, number), as_json=as_json)
    for fault in faults:
        typer.echo(f"refold status: {fault}", err=True)
    raise typer.Exit(_NO_DAEMON if faults else 0)


def _configured_path(config: Path | None) -> Path:
    """The socket or log folder that the daemon's settings name."""
    try:
        layers = [list(from_environment(os.environ)), from_file(config) if config else []]
    except SettingsError as error:
        for problem in error.problems:
            typer.echo(f"refold status: {problem}", err=True)
        raise typer.Exit(_UNUSABLE) from None
    for key in _PLACES:
        given = effective_setting(key, layers)
        if given is not None:
            return Path(given.text).expanduser()
    raise typer.BadParameter(
        f"give it, or a --config that has {' or '.join(_PLACES)}", param_hint="LOG_DIR|SOCKET"
    )


# In words ---------------------------------------------------------------------------------------


def _print(found: DaemonStatus, number: int) -> None:
    if number:
        typer.echo()
    for line in _lines(found):
        typer.echo(line)


def _lines(found: DaemonStatus) -> Iterator[str]:
    yield (
        f"refold {found.version}, broker id {found.broker_id}, process {found.process}, "
        f"running since {found.started} ({_duration(found.started, found.time)})"
    )
    term = f", term {found.term} since {found.term_since}" if found.term else ""
    yield f"role: {found.role_in_words}{term}"
    if found.last_term is not None:
        yield _last_term_text(found.last_term)
    if found.zookeeper is None:
        return
    yield f"queue: {_queue(found.queue)}"
    event = found.last_event
    last = "no event yet"
    if event is not None:
        last = (
            f"the last event, {event.seq} ({event.kind}, {event.time}), was folded "
            f"{event.folded_after_ms:g} ms after its arrival"
        )
    yield f"event lag: {found.event_lag_ms:g} ms; {last}"
    decision = found.last_decision
    if decision is None:
        yield "last decision: none"
    else:
        yield (
            f"last decision: {decision.kind} {decision.target} ({decision.rule}), command "
            f"{decision.command}, {decision.time}"
        )
    if found.term:
        yield from _standbys(found)
    if found.log is not None:
        log = found.log
        yield f"log: {log.folder}, {log.events} events, {format_bytes(log.bytes)}"
    yield f"ZooKeeper: {_session(found.zookeeper)}"


def _last_term_text(last: TermStatus) -> str:
    silent = ""
    if last.silent_s >= _LONG_SECONDS:
        silent = f"; ZooKeeper had not answered for {last.silent_s:.1f} s"
    return f"term {last.term} ended at {last.time} (event {last.seq}): {last.why}{silent}"


def _queue(queue: QueueStatus) -> str:
    names = ", ".join(queue.next)
    more = ", ..." if queue.waiting > len(queue.next) else ""
    waiting = f" ({names}{more})" if names else ""
    running = f"; in progress: {', '.join(queue.running)}" if queue.running else ""
    return (
        f"{queue.waiting} controller events{waiting}{running}; {queue.inbox} events wait for the "
        "log"
    )


def _standbys(found: DaemonStatus) -> Iterator[str]:
    if found.standbys is None:
        yield f"standbys: not known: {_why_unknown(found)}"
    elif not found.standbys:
        yield "standbys: none"
    for one in found.standbys or ():
        yield (
            f"standby: {one.host}, process {one.process}, broker id {one.broker_id}, running since "
            f"{one.started}, refold {one.version} (core {one.core})"
        )


def _why_unknown(found: DaemonStatus) -> str:
    """Why an active daemon does not know its standbys."""
    if found.is_standby is None:
        return "the daemon runs without --standby, or has no connection to ZooKeeper"
    if not found.is_standby:
        return "the daemon runs without --standby"
    return found.standbys_fault or "the daemon is still reading them from ZooKeeper"


def _session(session: SessionStatus) -> str:
    if session.is_connected:
        return (
            f"session {session.session}, connected to {session.server}, heard {session.heard_ms} "
            f"ms ago, timeout {session.timeout_ms} ms"
        )
    fault = f": {session.fault}" if session.fault else ""
    if session.session:
        return (
            f"session {session.session}, not connected{fault}; nothing is decided meanwhile, and "
            f"the session ends after {session.timeout_ms} ms of silence (now {session.heard_ms} ms)"
        )
    heard = "" if session.heard_ms is None else f", last heard {session.heard_ms} ms ago"
    return f"no session{heard}{fault}; nothing is decided meanwhile"


def _duration(first: str, last: str) -> str:
    """The time between two moments, in whole seconds."""
    elapsed = datetime.fromisoformat(last) - datetime.fromisoformat(first)
    return str(elapsed).partition(".")[0]
