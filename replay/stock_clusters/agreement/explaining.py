"""Why the fold may decide otherwise than Kafka without being wrong: the rules, by name.

At most one rule explains a divergence. docs/agreement-rules.md states the rules, and each rule has
a test in which it must not match.
"""

from typing import Final

from msgspec import Struct


class Rule(Struct, frozen=True):
    """`kafka_method` is where Kafka leaves it open, or does what the fold does not."""

    name: str
    kafka_method: str
    text: str


EITHER_ORDER: Final = Rule(
    "either-order",
    "ControllerEventManager.put",
    "Two controller events waited at the same time and no log tells which was taken first; taken in"
    " the other order the fold decides as Kafka did.",
)

RULES: Final = {one.name: one for one in (EITHER_ORDER,)}
