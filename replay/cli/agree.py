"""`refold agree`: compare a stock cluster's decisions with those that the fold derives."""

from pathlib import Path
from typing import Annotated

import typer

from controller.cli.output import print_result
from controller.escaping import escape_unprintable
from eventstore.folders import logs_in, segments_in
from replay.agreement.comparison import Rules, agree, temporary_import
from replay.agreement.search.event_order import RUNS_MAX
from replay.cli.agreement_report import document_of, print_agreement, status_of
from replay.cli.exit_status import errors_in_one_line, unwound_by_sigterm
from replay.cli.import_source import UTC, Chroot, Zone, selection_of
from replay.cli.options import BrokerConfig, From, Json, To, broker_settings
from replay.cli.progress import progress
from replay.logs.packed import LOG_OF_INCIDENT, is_recording, log_at

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(name="agree")
def agree_command(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE|LOG",
            help="A folder, .tar, .tar.gz or .tar.xz as for refold import; an imported log, or an"
            " incident with one.",
        ),
    ],
    as_json: Json = False,
    rules: Annotated[
        Rules,
        typer.Option(help="Decide by Kafka's rules, or by refold's, which deviate from them."),
    ] = "kafka",
    broker_config: BrokerConfig = None,
    orders: Annotated[
        int,
        typer.Option(
            min=0, help="How many other event orders to try, at most, if a decision does not agree."
        ),
    ] = RUNS_MAX,
    chroot: Chroot = None,
    first: From = None,
    last: To = None,
    zone: Zone = UTC,
) -> None:
    """Derive the decisions of a stock cluster's controllers from the files of ZooKeeper and the
    brokers, and compare them with the decisions in these files.

    Exit status: 0 all decisions and requests agree or are explained; 1 a decision or request does
    not agree, or a transaction was changed; 2 SOURCE cannot be used; 3 all judged decisions and
    requests agree, but some could not be judged. The report has the reason: SOURCE is cut,
    transactions are out of order or missing, a term began earlier, or no log shows whether requests
    were sent.
    """
    selection = selection_of(chroot, first, last, zone)
    settings = broker_settings(broker_config)
    is_log = _is_log(source)
    given = {
        "--chroot": chroot,
        "--from": first,
        "--to": last,
        "--zone": zone if zone != UTC else None,
    }
    of_source = [name for name, value in given.items() if value is not None]
    if is_log and of_source:
        raise typer.BadParameter(
            f"{source} is a log: these options are for refold import, which made it",
            param_hint=", ".join(of_source),
        )
    with (
        errors_in_one_line("agree"),
        unwound_by_sigterm(),
        progress() as report,
        log_at(source) if is_log else temporary_import(source, selection, report) as log,
    ):
        result = agree(Path(log), rules, settings, report, orders)
    result.source = escape_unprintable(source)
    print_result(document_of(result), lambda: print_agreement(result), as_json=as_json)
    raise typer.Exit(status_of(result))


def _is_log(source: Path) -> bool:
    """Whether the source is a log, an incident, or a folder of logs, whose error names them."""
    if not source.is_dir() or is_recording(source):
        return False
    is_incident = (source / LOG_OF_INCIDENT).is_file()
    return is_incident or bool(segments_in(source) or logs_in(source))
