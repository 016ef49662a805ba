"""`refold check --migration`: reads the cluster, and prints what the rules find."""

import asyncio
import time
from typing import Final

import typer
from msgspec import Struct

from controller.cli.output import print_result
from controller.cli.setting_options import GivenSettings
from controller.core.releases import release_of
from controller.operator.asked_brokers import AskedBroker, ask_brokers
from replay.cli.exit_status import errors_in_one_line
from replay.cli.live_cluster import live_znodes, registered_brokers, shown
from replay.cli.options import log_position
from replay.cli.progress import progress
from replay.cluster_view.from_znodes import cluster_of
from replay.inspect.at import projection_at
from replay.logs.decode import time_of
from replay.logs.open_log import open_log, seq_at
from replay.migration.broker_rules import KEYS
from replay.migration.evaluate import findings_of
from replay.migration.findings import MigratingBroker, MigratingCluster, MigrationFinding
from replay.times import iso_time
from replay.why.daemon_terms import end_of_term, since_when_unknown, unknown_cluster

_ERRORS: Final = 1
_COLOURS: Final = {"ok": "green", "warning": "yellow", "error": "red"}
_WHERE_SHOWN: Final = 5
_INDENT: Final = " " * 9


class _Report(Struct, frozen=True):
    """The findings; `seq` is the event number in a log, otherwise None. `notes` say which moment
    it is, if the log does not show a later one."""

    source: str
    seq: int | None
    time: str
    controller_epoch: int | None
    findings: list[MigrationFinding]
    notes: list[str]


def check_migration(
    given: GivenSettings, source: str | None, at: str | None, *, as_json: bool
) -> None:
    """Check SOURCE, or the live cluster if it is None, and print the findings. Raises typer.Exit
    with the exit status if there are errors, or if the check is not possible."""
    with errors_in_one_line("check"):
        report = (
            _from_source(given, source, at) if source is not None else _from_zookeeper(given, at)
        )
    print_result(report, lambda: _print(report), as_json=as_json)
    if any(one.level == "error" for one in report.findings):
        raise typer.Exit(_ERRORS)


def _from_zookeeper(given: GivenSettings, at: str | None) -> _Report:
    """Check a running cluster: its znodes, and the answers of its brokers. Raises
    typer.BadParameter, typer.Exit, ReplayError."""
    if at is not None:
        raise typer.BadParameter("is a moment of SOURCE", param_hint="--at")
    (connect, security), brokers = given.access()
    view = asyncio.run(live_znodes(connect, security=security))
    answers = asyncio.run(ask_brokers(registered_brokers(view), KEYS, brokers))
    now = iso_time(time.time_ns())
    subject = MigratingCluster(cluster_of(view, 0, now), view, list(map(_settings_of, answers)))
    return _Report(shown(connect), None, now, subject.epoch, findings_of(subject), [])


def _settings_of(answer: AskedBroker) -> MigratingBroker:
    return MigratingBroker(
        broker=answer.broker,
        release=release_of(answer.highest_versions),
        settings=answer.settings,
        fault=answer.fault,
    )


def _from_source(given: GivenSettings, source: str, at: str | None) -> _Report:
    """Check the cluster at one time of a log. Raises typer.BadParameter, LogError, ReplayError."""
    if given.flags:
        used = ", ".join(one.source for one in given.flags)
        raise typer.BadParameter("has no effect with SOURCE", param_hint=used)
    position = log_position(at, "--at")
    with progress() as report, open_log(source, report) as log:
        projection = projection_at(log, seq_at(log.reader, *position), report)
        ended = end_of_term(log.reader, projection.cluster("")) if at is None else 0
        if ended:
            projection = projection_at(log, ended - 1, report)
        now = time_of(log.reader, projection.seq)
        cluster = projection.cluster(now)
        if cluster.controller.role == "standby":
            raise unknown_cluster(source, log.reader, cluster)
        subject = MigratingCluster(cluster, projection.view)
        notes = [since_when_unknown(ended)] if ended else []
        return _Report(source, projection.seq, now, subject.epoch, findings_of(subject), notes)


def _print(report: _Report) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console()
    after = "" if report.seq is None else f", after event {report.seq}"
    typer.echo(f"{report.source}{after}, {report.time}")
    for note in report.notes:
        typer.echo(f"note: {note}")
    for one in report.findings:
        # rich knows NO_COLOR; click does not.
        level = (f"{one.level:8}", _COLOURS[one.level])
        console.print(Text.assemble(level, f" {one.check}: {one.text}"), soft_wrap=True)
        if one.where:
            typer.echo(f"{_INDENT}where: {_places(one)}")
        if one.advice:
            typer.echo(f"{_INDENT}what to do: {one.advice}")
    counts = [f"{sum(one.level == level for one in report.findings)} {level}" for level in _COLOURS]
    typer.echo(", ".join(counts))


def _places(finding: MigrationFinding) -> str:
    more = len(finding.where) - _WHERE_SHOWN
    named = ", ".join(finding.where[:_WHERE_SHOWN])
    return f"{named} and {more} more (--json has all)" if more > 0 else named
