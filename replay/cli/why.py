"""`refold why`: the causes of a state that a log shows."""

from typing import Annotated

import typer
from msgspec import structs

from controller.cli.output import print_result
from replay.cli.exit_status import errors_in_one_line
from replay.cli.log_notes import note_changed_commands
from replay.cli.options import At, Json, log_position, named_partition
from replay.cli.progress import progress
from replay.cli.single_options import SingleOptions
from replay.cli.why_report import explanation_lines
from replay.garbage_collection import rare_garbage_collection
from replay.index.history import explain_by
from replay.index.opening import index_of
from replay.index.store import has_index
from replay.logs.open_log import open_any_log, seq_at
from replay.logs.opened_broker_log import BrokerLog
from replay.why.broker_0_8 import explain_broker_log
from replay.why.explain import explain_runs, explain_terms
from replay.why.explanations.explanation import Explanation
from replay.why.runs import all_parts_of, logs_of, open_runs, parts_of
from replay.why.subject import Subject

_Unhealthy = Annotated[
    bool, typer.Option("--unhealthy", help="Everything that is not well, grouped by root cause.")
]

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(name="why", cls=SingleOptions)
def why(
    log: Annotated[
        list[str],
        typer.Argument(
            metavar="LOG",
            help="A log of the daemon or an imported log, may be packed; an incident; or - for"
            " stdin. Several logs of a daemon, or the folder of its runs, are read as one.",
        ),
    ],
    partition: Annotated[
        str | None,
        typer.Option(metavar="T-0", help="A partition: its leader and ISR, and why it is offline."),
    ] = None,
    broker: Annotated[
        int | None,
        typer.Option(
            min=0, help="A broker: why it is not alive. With --partition: why it is not in the ISR."
        ),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option(metavar="T", help="A topic: its health, and why its deletion is stuck."),
    ] = None,
    reassignment: Annotated[
        str | None,
        typer.Option(
            metavar="T-0",
            help="A partition: why its reassignment does not end, or was rejected or undone.",
        ),
    ] = None,
    term: Annotated[
        int | None,
        typer.Option(min=1, help="A controller epoch: why it began and ended."),
    ] = None,
    unhealthy: _Unhealthy = False,
    at: At = None,
    limit: Annotated[
        int,
        typer.Option(
            "-n",
            "--limit",
            min=0,
            help="The number of causes to show, besides root causes; 0: all.",
        ),
    ] = 12,
    as_json: Json = False,
) -> None:
    """Explain a state of the cluster: first the answer, then its causes, the newest first, each
    with the number of its event.

    Without --partition, --broker, --topic, --reassignment, --term or --unhealthy: which broker is
    controller, and why. `refold log show LOG --from N --to N --commands` shows an event completely.

    Exit status: 0 answered; 2 LOG cannot be used, or there is no such broker, topic, partition,
    term or event.
    """
    subject = _subject(partition, broker, topic, reassignment, term)
    subject = _all_unhealthy(subject) if unhealthy else subject
    seq, wall_ns = log_position(at, "--at")
    with errors_in_one_line("why"), rare_garbage_collection():
        found = _explanation(logs_of(log), subject, seq, wall_ns)
    print_result(
        structs.replace(found, chain=[*found.chain]) if as_json else found,
        lambda: _print(found, limit, with_history=subject.is_reassignment),
        as_json=as_json,
    )


def _explanation(
    logs: list[str], subject: Subject, seq: int | None, wall_ns: int | None
) -> Explanation:
    if len(logs) == 1:
        with progress() as report, open_any_log(logs[0], report, has_index) as opened:
            moment = seq_at(opened.reader, seq, wall_ns)
            if isinstance(opened, BrokerLog):
                found = explain_broker_log(opened, subject, moment, report)
                note_changed_commands("why", logs[0], opened)
                return found
            with index_of(opened, report) as index:
                return explain_by(index, opened, subject, moment, report)
    if seq is not None:
        raise typer.BadParameter(
            "each log numbers its events from 1: give a time, or only one log", param_hint="--at"
        )
    with open_runs(logs) as several, progress() as report:
        if subject.is_of_role and not subject.is_unhealthy:
            return explain_terms(*all_parts_of(several, wall_ns), subject, report)
        return explain_runs(parts_of(several, wall_ns), subject, report)


def _subject(
    partition: str | None,
    broker: int | None,
    topic: str | None,
    reassignment: str | None,
    term: int | None,
) -> Subject:
    given = [one for one in (partition, topic, reassignment, term) if one is not None]
    if len(given) > 1 or (broker is not None and (topic or reassignment or term is not None)):
        raise typer.BadParameter(
            "use only one of these options; --broker and --partition may be combined",
            param_hint="--partition, --broker, --topic, --reassignment, --term",
        )
    name = named_partition(partition, "--partition")
    name = name or named_partition(reassignment, "--reassignment")
    if name is not None:
        return Subject(*name, broker=broker, is_reassignment=reassignment is not None)
    return Subject(topic=topic, broker=broker, term=term)


def _all_unhealthy(subject: Subject) -> Subject:
    """The question about everything. Raises typer.BadParameter if a subject is given as well."""
    if subject != Subject():
        raise typer.BadParameter("cannot be combined with a subject", param_hint="--unhealthy")
    return Subject(is_unhealthy=True)


def _print(found: Explanation, limit: int, *, with_history: bool) -> None:
    for line in explanation_lines(found, limit, with_history=with_history):
        typer.echo(line)
