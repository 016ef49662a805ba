"""Which names a topic may have (Kafka's Topic class).

Metric names do not tell a period from an underscore: names that differ in these alone collide.
"""

import re
from typing import Final

CLUSTER_METADATA: Final = "__cluster_metadata"
"""KRaft's own topic, which nobody may create."""

_LENGTH_MAX: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def problem_of(name: str) -> str | None:
    """What is wrong with a name, in Kafka's words (Topic.validate); None for a legal one."""
    if not name:
        why = "the empty string is not allowed"
    elif name in (".", ".."):
        why = f"'{name}' is not allowed"
    elif len(name) > _LENGTH_MAX:
        why = f"the length of '{name}' is longer than the max allowed length {_LENGTH_MAX}"
    elif not _LEGAL.fullmatch(name):
        why = (
            f"'{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    else:
        return None
    return f"Topic name is invalid: {why}"


def unified(name: str) -> str:
    """What two names that collide have in common (Topic.unifyCollisionChars)."""
    return name.replace(".", "_")
