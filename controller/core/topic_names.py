"""The names that a topic may have (Kafka's Topic class).

Metric names do not distinguish a period from an underscore: names that differ only in these
collide.
"""

import re
from typing import Final

CLUSTER_METADATA: Final = "__cluster_metadata"
"""KRaft's internal topic, which clients may not create."""

INTERNAL_TOPICS: Final = ("__consumer_offsets", "__transaction_state")
"""The topics that Kafka calls internal (Topic.isInternal)."""

LENGTH_MAX: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def problem_of(name: str) -> str | None:
    """The error of a name, in Kafka's words (Topic.validate); None for a legal name."""
    if not name:
        why = "the empty string is not allowed"
    elif name in (".", ".."):
        why = f"'{name}' is not allowed"
    elif len(name) > LENGTH_MAX:
        why = f"the length of '{name}' is longer than the max allowed length {LENGTH_MAX}"
    elif not _LEGAL.fullmatch(name):
        why = (
            f"'{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    else:
        return None
    return f"Topic name is invalid: {why}"


def unify_collision_chars(name: str) -> str:
    """The common form of colliding names (Topic.unifyCollisionChars)."""
    return name.replace(".", "_")
