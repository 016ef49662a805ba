"""`refold run --mode shadow`: follow a stock controller, and report where refold differs."""

import asyncio
import logging
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import tzinfo
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Final

import typer
from msgspec import Struct

from controller.cli.output import print_result
from controller.operator.errors import StartRefused
from controller.operator.first_reply import FirstReply
from controller.operator.start_checks import check_cluster_found, require_no_error
from controller.settings.settings import Settings
from controller.structured_log import configure
from eventstore.errors import LogError
from eventstore.folders import run_folder
from replay.agreement.comparison import Rules
from replay.agreement.live import LiveSettings
from replay.cli.agreement_report import document_of, print_agreement, status_of
from replay.cli.shadow_watcher import Watcher
from replay.errors import ReplayError
from replay.shadow.shadow import POLL_SECONDS, Shadow
from replay.shadow.summary import ShadowResult
from replay.shadow.watched import WatchedTransactions
from replay.stock_clusters.broker_logs.growing import GrowingBrokerLog
from replay.stock_clusters.imports.following import FollowedImport, ImportStart, find_start
from replay.stock_clusters.imports.kafka_root import find_kafka

_UNUSABLE: Final = 2
_INTERRUPTED: Final = 128
_WAIT_SECONDS: Final = 0.1

logger = logging.getLogger(__name__)


class ShadowOptions(Struct, frozen=True):
    """The options of the mode. `txnlog` is None if ZooKeeper is watched."""

    txnlog: Path | None
    controller_logs: Sequence[Path]
    chroot: str | None
    zone: tzinfo
    rules: Rules
    given: Mapping[str, str]
    metrics: Path | None
    as_json: bool
    config: Path | None


def run_shadow(settings: Settings, options: ShadowOptions) -> None:
    """Follow the cluster until SIGTERM or Ctrl-C, and print the summary.

    Raises typer.Exit with the exit status of `refold agree`.
    """
    configure(settings.messages, "replay")
    try:
        result = _run_shadow(settings, options)
    except StartRefused as refused:
        for reason in refused.reasons:
            logger.error("refused to start: %s", reason)
        raise typer.Exit(_UNUSABLE) from None
    except (ReplayError, LogError) as error:
        typer.echo(f"refold run: {error}", err=True)
        raise typer.Exit(_UNUSABLE) from None
    print_result(document_of(result), lambda: _print(result), as_json=options.as_json)
    raise typer.Exit(status_of(result))


def _run_shadow(settings: Settings, options: ShadowOptions) -> ShadowResult:
    with ExitStack() as stack:
        stop = stack.enter_context(_stopped_by_signals())
        watcher = None
        if options.txnlog is None:
            asyncio.run(_require_zookeeper(settings, stop))
            watcher = Watcher(
                _connect(settings), settings.session_timeout_ms, settings.messages, options.config
            )
            stack.callback(watcher.close)
        begin = partial(_begin_import, settings, options, watcher, stop)
        live = LiveSettings(options.rules, options.given, sees_refusals=watcher is None)
        shadow = Shadow(begin, live, metrics=options.metrics, is_stopping=lambda: bool(stop))
        try:
            while not stop:
                shadow.step()
                _wait(stop, POLL_SECONDS if shadow.is_at_end else 0)
            logger.info("stops: reads the rest and compares it")
            return shadow.end()
        except BaseException:
            shadow.abandon()
            raise


async def _require_zookeeper(settings: Settings, stop: Sequence[int]) -> None:
    """Return when ZooKeeper has answered as the daemon requires it. Raises StartRefused,
    ReplayError."""
    answer = FirstReply(settings, "the shadow")
    waiting = asyncio.create_task(answer.status())
    while not (waiting.done() or stop):
        await asyncio.wait([waiting], timeout=_WAIT_SECONDS)
    if not waiting.done():
        # Cancelled when the event loop ends.
        raise ReplayError(
            f"stopped before ZooKeeper {_connect(settings)} answered: {answer.fault or 'no answer'}"
        )
    require_no_error(check_cluster_found(settings, waiting.result()))


def _begin_import(
    settings: Settings,
    options: ShadowOptions,
    watcher: Watcher | None,
    stop: Sequence[int],
    after: int,
) -> FollowedImport:
    """A log that begins now, or after missing transactions that follow zxid `after`."""
    logs = [GrowingBrokerLog(one, options.zone) for one in options.controller_logs]
    folder = run_folder(settings.log_dir, time.time_ns())
    if options.txnlog is not None:
        begun = find_start(options.txnlog, options.chroot, after)
        logger.info("follows %s from zxid %#x, log %s", begun.folder, begun.state.zxid, folder)
        return FollowedImport(begun, folder, logs)
    assert watcher is not None, "ZooKeeper is watched"
    watched = _watch_transactions(watcher, settings, stop)
    state = watched.state()
    root = find_kafka(state.tree, (), None)
    # The beginning of this session at least.
    missing = int(after > 0)
    notes = [_unwatched_note(after, state.zxid)] if after else []
    begun = ImportStart(state, root, _connect(settings), Path(), missing, notes)
    logger.info(
        "watches %s from zxid %#x, log %s",
        begun.source,
        state.zxid,
        folder,
        extra={"fields": {"session": f"{watched.session & (1 << 64) - 1:#x}"}},
    )
    return FollowedImport(begun, folder, logs, watched)


def _unwatched_note(after: int, zxid: int) -> str:
    return (
        f"from zxid {after:#x} to {zxid:#x} no session watched ZooKeeper: what changed in between"
        " is unknown"
    )


def _watch_transactions(
    watcher: Watcher, settings: Settings, stop: Sequence[int]
) -> WatchedTransactions:
    """ZooKeeper's transactions, once all znodes were read. Raises ReplayError."""
    watched = WatchedTransactions(watcher)
    while not watched.is_complete:
        watched.begin()
        if stop:
            fault = f"; the last failure: {watcher.fault}" if watcher.fault else ""
            raise ReplayError(
                f"stopped before all znodes of ZooKeeper {_connect(settings)} were read{fault}"
            )
        time.sleep(_WAIT_SECONDS)
    return watched


def _connect(settings: Settings) -> str:
    servers = ",".join(map(str, settings.zookeeper.servers))
    return f"{servers}{settings.zookeeper.chroot}"


def _wait(stop: Sequence[int], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not stop and time.monotonic() < end:
        time.sleep(_WAIT_SECONDS)


@contextmanager
def _stopped_by_signals() -> Iterator[list[int]]:
    """A list that SIGTERM or Ctrl-C makes longer. The second signal ends the process at once."""
    stop: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        if stop:
            raise SystemExit(_INTERRUPTED + number)
        stop.append(number)

    before = {one: signal.signal(one, note) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print(result: ShadowResult) -> None:
    for log in result.logs:
        typer.echo(f"log: {log}")
    requests = result.requests.unjudged
    typer.echo(
        f"unseen: {result.unseen_decisions} decisions, {result.unseen_versions} versions of znodes,"
        f" {requests} requests to brokers; undecided: {result.undecided} decisions"
    )
    print_agreement(result)
