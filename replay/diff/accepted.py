"""The file of accepted changes: intended divergences with their reasons.

[[accepted]]
id = "1f0c3a9e"                  # as the report names it
why = "leaders are chosen by rack"
log = "tests/incidents/failover"     # optional: only in this log
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from replay.diff.comparing import Comparison, Group
from replay.errors import DiffError


class AcceptedChange(Struct, forbid_unknown_fields=True):
    """One intended divergence, in all logs or only in `log`."""

    id: str
    why: str
    log: str | None = None


class _File(Struct, forbid_unknown_fields=True):
    accepted: list[AcceptedChange] = []


def read_accepted(path: Path) -> list[AcceptedChange]:
    """The entries of the file. Raises DiffError."""
    try:
        entries = msgspec.toml.decode(path.read_bytes(), type=_File).accepted
    except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
        raise DiffError(f"{path}, the file of accepted changes, cannot be used: {error}") from None
    for one in entries:
        if not one.why.strip():
            raise DiffError(f"{path}: {one.id} has no reason: fill in `why`")
    return entries


def accept(comparison: Comparison, entries: Sequence[AcceptedChange]) -> None:
    """Mark the accepted groups, and list the entries that match no group as unused."""
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


def _is_for(entry: AcceptedChange, group: Group, log: str) -> bool:
    return entry.id == group.id and entry.log in (None, log)
