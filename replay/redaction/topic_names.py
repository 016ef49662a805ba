"""Other names for topics with which a controller decides the same.

What of a name decides: whether it is legal; its place among the others, because what leaves the
core is sorted by name; which names it collides with, those that differ in periods and underscores
only (Topic.unifyCollisionChars); and its hash code (String.hashCode), which is the order of Kafka's
hash maps (replay.stock_clusters.agreement.trace.processing_order). A name's length decides only
where it is above Kafka's limit.

The names are seen as a tree of characters in which a period and an underscore are one branch. A
branch becomes a letter by its rank among its siblings, so that the order stays; a period and an
underscore stay what they are, so that collisions do; a character without siblings is left out.
Behind a hyphen follow characters that give the whole the hash code of the name it stands for.
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
"""In the tree it stands for a period, too."""
_SIBLINGS: Final = {
    **dict.fromkeys(_DIGITS + _UPPER, _DIGITS + _UPPER),
    **dict.fromkeys(_LOWER, _LOWER),
}
"""The letters that a branch may become: those between the same separators in the order."""
_HYPHEN_LABEL: Final = "-z"
"""Behind the hyphen that ends a stand-in comes a digit: a longer name stays behind a shorter."""
_LONGEST: Final = 249
_WORD: Final = 1 << 32
_BASE: Final = 31
_FREE: Final = 7
_LETTERS: Final = tuple(map(ord, _DIGITS + _UPPER + _LOWER))
_LEAST: Final = min(_LETTERS)
_MOST: Final = max(_LETTERS)
_BY_REST: Final = [[one for one in _LETTERS if one % _BASE == rest] for rest in range(_BASE)]
_ONES: Final = [(_BASE**count - 1) // (_BASE - 1) for count in range(_FREE + 1)]
"""The number of so many ones to the base 31."""


def topic_stand_ins(names: Collection[str], kept: Collection[str]) -> dict[str, str]:
    """What stands for each name; those in `kept` stay. Raises ReplayError where nothing can."""
    legal = [one for one in sorted(names) if _is_spelt_legally(one)]
    shapes = _Tree(legal, [one for one in kept if one in names]).shapes()
    by_unified: dict[str, str] = {}
    found = {one: one for one in names if one in kept or one in ("", ".", "..")}
    for name in legal:
        if name not in found:
            end = by_unified.get(topic_names.unified(name))
            stand_in, end = _with_end(name, shapes[name], end, names)
            by_unified[topic_names.unified(name)] = end
            found[name] = stand_in
    for number, name in enumerate(one for one in sorted(names) if one not in found):
        found[name] = f"!{number:0{max(7, len(name) - 1) if len(name) > _LONGEST else 7}}"
    _check(found)
    return found


def hash_code(name: str) -> int:
    """String.hashCode, without its sign."""
    code = 0
    for unit in memoryview(name.encode("utf-16-le", "surrogatepass")).cast("H"):
        code = (_BASE * code + unit) % _WORD
    return code


def _is_spelt_legally(name: str) -> bool:
    return (
        name not in ("", ".", "..")
        and topic_names.problem_of(name[:_LONGEST]) is None
        and (len(name) <= _LONGEST or topic_names.problem_of(name[_LONGEST:][:_LONGEST]) is None)
    )


def _with_end(name: str, shape: str, end: str | None, taken: Collection[str]) -> tuple[str, str]:
    """The whole stand-in, and the end of it; `end` is that of a name that this one collides with:
    they have to collide again."""
    if end is None:
        filling = "0" * max(0, len(name) - len(shape) - 2 - _FREE)
        begin = f"{_HYPHEN}{filling if len(name) > _LONGEST else ''}"
        for end in _ends(shape + begin, hash_code(name)):
            if shape + begin + end not in taken:
                return shape + begin + end, begin + end
        raise ReplayError(f"no other name keeps what decides of the topic {name!r}")
    return shape + end, end


def _ends(begin: str, wanted: int) -> Iterator[str]:
    """What may follow `begin` so that the whole has the hash code that is wanted."""
    for first in _DIGITS + _UPPER:
        rest = (wanted - hash_code(begin + first) * _BASE**_FREE) % _WORD
        for total in range(rest, _MOST * _ONES[_FREE] + 1, _WORD):
            for found in _spellings(total, _FREE):
                yield first + found


def _spellings(total: int, count: int) -> Iterator[str]:
    """So many letters whose codes, as digits to the base 31, add up to a total."""
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
    """Names as a tree: `children` of a node by character, in the order that names have."""

    def __init__(self, names: list[str], kept: list[str]) -> None:
        self._names = names
        self._children: dict[str, dict[str, None]] = {"": {}}
        self._ends = {topic_names.unified(one) for one in names}
        self._kept = {
            one[:count] for one in map(topic_names.unified, kept) for count in range(len(one) + 1)
        }
        for name in names:
            unified = topic_names.unified(name)
            for place, character in enumerate(unified):
                self._children.setdefault(unified[:place], {})[character] = None

    def shapes(self) -> dict[str, str]:
        """What each name becomes, but for its end."""
        labels: dict[str, str] = {}
        for node in self._children:
            labels |= self._labels(node)
        return {name: self._shape(name, labels) for name in self._names}

    def _shape(self, name: str, labels: dict[str, str]) -> str:
        unified = topic_names.unified(name)
        parts = []
        for place, character in enumerate(name):
            label = labels[unified[: place + 1]]
            parts.append(character if label == _SEPARATOR else label)
        return "".join(parts)

    def _labels(self, node: str) -> dict[str, str]:
        """What the last character of each child becomes."""
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
    """Whether the stand-ins are in the order of the names, and the same ones collide."""
    legal = [one for one in sorted(found) if topic_names.problem_of(one) is None]
    names = [found[one] for one in legal]
    groups = {topic_names.unified(one) for one in legal}
    pairs = {(topic_names.unified(one), topic_names.unified(found[one])) for one in legal}
    one_to_one = len(pairs) == len(groups) == len({after for _, after in pairs})
    are_legal = all(
        (topic_names.problem_of(one) is None) == (topic_names.problem_of(after) is None)
        for one, after in found.items()
    )
    if names != sorted(set(names)) or not one_to_one or not are_legal:
        raise ReplayError("no other names keep the order of these topics: keep fewer of them")
