"""`refold decisions`: what was decided, and by which rule."""

from collections.abc import Iterator
from typing import Annotated, Final

import typer

from replay.cli.kinds import demand_decisions
from replay.cli.listing import (
    Broker,
    From,
    Json,
    Limit,
    Log,
    Partition,
    Term,
    To,
    Topic,
    Wanted,
    show,
)
from replay.listing import observed, recorded
from replay.listing.values import Chosen, Decision
from replay.logs.open_log import OpenedLog, RecordedLog
from replay.progress import Progress

_STEPS: Final = {
    "read_znodes",
    "read_stats",
    "read_children",
    "sync_znodes",
    "open_channel",
    "close_channel",
    "start_timer",
    "cancel_timer",
    "draw_topic_ids",
    "draw_numbers",
    "answer_later",
}
"""What only leads to decisions."""
_SHOWN: Final = 5

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(name="decisions")
def decisions(
    log: Log,
    first: From = None,
    last: To = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            help="Kind, as `refold log stats` names commands, or docs/imported-logs.md decisions; "
            "may be given again."
        ),
    ] = None,
    rule: Annotated[
        str | None, typer.Option(metavar="TEXT", help="By a rule whose name has this in it.")
    ] = None,
    topic: Topic = None,
    partition: Partition = None,
    broker: Broker = None,
    term: Term = None,
    limit: Limit = None,
    every: Annotated[
        bool, typer.Option("--all", help="Also reads, timers and channels, which decide nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List what was decided: the command, the rule, and for each choice who was chosen and who was
    passed over.

    Of a recorded log these are its commands, folded again. Of an imported one they are what its
    controllers wrote; the rule is the one by which the fold beside them decides the same.

    Exit status: 0 done, 2 LOG cannot be used.
    """
    wanted = Wanted(
        first=first,
        last=last,
        kinds=kind or [],
        topic=topic,
        partition=partition,
        broker=broker,
        term=term,
        limit=limit,
    )

    def fits(one: Decision) -> bool:
        is_step = one.kind in _STEPS and not every and one.kind not in wanted.kinds
        return not is_step and (rule is None or rule.lower() in one.rule.lower())

    show(
        "decisions",
        log,
        wanted,
        _source,
        _lines,
        demand=demand_decisions,
        as_json=as_json,
        fits=fits,
    )


def _source(log: OpenedLog, first: int, last: int, progress: Progress) -> Iterator[Decision]:
    if isinstance(log, RecordedLog):
        return (
            one for _, decided in recorded.listed(log, first, last, progress) for one in decided
        )
    return observed.decisions(log, first, last, progress)


def _lines(one: Decision) -> str:
    name = f"command {one.command}  " if one.command else f"broker {one.broker}  "
    head = f"{one.seq:>8}  {one.time}  term {one.term}  {name}{one.text}"
    verdict = f" ({one.verdict})" if one.verdict not in ("", "agreed") else ""
    lines = [head]
    if one.rule:
        lines.append(f"{'':10}rule: {one.rule}{verdict}")
    elif verdict:
        lines.append(f"{'':10}no rule decides so{verdict}")
    lines += [f"{'':10}{_chosen(each)}" for each in one.choices[:_SHOWN]]
    if len(one.choices) > _SHOWN:
        lines.append(f"{'':10}... and {len(one.choices) - _SHOWN} more choices; --json has all")
    return "\n".join(lines)


def _chosen(one: Chosen) -> str:
    whom = "nobody" if one.chosen < 0 else str(one.chosen)
    over = ", ".join(f"{each.broker} is {each.why}" for each in one.passed_over)
    return f"{one.partition}: {whom}, {one.why}{f'; passed over: {over}' if over else ''}"
