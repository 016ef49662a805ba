"""Prints the result of a comparison with a stock cluster, and derives the exit status."""

from collections.abc import Sequence
from itertools import groupby
from typing import Final

import msgspec
import typer

from controller.core.values import counted
from replay.agreement.results import (
    AgreementResult,
    DetailedTally,
    Divergence,
    kinds_in_order,
)
from replay.description.phrases import first_few

AGREES: Final = 0
DIVERGES: Final = 1
INCOMPLETE: Final = 3
_SHOWN: Final = 50
_FILES_SHOWN: Final = 10


def status_of(result: AgreementResult) -> int:
    """The exit status of `refold agree` for a result."""
    if not result.is_explained or result.altered:
        return DIVERGES
    return AGREES if result.is_whole else INCOMPLETE


def document_of(result: AgreementResult) -> dict[str, object]:
    """A result as plain values for JSON, with each cause in one text."""
    texts = [{"cause": str(one.cause)} for one in result.divergences]
    plain = msgspec.to_builtins(result)
    divergences = [one | text for one, text in zip(plain["divergences"], texts, strict=True)]
    return {**plain, "divergences": divergences}


def print_agreement(result: AgreementResult) -> None:
    """Print the divergences, the counts, and a last line with the verdict."""
    for note in result.notes:
        typer.echo(note)
    for term in result.kraft_terms:
        decisions = counted(term.decisions, "decision")
        typer.echo(
            f"not judged: {decisions} of {term.name}: it does not decide by the rules of a "
            "controller in ZooKeeper mode"
        )
    _print_divergences(result.divergences)
    assumed = ", ".join(f"{key}={value}" for key, value in result.settings.items())
    typer.echo(f"broker settings: {assumed or 'unknown'}")
    typer.echo(
        f"decisions: {_counts(result)}{_unjudged_count(result)}; "
        f"{result.warm} before the first election, {result.inputs} inputs"
    )
    _print_kinds(result)
    if result.requests.decisions or result.requests.extra or result.requests.unjudged:
        typer.echo(
            f"requests to brokers: {_counts(result.requests)}{_unjudged_count(result.requests)}"
        )
        _print_kinds(result.requests)
    typer.echo(f"{result.source}: {_verdict(result)}; {_judged_counts(result)}{_damage(result)}")


def _verdict(result: AgreementResult) -> str:
    if not result.is_explained:
        return "does not agree"
    if result.altered:
        return f"altered: {result.altered} transactions were changed or repeated"
    if result.passed_over:
        return f"incomplete: {result.passed_over} transactions are out of order"
    if result.missing_transactions:
        count = result.missing_transactions
        are = "is" if count == 1 else "are"
        return f"incomplete: at least {counted(count, 'transaction')} {are} missing"
    if result.is_cut:
        return "incomplete: the source is cut"
    if result.cut_logs:
        names = first_few((one.name for one in result.cut_logs), ", ")
        return f"incomplete: the end is missing of the {names}"
    if not (result.decisions or result.requests.decisions):
        return "nothing was judged"
    return "agrees" if result.is_whole else "agrees as far as judged"


def _judged_counts(result: AgreementResult) -> str:
    """The numbers of decisions and requests that were judged, and that were not."""
    requests = result.requests
    text = f"judged: {result.decisions} decisions, {requests.decisions} requests"
    left = [f"{result.warm} decisions before the first election"] if result.warm else []
    if result.kraft_terms:
        count = counted(sum(one.decisions for one in result.kraft_terms), "decision")
        terms = counted(len(result.kraft_terms), "term")
        left.append(f"{count} in {terms} of KRaft controllers")
    left += [f"{result.unjudged_decisions} decisions"] if result.unjudged_decisions else []
    left += [f"{requests.unjudged} requests"] if requests.unjudged else []
    left += [f"{result.undecided} undecided"] if result.undecided else []
    return f"{text}; not judged: {', '.join(left)}" if left else text


def _damage(result: AgreementResult) -> str:
    """The damaged files, for the end of the line with the verdict."""
    if not result.damaged:
        return ""
    files = [f"{count} in {name}" for name, count in result.damaged.items()]
    shown, left = files[:_FILES_SHOWN], len(files) - _FILES_SHOWN
    more = f" and {left} more files" if left > 0 else ""
    return f"; damaged lines, transactions or snapshots: {', '.join(shown)}{more}"


def _unjudged_count(side: DetailedTally) -> str:
    return f", {side.unjudged} cannot tell" if side.unjudged else ""


def _counts(side: DetailedTally) -> str:
    explained = sum(len(one.zxids) for one in side.explained)
    text = (
        f"{side.decisions}, {side.agreed} agreed, {side.differs} differ, {side.missing} missing,"
        f" {side.extra} extra"
    )
    return f"{text}, {explained} of these explained" if explained else text


def _print_kinds(side: DetailedTally) -> None:
    for kind, one in kinds_in_order(side):
        diverging = ""
        if one.diverging:
            diverging = f" ({one.differs} differ, {one.missing} missing, {one.extra} extra)"
        typer.echo(f"  {kind}: {one.agreed} agreed{diverging}")


def _print_divergences(divergences: Sequence[Divergence]) -> None:
    """Print a request to several brokers once."""
    alike = groupby(
        divergences, key=lambda one: (one.batch_key, one.verdict, one.epoch, one.explained)
    )
    groups = [list(each) for _, each in alike]
    for first, *others in groups[:_SHOWN]:
        _print_divergence(first)
        for one in others:
            typer.echo(f"  also at {one.seq}: {'; '.join(one.differences)}")
    left = sum(map(len, groups[_SHOWN:]))
    if left:
        typer.echo(f"... and {left} more; --json lists all")


def _print_divergence(one: Divergence) -> None:
    explained = f", explained by {one.explained}" if one.explained else ""
    zxid = f" zxid {one.zxid:#x}" if one.zxid else ""
    what = " ".join(one.paths)
    typer.echo(
        f"{one.verdict} {one.kind} at {one.seq}{zxid}, broker {one.broker} epoch {one.epoch}"
        f"{explained}: {what}".rstrip(": ")
    )
    _print_indented(one.differences)
    if one.cause.event:
        typer.echo(f"  the fold was processing {one.cause}, since {one.since}")
    _print_indented(one.between)


def _print_indented(texts: Sequence[str]) -> None:
    for text in texts:
        typer.echo(f"  {text}")
