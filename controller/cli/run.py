"""Runs the daemon for `refold run`, and ends the process with its exit status."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

import typer

from controller import structured_log
from controller.daemon.errors import DaemonError
from controller.daemon.startup import run
from controller.operator.errors import StartRefused
from controller.settings.settings import LoadedSettings, SettingSources
from eventstore.errors import LogError

_GAVE_UP: Final = 1
_REFUSED: Final = 2

logger = logging.getLogger(__name__)


def run_daemon(
    loaded: LoadedSettings, sources: SettingSources, snapshot_command: Sequence[str]
) -> None:
    """Run the daemon until it ends, and log why it gave up or refused to start.

    `sources` are read again at SIGHUP. `snapshot_command` makes the snapshots of a log, see
    Housekeeping. Raises typer.Exit with the exit status, unless the daemon stopped cleanly.
    """
    settings, warnings = loaded
    structured_log.configure(settings.messages, level=settings.messages_level)
    for warning in warnings:
        logger.warning("%s", warning)
    try:
        asyncio.run(run(settings, sources, snapshot_command))
    except StartRefused as refused:
        for reason in refused.reasons:
            logger.error("refused to start: %s", reason)
        raise typer.Exit(_REFUSED) from None
    except (DaemonError, LogError) as error:
        logger.error("gave up: %s", error)
        raise typer.Exit(_GAVE_UP) from None
    except Exception:
        logger.exception("gave up because of a bug in refold; please report it")
        raise typer.Exit(_GAVE_UP) from None
