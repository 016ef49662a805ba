"""Finds versions that decide differently in two processes with different hash seeds.

The order of a set of strings depends on the hash seed, other orders on memory addresses or clocks.
"""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Final, Literal

from msgspec import Struct

from replay.diff.messages import Decision

HASH_SEEDS: Final = (1, 2)
"""The values of PYTHONHASHSEED. They are always the same, so that a comparison can be repeated."""


class Nondeterminism(Struct, frozen=True):
    """The first decision in a log about which a version does not agree with itself. `decisions` are
    those of both processes as text; they are equal if only the content differs."""

    side: Literal["base", "head"]
    log: str
    seq: int
    time_ns: int
    event: str
    cause: str
    decisions: tuple[str, str]


def find_nondeterminism(
    side: Literal["base", "head"], log: str, one: Sequence[Decision], other: Sequence[Decision]
) -> Nondeterminism | None:
    """The first decision that differs, or None. The decisions are those of one version."""
    # The decisions of an imported log are ordered by session.
    pairs = zip_longest(sorted(one, key=_seq_of), sorted(other, key=_seq_of))
    of_one, of_other = next((pair for pair in pairs if pair[0] != pair[1]), (None, None))
    differing = [each for each in (of_one, of_other) if each is not None]
    if not differing:
        return None
    first = min(differing, key=_seq_of)
    return Nondeterminism(
        side,
        log,
        first.seq,
        first.time_ns,
        first.event,
        first.cause,
        (_text(of_one), _text(of_other)),
    )


def _seq_of(decision: Decision) -> int:
    return decision.seq


def _text(decision: Decision | None) -> str:
    if decision is None:
        return "no further decision"
    rule = f" [{decision.rule}]" if decision.rule else ""
    return f"{decision.kind} {decision.target}{rule}"
