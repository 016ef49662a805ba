"""A report as columns for the page: numbers and texts, compressed and encoded for JSON.

Times are microseconds since `begin_ns`. Both times are cut to microseconds before, as `iso_time`
cuts them, so that the page shows the times that other commands print. A text that occurs often is
stored once.
"""

import zlib
from base64 import b64encode
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from replay.listing.values import ListedDecision
from replay.report.document import Lane, Report
from replay.report.reading import ProcedureStep, TimedDecision, TimedEvent

_ROWS_OF_A_PART: Final = 4096
"""The texts of at most this many rows are decompressed together."""

_DIFFERENCES_MAX: Final = 500


class NumberedTexts:
    """Numbers texts in the order of their first use."""

    def __init__(self) -> None:
        self.all: dict[str, int] = {}

    def number(self, text: str) -> int:
        """The number of a text."""
        return self.all.setdefault(text, len(self.all))


def packed(value: object) -> str:
    """A value as JSON, compressed (zlib) and in base64."""
    return b64encode(zlib.compress(msgspec.json.encode(value), 6)).decode()


def document_of(report: Report) -> dict[str, Any]:
    """The report for the page: a small part that is read at once, and packed columns."""
    begin_ns = report.origin_ns

    def offset_us(wall_ns: int) -> int:
        return _offset_us(wall_ns, begin_ns)

    counts = report.counts
    return {
        "path": report.path,
        "kind": "recorded" if report.is_recorded else "imported",
        "recordedBy": report.recorded_by,
        "beginUs": begin_ns // 1000,
        "startUs": offset_us(report.begin_ns),
        "endUs": offset_us(report.end_ns),
        "firstSeq": report.first_seq,
        "lastSeq": report.last_seq,
        "notes": report.notes,
        "findings": [
            (
                *(
                    one.kind,
                    one.severity,
                    one.text,
                    one.seq,
                    offset_us(one.begin_ns),
                    offset_us(one.end_ns),
                ),
                *(one.subjects, one.look_at),
            )
            for one in report.findings
        ],
        "failovers": [
            (
                *(
                    one.name,
                    one.seq,
                    offset_us(one.begin_ns),
                    offset_us(one.end_ns or report.end_ns),
                    one.epoch,
                ),
                [_step(step, offset_us) for step in one.steps],
            )
            for one in report.failovers
        ],
        "counts": [
            [offset_us(one.wall_ns) for one in counts],
            [one.offline for one in counts],
            [one.under_replicated for one in counts],
        ],
        "curve": _curve(report),
        "differing": [(one.seq, one.what, one.lines) for one in report.differing],
        "comparison": _comparison(report),
        "lanes": packed(_lanes(report.lanes, begin_ns)),
        "events": _events(report.events, begin_ns),
        "decisions": _decisions(report.decisions, begin_ns),
    }


def _offset_us(wall_ns: int, begin_ns: int) -> int:
    return wall_ns // 1000 - begin_ns // 1000


def _step(one: ProcedureStep, offset_us: Callable[[int], int]) -> tuple[object, ...]:
    end = offset_us(one.end_ns or one.begin_ns)
    return (one.text, one.rule, one.seq, offset_us(one.begin_ns), end, one.commands)


def _curve(report: Report) -> dict[str, Any] | None:
    if report.futures is None:
        return None
    points = [
        [_offset_us(one.wall_ns, report.origin_ns), one.likelihood, one.low, one.high, one.seq]
        for one in report.futures.points
    ]
    return {"condition": report.futures.condition, "points": points}


def _comparison(report: Report) -> dict[str, Any] | None:
    one = report.comparison
    if one is None:
        return None
    return {
        "sentence": one.sentence,
        "pairs": one.pairs,
        "differences": [
            (each.log, each.seq, each.at_ns // 1000, each.subject, each.text)
            for each in one.differences[:_DIFFERENCES_MAX]
        ],
        "count": len(one.differences),
        "second": one.second,
        "branch": None if one.branch is None else (one.branch[0], one.branch[1] // 1000),
        "offline": [
            (each.partition, each.first_s, each.second_s) for each in one.offline[:_DIFFERENCES_MAX]
        ],
    }


def _lanes(lanes: Iterable[Lane], begin_ns: int) -> dict[str, Any]:
    texts = NumberedTexts()
    rows = [
        [
            one.group,
            one.name,
            one.weight,
            [
                (
                    *(_offset_us(span.begin_ns, begin_ns), _offset_us(span.end_ns, begin_ns)),
                    *(texts.number(span.state), texts.number(span.text), span.seq),
                )
                for span in one.spans
            ],
            [
                (
                    *(_offset_us(mark.wall_ns, begin_ns), texts.number(mark.kind)),
                    *(texts.number(mark.text), mark.seq),
                )
                for mark in one.marks
            ],
        ]
        for one in lanes
    ]
    return {"texts": list(texts.all), "lanes": rows}


def _parts(rows: list[str]) -> list[str]:
    starts = range(0, len(rows), _ROWS_OF_A_PART)
    return [packed(rows[start : start + _ROWS_OF_A_PART]) for start in starts]


def _events(events: list[TimedEvent], begin_ns: int) -> dict[str, Any]:
    names = NumberedTexts()
    columns = {
        "at": [_offset_us(one.wall_ns, begin_ns) for one in events],
        "seq": [one.listed.seq for one in events],
        "term": [one.listed.term for one in events],
        "kind": [names.number(one.listed.kind) for one in events],
        "causes": [one.causes for one in events],
        "subjects": [[names.number(name) for name in one.listed.subjects] for one in events],
    }
    return {
        "columns": packed({**columns, "names": list(names.all)}),
        "texts": _parts([one.listed.text for one in events]),
        "rows": _ROWS_OF_A_PART,
    }


def _subjects(decision: ListedDecision) -> Iterable[str]:
    """The subjects of a decision: also the brokers that it chose or passed over."""
    chosen = [one.chosen for one in decision.choices if one.chosen >= 0]
    passed_over = [each.broker for one in decision.choices for each in one.passed_over]
    brokers = (f"broker {one}" for one in (*chosen, *passed_over))
    return dict.fromkeys((*decision.subjects, *brokers))


def _decisions(decisions: list[TimedDecision], begin_ns: int) -> dict[str, Any]:
    names = NumberedTexts()
    columns = {
        "at": [_offset_us(one.wall_ns, begin_ns) for one in decisions],
        "seq": [one.listed.seq for one in decisions],
        "term": [one.listed.term for one in decisions],
        "kind": [names.number(one.listed.kind) for one in decisions],
        "rule": [names.number(one.listed.rule) for one in decisions],
        "verdict": [names.number(one.listed.verdict) for one in decisions],
        "cause": [one.because.seq if one.because else 0 for one in decisions],
        "why": [
            names.number(f"{one.because.procedure}: {one.because.text}" if one.because else "")
            for one in decisions
        ],
        "outcomes": [list(one.outcomes) for one in decisions],
        "subjects": [[names.number(name) for name in _subjects(one.listed)] for one in decisions],
        "command": [one.listed.command for one in decisions],
        "choices": [
            [
                [c.partition, c.chosen, c.why, [[p.broker, p.why] for p in c.passed_over]]
                for c in one.listed.choices
            ]
            for one in decisions
        ],
    }
    return {
        "columns": packed({**columns, "names": list(names.all)}),
        "texts": _parts([one.listed.text for one in decisions]),
        "rows": _ROWS_OF_A_PART,
    }
