"""The end of a message about an unknown name: similar names, and the names that exist."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

_SIMILAR_MAX: Final = 3
_SHOWN: Final = 10


def did_you_mean(
    name: str, known: Iterable[str], count: int = _SIMILAR_MAX, cutoff: float = 0.6
) -> str:
    """The question whether a similar name was meant; empty if there is none. `count` names at most
    are suggested; `cutoff` is the similarity that a name needs, up to 1."""
    similar = get_close_matches(name, list(known), count, cutoff)
    return f"did you mean {' or '.join(similar)}?" if similar else ""


def there_are(name: str, known: Iterable[str]) -> str:
    """The same, and the names that exist."""
    names = sorted(known)
    question = did_you_mean(name, names)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    exist = f"there are {', '.join(names[:_SHOWN]) or 'none'}{more}"
    return f"{question} {exist}" if question else exist
