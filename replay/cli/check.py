"""`refold check`: whether a take-over would succeed, or what prevents a migration to
KRaft."""

from typing import Annotated

import typer

from controller.cli.check import check_take_over
from controller.cli.setting_options import GivenSettings, with_setting_options
from replay.cli.options import At, Json

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command("check")
@with_setting_options
def check(
    given: GivenSettings,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="[SOURCE]",
            help="For --migration: ZooKeeper's data folder, a recording, or a log.",
        ),
    ] = None,
    migration: Annotated[
        bool,
        typer.Option(
            "--migration",
            help="Check what prevents a migration to KRaft, or remains after a rollback. Of the"
            " settings only --zookeeper is needed, and --config for TLS and logins; none with"
            " SOURCE.",
        ),
    ] = False,
    at: At = None,
    as_json: Json = False,
) -> None:
    """Check whether `refold run` with the same settings would succeed; or, with --migration,
    whether the cluster can migrate to KRaft, or has come back cleanly. Changes nothing.

    Exit status: 0 no errors (warnings are possible), 1 errors, 2 the check was not possible because
    the settings cannot be used, ZooKeeper is not reachable or SOURCE cannot be read.
    """
    if not migration:
        if source is not None or at is not None:
            raise typer.BadParameter("applies to --migration", param_hint="SOURCE, --at")
        check_take_over(given.load(), as_json=as_json)
        return
    # `refold check` itself starts faster without the code that reads logs.
    from replay.cli.migration_check import check_migration

    check_migration(given, source, at, as_json=as_json)
