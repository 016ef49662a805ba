"""`refold run --mode shadow`: follow a stock controller, and report where refold differs."""

import logging
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import tzinfo
from pathlib import Path
from types import FrameType
from typing import Final

import typer
from msgspec import Struct

from controller.cli.output import print_result
from controller.settings.settings import Settings
from controller.structured_log import configure
from eventstore.errors import LogError
from eventstore.folders import run_folder
from replay.agreement.comparison import Rules
from replay.agreement.live import LiveSettings
from replay.cli.agreement_report import print_agreement, status_of
from replay.errors import ReplayError
from replay.shadow.shadow import POLL_SECONDS, Shadow
from replay.shadow.summary import ShadowResult
from replay.stock_clusters.broker_logs.growing import GrowingBrokerLog
from replay.stock_clusters.imports.following import FollowedImport, beginning

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
    as_json: bool


def run_shadow(settings: Settings, options: ShadowOptions) -> None:
    """Follow the cluster until SIGTERM or Ctrl-C, and print the summary.

    Raises typer.Exit with the exit status of `refold agree`.
    """
    configure(settings.messages)
    try:
        result = _followed(settings, options)
    except (ReplayError, LogError) as error:
        typer.echo(f"refold run: {error}", err=True)
        raise typer.Exit(_UNUSABLE) from None
    print_result(result, lambda: _print(result), as_json=options.as_json)
    raise typer.Exit(status_of(result))


def _followed(settings: Settings, options: ShadowOptions) -> ShadowResult:
    def begin(after: int) -> FollowedImport:
        assert options.txnlog is not None, "a folder is followed"
        logs = [GrowingBrokerLog(one, options.zone) for one in options.controller_logs]
        begun = beginning(options.txnlog, options.chroot, after)
        folder = run_folder(settings.log_dir, time.time_ns())
        logger.info("follows %s from zxid %#x, log %s", begun.folder, begun.state.zxid, folder)
        return FollowedImport(begun, folder, logs)

    with _stopped_by_signals() as stop:
        shadow = Shadow(begin, LiveSettings(options.rules, options.given))
        try:
            while not stop:
                shadow.step()
                _wait(stop, POLL_SECONDS if shadow.is_at_end else 0)
            logger.info("stops: reads the rest and compares it")
            return shadow.end()
        except BaseException:
            shadow.abandon()
            raise


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
