"""Stand-ins for the names of topics with which a controller makes the same decisions.

These properties of a name affect decisions, and a stand-in keeps them:

- whether the name is legal
- its position in the sorted order, because the core sorts its output by name
- the names that it collides with: those that differ only in periods and underscores
  (Topic.unifyCollisionChars)
- its hash code (String.hashCode), which determines the order in Kafka's hash maps
  (replay.agreement.processing_order)
- its length, only if it is above Kafka's limit

The names form a tree of characters, in which a period and an underscore are the same branch. Each
branch becomes a letter according to its rank among its siblings, which keeps the order. Periods and
underscores stay, which keeps collisions. A character without siblings is left out. A hyphen and
more characters are appended, so that the stand-in has the hash code of the name.
"""

from collections.abc import Collection, Iterator
from typing import Final

from controller.core import topic_names
from replay.errors import ReplayError

_DIGITS: Final = "0123456789"
_UPPER: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LOWER: Final = "abcdefghijklmnopqrstuvwxyz"
_HYPHEN: Final = "-"
_SEPARATOR: Final = "_"
"""In the tree it also represents a period."""
_SIBLINGS: Final = {
    **dict.fromkeys(_DIGITS + _UPPER, _DIGITS + _UPPER),
    **dict.fromkeys(_LOWER, _LOWER),
}
"""The letters that a branch may become: those between the same separators in the order."""
_HYPHEN_LABEL: Final = "-z"
"""The character sorts after the hyphen and digit that end a shorter stand-in, as a longer name
must.
"""
_LONGEST: Final = 249
_WORD: Final = 1 << 32
_BASE: Final = 31
_FREE: Final = 7
_LETTERS: Final = tuple(map(ord, _DIGITS + _UPPER + _LOWER))
_LEAST: Final = min(_LETTERS)
_MOST: Final = max(_LETTERS)
_BY_REST: Final = [[one for one in _LETTERS if one % _BASE == rest] for rest in range(_BASE)]
_ONES: Final = [(_BASE**count - 1) // (_BASE - 1) for count in range(_FREE + 1)]
"""The numbers whose digits in base 31 are this many ones."""


def topic_stand_ins(
    names: Collection[str], kept: Collection[str], prefixes: Collection[str] = ()
) -> dict[str, str]:
    """The stand-in of each name; names in `kept` are their own stand-ins. The stand-ins fit those
    of `prefixes` (`prefix_stand_ins`). Raises ReplayError if there are no suitable stand-ins."""
    legal = [one for one in sorted(names) if _has_legal_characters(one)]
    shapes = _shapes([*names, *prefixes], kept)
    by_unified: dict[str, str] = {}
    found = {one: one for one in names if one in kept or one in ("", ".", "..")}
    for name in legal:
        if name not in found:
            end = by_unified.get(topic_names.unify_collision_chars(name))
            stand_in, end = _with_end(name, shapes[name], end, names)
            by_unified[topic_names.unify_collision_chars(name)] = end
            found[name] = stand_in
    for number, name in enumerate(one for one in sorted(names) if one not in found):
        found[name] = f"!{number:0{max(7, len(name) - 1) if len(name) > _LONGEST else 7}}"
    _check(found)
    return found


def prefix_stand_ins(
    prefixes: Collection[str], names: Collection[str], kept: Collection[str]
) -> dict[str, str]:
    """The stand-in of each prefix of a prefixed ACL (KIP-290): the stand-ins of exactly those
    `names` begin with it that begin with the prefix. Raises ReplayError if there is none."""
    shapes = _shapes([*names, *prefixes], kept)
    found = {one: shapes.get(one, f"!{number}") for number, one in enumerate(sorted(prefixes))}
    stand_ins = topic_stand_ins(names, kept, prefixes)
    for prefix, after in found.items():
        if any(
            name.startswith(prefix) is not stand_in.startswith(after)
            for name, stand_in in stand_ins.items()
        ):
            raise ReplayError(
                f"no stand-in of the prefix {prefix!r} fits the topics: this log cannot be redacted"
            )
    return found


def _shapes(names: Collection[str], kept: Collection[str]) -> dict[str, str]:
    legal = [one for one in sorted(set(names)) if _has_legal_characters(one)]
    return _Tree(legal, [one for one in kept if one in names]).shapes()


def hash_code(name: str) -> int:
    """String.hashCode, without its sign."""
    code = 0
    for unit in memoryview(name.encode("utf-16-le", "surrogatepass")).cast("H"):
        code = (_BASE * code + unit) % _WORD
    return code


def _has_legal_characters(name: str) -> bool:
    return (
        name not in ("", ".", "..")
        and topic_names.problem_of(name[:_LONGEST]) is None
        and (len(name) <= _LONGEST or topic_names.problem_of(name[_LONGEST:][:_LONGEST]) is None)
    )


def _with_end(name: str, shape: str, end: str | None, taken: Collection[str]) -> tuple[str, str]:
    """A stand-in and its end. `end` is the end of a stand-in whose name collides with this one; the
    stand-ins must collide as well."""
    if end is None:
        filling = "0" * max(0, len(name) - len(shape) - 2 - _FREE)
        begin = f"{_HYPHEN}{filling if len(name) > _LONGEST else ''}"
        for end in _ends(shape + begin, hash_code(name)):
            if shape + begin + end not in taken:
                return shape + begin + end, begin + end
        raise ReplayError(
            f"no stand-in keeps the properties of topic {name!r}: it cannot be redacted"
        )
    return shape + end, end


def _ends(begin: str, wanted: int) -> Iterator[str]:
    """The texts after `begin` for which the whole has the `wanted` hash code."""
    for first in _DIGITS + _UPPER:
        rest = (wanted - hash_code(begin + first) * _BASE**_FREE) % _WORD
        for total in range(rest, _MOST * _ONES[_FREE] + 1, _WORD):
            for found in _spellings(total, _FREE):
                yield first + found


def _spellings(total: int, count: int) -> Iterator[str]:
    """The texts of `count` letters whose codes, as digits in base 31, add up to `total`."""
    if not count:
        if not total:
            yield ""
        return
    if not _LEAST * _ONES[count] <= total <= _MOST * _ONES[count]:
        return
    for letter in _BY_REST[total % _BASE]:
        for before in _spellings((total - letter) // _BASE, count - 1):
            yield before + chr(letter)


class _Tree:
    """Names as a tree of their characters, in the order of the names."""

    def __init__(self, names: list[str], kept: list[str]) -> None:
        self._names = names
        self._children: dict[str, dict[str, None]] = {"": {}}
        self._ends = {topic_names.unify_collision_chars(one) for one in names}
        self._kept = {
            one[:count]
            for one in map(topic_names.unify_collision_chars, kept)
            for count in range(len(one) + 1)
        }
        for name in names:
            unified = topic_names.unify_collision_chars(name)
            for place, character in enumerate(unified):
                self._children.setdefault(unified[:place], {})[character] = None

    def shapes(self) -> dict[str, str]:
        """The stand-in of each name, without its end."""
        labels: dict[str, str] = {}
        for node in self._children:
            labels |= self._labels(node)
        return {name: self._shape(name, labels) for name in self._names}

    def _shape(self, name: str, labels: dict[str, str]) -> str:
        unified = topic_names.unify_collision_chars(name)
        parts = []
        for place, character in enumerate(name):
            label = labels[unified[: place + 1]]
            parts.append(character if label == _SEPARATOR else label)
        return "".join(parts)

    def _labels(self, node: str) -> dict[str, str]:
        """The replacement of the last character of each child."""
        children = self._children[node]
        if node and len(children) == 1 and node not in self._ends | self._kept:
            [only] = children
            return {node + only: only if only == _SEPARATOR else ""}
        labels = {}
        before = ""
        for character in sorted(children):
            if character == _SEPARATOR or node + character in self._kept:
                label = character
            elif character == _HYPHEN:
                label = _HYPHEN_LABEL
            else:
                label = next(one for one in _SIBLINGS[character] if one > before)
            if character in _SIBLINGS:
                before = label
            labels[node + character] = label
        return labels


def _check(found: dict[str, str]) -> None:
    """Check that the stand-ins have the order and the collisions of the names. Raises
    ReplayError."""
    legal = [one for one in sorted(found) if topic_names.problem_of(one) is None]
    names = [found[one] for one in legal]
    groups = {topic_names.unify_collision_chars(one) for one in legal}
    pairs = {
        (topic_names.unify_collision_chars(one), topic_names.unify_collision_chars(found[one]))
        for one in legal
    }
    one_to_one = len(pairs) == len(groups) == len({after for _, after in pairs})
    are_legal = all(
        (topic_names.problem_of(one) is None) == (topic_names.problem_of(after) is None)
        for one, after in found.items()
    )
    if names != sorted(set(names)) or not one_to_one or not are_legal:
        raise ReplayError(
            "no stand-ins keep the order of these topics: this log cannot be redacted"
        )
