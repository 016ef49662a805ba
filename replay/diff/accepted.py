"""The file of accepted changes: divergences that are wanted, and why.

[[accepted]]
id = "1f0c3a9e"                  # as the report names it
why = "leaders are chosen by rack"
log = "tests/incidents/failover"     # in this log only, if it is given
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from replay.diff.comparing import Comparison, Group
from replay.diff.errors import DiffError


class Accepted(Struct, forbid_unknown_fields=True):
    """One divergence that is wanted. `log`: only there."""

    id: str
    why: str
    log: str | None = None


class _File(Struct, forbid_unknown_fields=True):
    accepted: list[Accepted] = []


def read_accepted(path: Path) -> list[Accepted]:
    """What the file names. Raises DiffError."""
    try:
        entries = msgspec.toml.decode(path.read_bytes(), type=_File).accepted
    except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
        raise DiffError(f"{path}, the accepted changes, cannot be used: {error}") from None
    for one in entries:
        if not one.why.strip():
            raise DiffError(f"{path}: {one.id} is accepted without a reason: say why")
    return entries


def accept(comparison: Comparison, entries: Sequence[Accepted]) -> None:
    """Mark the groups that are wanted; what is named and not there is told as unused."""
    used: set[int] = set()
    for group in comparison.groups:
        reasons = []
        for log in group.logs:
            places = [place for place, one in enumerate(entries) if _is_for(one, group, log)]
            used.update(places)
            reasons += [entries[place].why for place in places[:1]] or [""]
        if all(reasons):
            group.accepted = "; ".join(dict.fromkeys(reasons))
    comparison.unused = [
        f"{one.id} ({one.why})" for place, one in enumerate(entries) if place not in used
    ]


def _is_for(entry: Accepted, group: Group, log: str) -> bool:
    return entry.id == group.id and entry.log in (None, log)
