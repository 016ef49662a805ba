"""`refold run`: runs the controller of a Kafka cluster, or follows a stock controller.

The controller knows nothing of replay: this module passes it the command that makes snapshots.
"""

import sys
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from controller.cli.run import run_daemon
from controller.cli.setting_options import GivenSettings, with_setting_options
from controller.settings.settings import Settings
from controller.settings.sources import RawSetting
from replay.logs import snapshots

_SHADOW: Final = "shadow"
_KAFKA: Final = "kafka"
_UTC: Final = "UTC"
_RULES_OF_CONTROLLER: Final = "; the setting refold.rules has the rules of the controller"
_USED_BY_EACH_SHADOW: Final = ("--log-dir", "--log-format")
_USED_TO_WATCH: Final = ("--zookeeper", "--wait-for-zookeeper")

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


_Mode = Annotated[
    Literal["controller", "shadow"],
    typer.Option(help="Be the controller, or follow a stock controller and write nothing."),
]
_Txnlog = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Shadow: read ZooKeeper's files in this folder; do not connect to it."
    ),
]
_ControllerLogs = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        help="Shadow: read a broker's controller.log or state-change.log. Can be repeated.",
    ),
]
_Chroot = Annotated[
    str | None, typer.Option(help="Shadow: the cluster's chroot, if there are several.")
]
_Zone = Annotated[
    str | None,
    typer.Option(
        help="Shadow: the time zone of brokers' logs, such as Europe/Paris.", show_default=_UTC
    ),
]
_Rules = Annotated[
    Literal["kafka", "refold"] | None,
    typer.Option(
        help="Shadow: decide by Kafka's rules, or by refold's, which deviate.",
        show_default=_KAFKA,
    ),
]
_MetricsFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Shadow: write the counts to this file, for Prometheus."),
]
_Json = Annotated[
    bool, typer.Option("--json", help="Shadow: print the summary as one JSON object.")
]


@app.command("run")
@with_setting_options
def run(
    given: GivenSettings,
    mode: _Mode = "controller",
    follow_txnlog: _Txnlog = None,
    follow_controller_log: _ControllerLogs = None,
    chroot: _Chroot = None,
    zone: _Zone = None,
    rules: _Rules = None,
    metrics_file: _MetricsFile = None,
    as_json: _Json = False,
) -> None:
    """Run the controller of a Kafka cluster. SIGTERM hands the role back and ends the daemon.

    While another process is controller, refold waits, unless --take-over is given. Each setting can
    also be set by an environment variable or in a file (docs/settings.md).

    Exit status: 0 stopped cleanly, 1 gave up while running, 2 refused to start.

    With --mode shadow a broker stays controller. refold reports each decision that it would have
    made differently, writes nothing to ZooKeeper and sends nothing to brokers (docs/shadow.md).
    SIGTERM or Ctrl-C prints the summary. The exit status is that of `refold agree`.

    An option that the mode does not use is refused.
    """
    of_shadow = {
        "--follow-txnlog": follow_txnlog,
        "--follow-controller-log": follow_controller_log,
        "--chroot": chroot,
        "--zone": zone,
        "--rules": rules,
        "--metrics-file": metrics_file,
        "--json": as_json,
    }
    _refuse_unused(mode, given, {one: value for one, value in of_shadow.items() if value})
    if mode == _SHADOW:
        # Only this mode needs the modules that compare logs.
        from replay.cli.import_source import selection_of
        from replay.cli.shadow import ShadowOptions, run_shadow

        settings = given.load(_unneeded_settings(has_files=follow_txnlog is not None)).settings
        selection = selection_of(chroot, None, None, zone or _UTC)
        options = ShadowOptions(
            follow_txnlog,
            follow_controller_log or [],
            selection.chroot,
            selection.zone,
            rules or _KAFKA,
            broker_settings_of(settings),
            metrics_file,
            as_json,
            given.config,
        )
        run_shadow(settings, options)
        return
    run_daemon(given.load(), given.sources(), snapshot_command())


def _refuse_unused(mode: str, given: GivenSettings, of_shadow: Collection[str]) -> None:
    """Refuse options that the mode does not use. `of_shadow`: the given ones of the shadow.

    Raises typer.BadParameter.
    """
    flags = [one.source for one in given.flags]
    if mode != _SHADOW:
        note = _RULES_OF_CONTROLLER if "--rules" in of_shadow else ""
        _refuse(of_shadow, f"only with --mode shadow{note}")
        return
    used = [*_USED_BY_EACH_SHADOW]
    if "--follow-txnlog" in of_shadow:
        unused = "not with --follow-txnlog: such a shadow does not connect to ZooKeeper"
        _refuse([one for one in flags if one in _USED_TO_WATCH], unused)
    else:
        used += _USED_TO_WATCH
        where = "only with --follow-txnlog; otherwise --zookeeper has the chroot"
        _refuse([one for one in of_shadow if one == "--chroot"], where)
    if "--follow-controller-log" not in of_shadow:
        unused = "only with --follow-controller-log, whose times are in that zone"
        _refuse([one for one in of_shadow if one == "--zone"], unused)
    _refuse([one for one in flags if one not in used], "not with --mode shadow")


def _refuse(options: Collection[str], why: str) -> None:
    if options:
        raise typer.BadParameter(why, param_hint=", ".join(options))


def broker_settings_of(settings: Settings) -> dict[str, str]:
    """The settings of the brokers that a log does not show, by Kafka's names."""
    values: dict[str, object] = {
        "unclean.leader.election.enable": settings.unclean_leader_election_enable,
        "auto.leader.rebalance.enable": settings.auto_leader_rebalance_enable,
        "leader.imbalance.per.broker.percentage": settings.leader_imbalance_per_broker_percentage,
        "leader.imbalance.check.interval.seconds": settings.leader_imbalance_check_interval_seconds,
    }
    return {key: str(value).lower() for key, value in values.items()}
