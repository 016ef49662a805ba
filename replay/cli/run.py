"""`refold run`: runs the controller of a Kafka cluster.

The controller knows nothing of replay: this module passes it the command that makes snapshots.
"""

import sys

import typer

from controller.cli.run import run_daemon
from controller.cli.setting_options import with_settings
from controller.settings.settings import Loaded
from replay.logs import snapshots

app = typer.Typer(add_completion=False, rich_markup_mode=None)


def snapshot_command() -> list[str]:
    """The command that makes the snapshots of the log whose folder is its last argument."""
    return [sys.executable, "-m", snapshots.__name__]


@app.command("run")
@with_settings
def run(loaded: Loaded) -> None:
    """Run the controller of a Kafka cluster until SIGTERM, which resigns the role.

    Without --take-over refold waits until the role is free. Each setting can also be set by an
    environment variable or in a file, see docs/settings.md.

    Exit status: 0 stopped cleanly, 1 gave up while running, 2 refused to start.
    """
    run_daemon(loaded, snapshot_command())
