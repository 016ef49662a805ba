"""`refold why`: the chain of causes of what a log shows."""

from typing import Annotated, Final

import typer

from controller.cli.output import print_result
from eventstore.errors import LogError
from replay.cli.moments import moment
from replay.cli.progress import progress
from replay.cli.subjects import partition as named_partition
from replay.description.choices import candidates_in_words
from replay.description.phrases import listed
from replay.errors import ReplayError
from replay.logs.open_log import open_log, seq_at
from replay.why.explain import explain, explain_runs
from replay.why.explanations.explanation import Explanation, Link
from replay.why.explanations.finding import last_undone
from replay.why.move import Move
from replay.why.runs import logs_of, open_runs, parts_of
from replay.why.subject import Subject

_UNUSABLE: Final = 2

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(name="why")
def why(
    log: Annotated[
        list[str],
        typer.Argument(
            metavar="LOG...",
            help='A log of the daemon or an imported one, also packed, an incident, or "-". '
            "Several logs of the daemon, or the folder of its runs, are read as one.",
        ),
    ],
    partition: Annotated[
        str | None,
        typer.Option(metavar="T-0", help="Why is it offline, why this leader, why this ISR?"),
    ] = None,
    broker: Annotated[
        int | None,
        typer.Option(min=0, help="Why is it gone? With --partition: why out of its ISR?"),
    ] = None,
    topic: Annotated[
        str | None, typer.Option(metavar="T", help="Why is its deletion stuck, what is not well?")
    ] = None,
    reassignment: Annotated[
        str | None,
        typer.Option(metavar="T-0", help="Why does it not end, why was it refused or undone?"),
    ] = None,
    term: Annotated[
        int | None,
        typer.Option(min=1, help="A controller epoch: why did it begin, why did it end?"),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(metavar="SEQ|TIME", help="The moment; the end of the log if none is given."),
    ] = None,
    limit: Annotated[
        int, typer.Option("-n", "--limit", min=0, help="Causes shown, the newest first; 0: all.")
    ] = 12,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, all causes.")] = False,
) -> None:
    """Tell why something is as it is: the first line answers, then come the causes, newest first,
    each with the number of its event.

    Without an option for what is asked about: who is controller, and why. `refold log show LOG
    --from N --to N --commands` shows an event whole.

    Exit status: 0 answered, 2 LOG cannot be used, or there is no such partition.
    """
    subject = _subject(partition, broker, topic, reassignment, term)
    seq, wall_ns = moment(at, "--at")
    try:
        found = _asked(logs_of(log), subject, seq, wall_ns)
    except (LogError, ReplayError) as error:
        typer.echo(f"refold why: {error}", err=True)
        raise typer.Exit(_UNUSABLE) from None
    print_result(
        found,
        lambda: _print(found, limit, is_story_wanted=subject.is_reassignment),
        as_json=as_json,
    )


def _asked(logs: list[str], subject: Subject, seq: int | None, wall_ns: int | None) -> Explanation:
    """Raises ReplayError, LogError."""
    if len(logs) == 1:
        with open_log(logs[0]) as opened, progress() as report:
            return explain(opened, subject, seq_at(opened.reader, seq, wall_ns), report)
    if seq is not None:
        raise typer.BadParameter(
            "event numbers begin again in each log: give a time, or one log", param_hint="--at"
        )
    with open_runs(logs) as several, progress() as report:
        return explain_runs(parts_of(several, wall_ns), subject, report)


def _subject(
    partition: str | None,
    broker: int | None,
    topic: str | None,
    reassignment: str | None,
    term: int | None,
) -> Subject:
    asked = [one for one in (partition, topic, reassignment, term) if one is not None]
    if len(asked) > 1 or (broker is not None and (topic or reassignment or term is not None)):
        raise typer.BadParameter(
            "explain about one thing; only --broker and --partition go together",
            param_hint="--partition, --broker, --topic, --reassignment, --term",
        )
    name = named_partition(partition, "--partition")
    name = name or named_partition(reassignment, "--reassignment")
    if name is not None:
        return Subject(*name, broker=broker, is_reassignment=reassignment is not None)
    return Subject(topic=topic, broker=broker, term=term)


def _print(found: Explanation, limit: int, *, is_story_wanted: bool) -> None:
    typer.echo(found.answer)
    for note in found.notes:
        typer.echo(f"note: {note}")
    for move in found.moves if is_story_wanted else ():
        if move is found.moves[-1] or move is last_undone(found.moves):
            _print_story(move)
    shown = found.chain[:limit] if limit else found.chain
    for one in shown:
        typer.echo("")
        _print_link(one)
    if len(shown) < len(found.chain):
        typer.echo(f"\n... and {len(found.chain) - len(shown)} earlier; --limit 0 shows all")


def _print_story(move: Move) -> None:
    """What became of a reassignment, the oldest first, with the name of each log once."""
    typer.echo(f"\nThe move from {listed(move.origin)} to {listed(move.target)}:")
    log = ""
    for one in move.story:
        if one.at.log != log:
            log = one.at.log
            typer.echo(f"  {log}")
        typer.echo(f"{one.at.seq:>8}  {one.at.time}  {one.text}")


def _print_link(one: Link) -> None:
    log = f"{one.log}: " if one.log else ""
    typer.echo(f"{one.seq:>8}  {one.time}  {log}{one.text}")
    if one.because is not None:
        told = f": {one.because.text}" if one.because.text else ""
        of_log = f" of {one.because.log}" if one.because.log not in ("", one.log) else ""
        place = f"{one.because.seq}{of_log}"
        typer.echo(f"{'':10}because of event {place}{told} ({one.because.procedure})")
    if one.rule:
        passed_over = candidates_in_words(one.passed_over)
        over = f"; passed over: {passed_over}" if passed_over else ""
        typer.echo(f"{'':10}rule: {one.rule}{over}")
    if one.command:
        typer.echo(f"{'':10}command {one.command}, its outcome is event {one.seq}")
    elif one.written_by:
        typer.echo(f"{'':10}written by {one.written_by}")
