"""Shortens a chain of causes without cutting its root causes."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from replay.why.explanations.explanation import Chain, Explanation, Link

_EVENT: Final = re.compile(r"event (\d+)(?: of (\S+?))?(?=[\s,;:)]|\.?(?:\s|$))")


def shortened(explanation: Explanation, limit: int) -> Sequence[Link]:
    """The newest `limit` links of the chain, and the older links that the answer rests on.

    The kept events are those that the answer names, and the causes of all links that are kept. 0
    keeps the whole chain.
    """
    chain = explanation.chain
    if not limit:
        return chain
    kept = set(range(min(limit, len(chain))))
    for event in _events_in(explanation.answer, explanation.log):
        kept.update(_places_of(chain, *event))
    pending = list(kept)
    while pending:
        because = chain[pending.pop()].because
        if because is None:
            continue
        found = [one for one in _places_of(chain, because.log, because.seq) if one not in kept]
        pending += found
        kept.update(found)
    return [chain[place] for place in sorted(kept)]


def _places_of(chain: Sequence[Link], log: str, seq: int) -> Iterable[int]:
    if isinstance(chain, Chain):
        return chain.places_of(log, seq)
    return (place for place, one in enumerate(chain) if (one.log, one.seq) == (log, seq))


def _events_in(text: str, log: str) -> Iterator[tuple[str, int]]:
    """The log and number of each event that a text names."""
    for one in _EVENT.finditer(text):
        yield one[2] or log, int(one[1])
