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


def there_are(kind: str, name: str, known: Iterable[str], shown: int | None = _SHOWN) -> str:
    """The end of a message about an unknown name: the question of `did_you_mean`, then at most
    `shown` of the names that exist (None: all of them), after their `kind` in the plural."""
    names = sorted(known)
    question = did_you_mean(name, names)
    left = len(names[shown:]) if shown is not None else 0
    more = f" and {left} more" if left else ""
    exist = f"{kind}: {', '.join(names[:shown]) or 'none'}{more}"
    return f"{question} {exist[0].upper()}{exist[1:]}" if question else exist
