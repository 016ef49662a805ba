"""Probabilistic concurrency testing: a few random changes of the order of messages.

In PCT, threads have random priorities, which change at d random points. A bug that needs d orders
is found with a probability that depends on these points only. Here a link is a thread. At a change
point the link gets the lowest priority: one of its messages, and all later ones, arrive only after
the others have had time to go first.

Source: Burckhardt et al.: A randomized scheduler with probabilistic guarantees of finding bugs
(ASPLOS 2010).
"""

from collections.abc import Mapping
from typing import Final

from replay.explore.generators.attempt import Attempts
from replay.explore.numbers import RandomNumbers
from replay.names import is_broker
from replay.world.inputs import Delay, Input
from replay.world.processes import is_client

RUNS: Final = 12
"""Runs for one base run."""

_CHANGES_MAX: Final = 6
_DELAYS_MS: Final = (1, 2, 5, 10, 30, 100, 500, 2_000, 7_000)


def pct(attempts: Attempts, numbers: RandomNumbers) -> None:
    """Run base inputs, then the same with other orders of its messages."""
    inputs = attempts.inputs(numbers)
    sent = attempts.trace(inputs).sent
    for _ in range(RUNS):
        attempts.run([*inputs, *change_points(sent, numbers)])


def change_points(sent: Mapping[str, int], numbers: RandomNumbers) -> list[Input]:
    """Delays of messages at d change points. Each message of an interesting link is as likely."""
    links = [(link, count) for link, count in sent.items() if count and is_interesting(link)]
    if not links:
        return []
    found: dict[tuple[str, int], Input] = {}
    for _ in range(numbers.between(1, _CHANGES_MAX)):
        # A link is chosen first, half of the time: some links have a thousand times the messages.
        link, count = numbers.choice(links) if numbers.chance(50) else _by_messages(links, numbers)
        number = numbers.between(1, count)
        found[link, number] = Delay(0, link, number, numbers.choice(_DELAYS_MS))
    return list(found.values())


def _by_messages(links: list[tuple[str, int]], numbers: RandomNumbers) -> tuple[str, int]:
    place = numbers.below(sum(count for _, count in links))
    for link, count in links:
        place -= count
        if place < 0:
            return link, count
    return links[-1]


def is_interesting(link: str) -> bool:
    """Whether a link matters to controllers: not one between brokers, or of a client."""
    one, _, other = link.partition(">")
    if is_client(one) or is_client(other):
        return False
    return not (is_broker(one) and is_broker(other))
