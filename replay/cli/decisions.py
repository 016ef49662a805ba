"""`refold decisions`: the decisions in a log, each with its rule."""

from collections.abc import Iterator
from functools import partial
from typing import Annotated, Final

import typer

from controller.escaping import escape_unprintable
from controller.suggestions import there_are
from replay.cli.kinds import unknown_decision_kinds
from replay.cli.listing import (
    Broker,
    Filter,
    Limit,
    ListedLog,
    Partition,
    Question,
    Topic,
    place_of,
    print_list,
)
from replay.cli.options import FromPosition, JsonLines, ListedLogs, Term, ToPosition
from replay.cli.single_options import SingleOptions
from replay.description.choices import LeaderChoice, candidates_clause
from replay.errors import ReplayError
from replay.index import listing as from_index
from replay.index.listing import IndexSelection
from replay.index.postings import RULE
from replay.index.store import EventIndex
from replay.listing import broker as broker_log
from replay.listing import imported, recorded
from replay.listing.values import ListedDecision
from replay.logs.open_log import OpenedLog, RecordedLog
from replay.logs.opened_broker_log import BrokerLog
from replay.progress import Progress

_SHOWN: Final = 5

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(name="decisions", cls=SingleOptions)
def decisions(
    log: ListedLogs,
    first: FromPosition = None,
    last: ToPosition = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this kind: a command of `refold log stats`, or a decision of"
            " docs/imported-logs.md. Can be repeated."
        ),
    ] = None,
    rule: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only rules whose name contains TEXT.")
    ] = None,
    topic: Topic = None,
    partition: Partition = None,
    broker: Broker = None,
    term: Term = None,
    limit: Limit = None,
    every: Annotated[
        bool, typer.Option("--all", help="Include reads, timers and channels.")
    ] = False,
    as_json: JsonLines = False,
) -> None:
    """List decisions: the command, the rule, and for each choice the chosen broker and the brokers
    that were passed over.

    For a recorded log, the decisions are its commands, which are derived again. For an imported
    log, they are the writes of its controllers. Their rules come from the fold that derives the
    same decisions.

    Exit status: 0 done, 2 LOG cannot be used, or has no such topic, partition, broker or rule.
    """
    criteria = Filter(first, last, kind or [], topic, partition, broker, term, limit)

    def fits(one: ListedDecision) -> bool:
        is_step = one.is_step and not every and one.kind not in criteria.kinds
        return not is_step and (rule is None or rule.lower() in one.rule.lower())

    def indexed(
        log: OpenedLog, index: EventIndex, first: int, last: int, progress: Progress
    ) -> Iterator[ListedDecision]:
        wanted = criteria.wanted
        return from_index.decisions(
            log, index, wanted, first, last, progress, rule=rule, with_steps=every
        )

    selects = criteria.wanted != IndexSelection() or rule is not None or not every
    question = Question(
        "decisions",
        criteria,
        _source,
        indexed=indexed if selects else None,
        unknown_kinds=unknown_decision_kinds,
        fits=fits,
        require_names=partial(_require_rule, rule) if rule is not None else None,
    )
    print_list(log, question, decision_lines, as_json=as_json)


def _require_rule(text: str, log: ListedLog, index: EventIndex | None, progress: Progress) -> None:
    """Check that a rule of the log contains a text. Raises ReplayError, which names rules."""
    known = _rules_of(log, index, progress)
    if not any(text.lower() in one.lower() for one in known):
        exist = there_are("rules", text, known)
        raise ReplayError(f"the log has no rule whose name contains {text!r}; {exist}")


def _rules_of(log: ListedLog, index: EventIndex | None, progress: Progress) -> set[str]:
    """The rules of all decisions in a log. Raises ReplayError, LogError."""
    if index is not None:
        found = {one.removeprefix(RULE) for one in index.keys(RULE)}
    else:
        reader = log.reader
        whole = _source(log, reader.header.first_seq, reader.last_seq, progress)
        found = {one.rule for one in whole}
    return found - {""}


def _source(log: ListedLog, first: int, last: int, progress: Progress) -> Iterator[ListedDecision]:
    if isinstance(log, BrokerLog):
        found = broker_log.events_and_decisions(log, first, last, progress)
    elif isinstance(log, RecordedLog):
        found = recorded.events_and_decisions(log, first, last, progress)
    else:
        return imported.decisions(log, first, last, progress)
    return (one for _, decided in found for one in decided)


def decision_lines(one: ListedDecision) -> str:
    """A decision, its rule and its choices."""
    name = f"command {one.command}  " if one.command else f"{one.who}  "
    head = f"{place_of(one)}  {name}{one.text}"
    verdict = f" ({one.verdict})" if one.verdict not in ("", "agreed") else ""
    lines = [head]
    if one.rule:
        lines.append(f"{'':10}rule: {one.rule}{verdict}")
    elif verdict:
        lines.append(f"{'':10}no rule derives this decision{verdict}")
    lines += [f"{'':10}{_choice_line(each)}" for each in one.choices[:_SHOWN]]
    if len(one.choices) > _SHOWN:
        lines.append(f"{'':10}... and {len(one.choices) - _SHOWN} more choices; --json has all")
    return "\n".join(map(escape_unprintable, lines))


def _choice_line(one: LeaderChoice) -> str:
    leader = "no leader" if one.chosen < 0 else f"leader {one.chosen}"
    return f"{one.partition}: {leader}, {one.why}{candidates_clause(one.passed_over)}"
