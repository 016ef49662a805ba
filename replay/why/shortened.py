"""Shortens a chain of causes without cutting its root causes."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
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
    places: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for place, event in enumerate(_events_of(chain)):
        places[event].append(place)
    for name in _events_in(explanation.answer, explanation.log):
        kept.update(places[name])
    pending = list(kept)
    while pending:
        because = chain[pending.pop()].because
        if because is None:
            continue
        found = [one for one in places[because.log, because.seq] if one not in kept]
        pending += found
        kept.update(found)
    return [chain[place] for place in sorted(kept)]


def _events_of(chain: Sequence[Link]) -> Iterator[tuple[str, int]]:
    if isinstance(chain, Chain):
        return chain.events()
    return ((one.log, one.seq) for one in chain)


def _events_in(text: str, log: str) -> Iterator[tuple[str, int]]:
    """The log and number of each event that a text names."""
    for one in _EVENT.finditer(text):
        yield one[2] or log, int(one[1])
