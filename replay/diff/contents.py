"""What two decisions say otherwise, in parts; and which partitions are in what they say."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from replay import structural_diff
from replay.diff.messages import Decision
from replay.structural_diff import NOTHING
from replay.subjects import subject_of

_TEXT_MAX: Final = 200
_NO_DECISION: Final = {"data.timestamp", "request"}
"""When /controller was written; the number that a request has in one run of the daemon."""
_EMPTY: Final[tuple[Any, ...]] = (None, 0, "", False, [], {})


class Difference(Struct, frozen=True):
    """One part of a decision, in both versions; None: that one has no such part."""

    part: str
    base: str | None
    head: str | None


class Compared(Struct, frozen=True):
    """Two decisions that are about the same; one of them None where it has no counterpart."""

    base: Decision | None
    head: Decision | None
    differences: tuple[Difference, ...] = ()
    partitions: tuple[str, ...] = ()


def compared(base: Sequence[Decision], head: Sequence[Decision]) -> Iterator[Compared]:
    """Put together what is about the same; what says the same, in other portions, is left out."""
    of_base, of_head = _by_subject(base), _by_subject(head)
    for subject in dict.fromkeys([*of_base, *of_head]):
        ours, theirs = of_base.get(subject, []), of_head.get(subject, [])
        if _has_partitions(ours) or _has_partitions(theirs):
            yield from _portions(ours, theirs)
        else:
            yield from _one_by_one(ours, theirs)


def partitions_of(decision: Decision) -> tuple[str, ...]:
    """The partitions that a decision names, as "topic-0"."""
    subject = subject_of(decision.target)
    if subject.kind == "state":
        return (f"{subject.topic}-{subject.partition}",)
    return tuple(dict.fromkeys(_names_in(decision.content)))


def touched_by(decision: Decision) -> tuple[str, ...]:
    """The partitions that a decision is about: where the assignments of a topic are written, those
    of them that were chosen for."""
    subject = subject_of(decision.target)
    if subject.kind == "topic":
        chosen = [one for one in decision.choices if one.get("topic") == subject.topic]
        return tuple(dict.fromkeys(_names_in(chosen)))
    return partitions_of(decision)


def _names_in(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        topic, partition = value.get("topic"), value.get("partition")
        if isinstance(topic, str) and isinstance(partition, int):
            # An answer by the topic's id has no name for it.
            if topic:
                yield f"{topic}-{partition}"
            return
        for one in value.values():
            yield from _names_in(one)
    elif isinstance(value, list):
        for one in value:
            yield from _names_in(one)


# One decision with another ------------------------------------------------------------------------

Subject = tuple[str, str, str]


def _by_subject(decisions: Iterable[Decision]) -> dict[Subject, list[Decision]]:
    found: dict[Subject, list[Decision]] = defaultdict(list)
    for one in decisions:
        found[one.channel, one.kind, one.target].append(one)
    return found


def _one_by_one(base: Sequence[Decision], head: Sequence[Decision]) -> Iterator[Compared]:
    for ours, theirs in _nearest(base, head):
        if ours is None or theirs is None:
            one = ours or theirs
            assert one is not None, "a pair has at least one"
            yield Compared(ours, theirs, (), touched_by(one))
            continue
        differences = tuple(_differences("", ours.content, theirs.content))
        if differences:
            names = dict.fromkeys([*touched_by(ours), *touched_by(theirs)])
            yield Compared(ours, theirs, differences, tuple(names))


def _nearest(
    base: Sequence[Decision], head: Sequence[Decision]
) -> Iterator[tuple[Decision | None, Decision | None]]:
    """Pairs at the same event of the log, then in order."""
    waiting = list(head)
    alone = []
    for one in base:
        same = next((other for other in waiting if other.seq == one.seq), None)
        if same is None:
            alone.append(one)
        else:
            waiting.remove(same)
            yield one, same
    for number in range(max(len(alone), len(waiting))):
        yield (
            alone[number] if number < len(alone) else None,
            waiting[number] if number < len(waiting) else None,
        )


def _differences(part: str, base: Any, head: Any) -> Iterator[Difference]:
    for one in structural_diff.differences(base, head, (part,) if part else ()):
        # A field that only one version knows says nothing as long as it is empty.
        is_empty = NOTHING in one[1:] and any(each in _EMPTY for each in one[1:])
        if one.name not in _NO_DECISION and not is_empty:
            ours, theirs = (structural_diff.text(each, _TEXT_MAX) for each in one[1:])
            yield Difference(one.name or "content", ours, theirs)


# Requests, partition by partition -----------------------------------------------------------------


def _has_partitions(decisions: Sequence[Decision]) -> bool:
    return any(
        isinstance(one.content, dict)
        and isinstance(one.content.get("partitions"), list)
        and one.channel.startswith("broker ")
        for one in decisions
    )


Item = tuple[str, str, Any]
"""A name, the same as a text that can be compared, and the content."""


def _portions(base: Sequence[Decision], head: Sequence[Decision]) -> Iterator[Compared]:
    """What requests of one kind to one broker say of each partition, in whatever portions."""
    ours, theirs = _without_common(base, head), _without_common(head, base)
    others: dict[str, list[tuple[Decision, Any]]] = defaultdict(list)
    for place, items in theirs.items():
        for name, _, content in items:
            others[name].append((head[place], content))
    for place, items in ours.items():
        pairs: dict[int, list[tuple[Decision, str, Any, Any]]] = defaultdict(list)
        alone = []
        for name, _, content in items:
            if others[name]:
                other, said = others[name].pop(0)
                pairs[id(other)].append((other, name, content, said))
            else:
                alone.append(name)
        for found in pairs.values():
            differences = [
                difference
                for _, name, content, said in found
                for difference in _differences(name, content, said)
            ]
            if differences:
                names = tuple(name for _, name, _, _ in found if name)
                yield Compared(base[place], found[0][0], tuple(differences), names)
        if any(alone) or (alone and not _has_portions(base[place])):
            yield Compared(base[place], None, (), tuple(one for one in alone if one))
    yield from _left(others)


def _left(others: Mapping[str, Sequence[tuple[Decision, Any]]]) -> Iterator[Compared]:
    """What only head says."""
    names: dict[int, list[str]] = defaultdict(list)
    of: dict[int, Decision] = {}
    for name, left in others.items():
        for decision, _ in left:
            if name or not _has_portions(decision):
                names[id(decision)].append(name)
                of[id(decision)] = decision
    for key, decision in of.items():
        yield Compared(None, decision, (), tuple(one for one in names[key] if one))


def _without_common(
    decisions: Sequence[Decision], others: Sequence[Decision]
) -> dict[int, list[Item]]:
    """By place: what each one says that the others do not."""
    said = Counter(text for one in others for _, text, _ in _items(one))
    heads = {text for one in others for name, text, _ in _items(one) if not name}
    found: dict[int, list[Item]] = {}
    for place, one in enumerate(decisions):
        for item in _items(one):
            name, text, _ = item
            if not name and text in heads:
                continue
            if said[text] > 0:
                said[text] -= 1
            else:
                found.setdefault(place, []).append(item)
    return found


def _has_portions(decision: Decision) -> bool:
    """Whether it is of any partition: else it is one thing."""
    return bool((decision.content or {}).get("partitions"))


def _items(decision: Decision) -> Iterator[Item]:
    """A request's partitions, and the rest of it under no name."""
    content = decision.content or {}
    rest = {key: value for key, value in content.items() if key != "partitions"}
    yield "", msgspec.json.encode(rest, order="sorted").decode(), rest
    for one in content.get("partitions") or []:
        name = f"{one.get('topic')}-{one.get('partition')}"
        yield name, msgspec.json.encode(one, order="sorted").decode(), one
