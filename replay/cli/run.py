"""`refold run`: runs the controller of a Kafka cluster, or follows a stock controller.

The controller knows nothing of replay: this module passes it the command that makes snapshots.
"""

import sys
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from controller.cli.run import run_daemon
from controller.cli.setting_options import GivenSettings, with_setting_options
from controller.settings.settings import Settings
from controller.settings.sources import RawSetting
from replay.logs import snapshots

_SHADOW: Final = "shadow"
_FOR_SHADOW: Final = "only with --mode shadow"
_OPTIONS_OF_SHADOW: Final = (
    "--follow-txnlog, --follow-controller-log, --chroot, --metrics-file, --json"
)

app = typer.Typer(add_completion=False, rich_markup_mode=None)


def snapshot_command() -> list[str]:
    """The command that makes the snapshots of the log whose folder is its last argument."""
    return [sys.executable, "-m", snapshots.__name__]


def _unneeded_settings(*, has_files: bool) -> list[RawSetting]:
    """The settings that a shadow does not need, although the controller does. `has_files`: it
    reads ZooKeeper's files."""
    unneeded = {"broker.id": "0"}
    if has_files:
        unneeded["zookeeper.connect"] = "localhost:2181"
    return [RawSetting(key, text, "--mode shadow") for key, text in unneeded.items()]


@app.command("run")
@with_setting_options
def run(
    given: GivenSettings,
    mode: Annotated[
        Literal["controller", "shadow"],
        typer.Option(help="Be the controller, or follow a stock controller and write nothing."),
    ] = "controller",
    follow_txnlog: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Shadow: read ZooKeeper's data folder, not its znodes."),
    ] = None,
    follow_controller_log: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Shadow: read a broker's controller.log or state-change.log. Can be repeated.",
        ),
    ] = None,
    chroot: Annotated[
        str | None, typer.Option(help="Shadow: the cluster's chroot, if there are several.")
    ] = None,
    zone: Annotated[
        str, typer.Option(help="Shadow: the time zone of brokers' logs, such as Europe/Paris.")
    ] = "UTC",
    rules: Annotated[
        Literal["kafka", "refold"],
        typer.Option(help="Shadow: decide by Kafka's rules, or by refold's, which deviate."),
    ] = "kafka",
    metrics_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Shadow: write the counts there, for Prometheus."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Shadow: print the summary as one JSON object.")
    ] = False,
) -> None:
    """Run the controller of a Kafka cluster until SIGTERM, which resigns the role.

    Without --take-over refold waits until the role is free. Each setting can also be set by an
    environment variable or in a file, see docs/settings.md.

    Exit status: 0 stopped cleanly, 1 gave up while running, 2 refused to start.

    With --mode shadow refold writes nothing to ZooKeeper, sends nothing to brokers, and reports
    where it would have decided otherwise than the stock controller, see docs/shadow.md. SIGTERM or
    Ctrl-C prints the summary. The exit status is the one of `refold agree`.
    """
    if mode == _SHADOW:
        # Only this mode needs the modules that compare logs.
        from replay.cli.import_source import selection_of
        from replay.cli.shadow import ShadowOptions, run_shadow

        settings = given.load(_unneeded_settings(has_files=follow_txnlog is not None)).settings
        selection = selection_of(chroot, None, None, zone)
        options = ShadowOptions(
            follow_txnlog,
            follow_controller_log or [],
            selection.chroot,
            selection.zone,
            rules,
            broker_settings_of(settings),
            metrics_file,
            as_json,
        )
        run_shadow(settings, options)
        return
    if follow_txnlog or follow_controller_log or chroot or metrics_file or as_json:
        raise typer.BadParameter(_FOR_SHADOW, param_hint=_OPTIONS_OF_SHADOW)
    run_daemon(given.load(), snapshot_command())


def broker_settings_of(settings: Settings) -> dict[str, str]:
    """The settings of the brokers that a log does not show, by Kafka's names."""
    values: dict[str, object] = {
        "unclean.leader.election.enable": settings.unclean_leader_election_enable,
        "auto.leader.rebalance.enable": settings.auto_leader_rebalance_enable,
        "leader.imbalance.per.broker.percentage": settings.leader_imbalance_per_broker_percentage,
        "leader.imbalance.check.interval.seconds": settings.leader_imbalance_check_interval_seconds,
    }
    return {key: str(value).lower() for key, value in values.items()}
