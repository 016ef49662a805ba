"""The answer of `refold why` as lines."""

from collections.abc import Iterator

from replay.description.choices import candidates_clause
from replay.description.phrases import broker_list
from replay.why.explanations.explanation import Explanation, Link
from replay.why.explanations.finding import last_undone
from replay.why.move import Move
from replay.why.shortened import shortened


def explanation_lines(found: Explanation, limit: int, *, with_history: bool) -> Iterator[str]:
    """The answer and its causes, with at most `limit` of them; 0: all."""
    yield found.answer
    for note in found.notes:
        yield f"note: {note}"
    for group in found.unhealthy:
        yield f"\n{group.cause}\n  affects: {', '.join(group.affected) or 'no partition yet'}"
    for move in found.moves if with_history else ():
        if move is found.moves[-1] or move is last_undone(found.moves):
            yield from _history(move)
    shown = shortened(found, limit)
    for one in shown:
        yield ""
        yield from link_lines(one)
    if len(shown) < len(found.chain):
        yield f"\n... and {len(found.chain) - len(shown)} others; --limit 0 shows all"


def _history(move: Move) -> Iterator[str]:
    """The steps of a reassignment, the oldest first, with the name of each log once."""
    yield f"\nThe move from {broker_list(move.origin)} to {broker_list(move.target)}:"
    log = ""
    for one in move.events:
        if one.at.log != log:
            log = one.at.log
            yield f"  {log}"
        yield f"{one.at.seq:>8}  {one.at.time}  {one.text}"


def link_lines(one: Link) -> Iterator[str]:
    """A cause: the event, then what caused it."""
    log = f"{one.log}: " if one.log else ""
    yield f"{one.seq:>8}  {one.time}  {log}{one.text}"
    if one.because is not None:
        text = f": {one.because.text}" if one.because.text else ""
        of_log = f" of {one.because.log}" if one.because.log not in ("", one.log) else ""
        is_same = one.because.seq == one.seq and not of_log
        cause = "in the same event" if is_same else f"because of event {one.because.seq}{of_log}"
        yield f"{'':10}{cause}{text} ({one.because.procedure})"
    if one.rule:
        yield f"{'':10}rule: {one.rule}{candidates_clause(one.passed_over)}"
    if one.command:
        yield f"{'':10}command {one.command}, its outcome is event {one.seq}"
    elif one.written_by:
        yield f"{'':10}written by {one.written_by}"
