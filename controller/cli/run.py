"""`refold run`: runs the controller of a Kafka cluster."""

import asyncio
import logging
from typing import Final

import typer

from controller import structured_log
from controller.cli.setting_options import with_settings
from controller.daemon.errors import DaemonError
from controller.daemon.startup import run as run_daemon
from controller.operator.errors import StartRefused
from controller.settings.settings import Loaded
from eventstore.errors import LogError

_GAVE_UP: Final = 1
_REFUSED: Final = 2

logger = logging.getLogger(__name__)
app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command("run")
@with_settings
def run(loaded: Loaded) -> None:
    """Run the controller of a Kafka cluster until SIGTERM, which resigns the role.

    Without --take-over refold waits until the role is free. Each setting can also be set by an
    environment variable or in a file, see docs/settings.md.

    Exit status: 0 stopped cleanly, 1 gave up while running, 2 refused to start.
    """
    settings, warnings = loaded
    structured_log.configure(settings.messages)
    for warning in warnings:
        logger.warning("%s", warning)
    try:
        asyncio.run(run_daemon(settings))
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
