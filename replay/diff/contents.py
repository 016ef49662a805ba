"""The parts in which decisions differ, and the partitions that decisions are about."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from replay import structural_diff
from replay.diff.messages import Decision
from replay.names import is_broker, partition_name
from replay.structural_diff import NOTHING
from replay.subjects import subject_of

_TEXT_MAX: Final = 200
_NOT_COMPARED: Final = {"data.timestamp", "request"}
"""The timestamp of /controller, and the number of a request, which differ in each run."""
_EMPTY: Final[tuple[Any, ...]] = (None, 0, "", False, [], {})


class DecisionDifference(Struct, frozen=True):
    """One part of a decision in both versions; None if the version has no such part."""

    part: str
    base: str | None
    head: str | None


class DecisionPair(Struct, frozen=True):
    """Two decisions with the same subject. One is None if it has no counterpart."""

    base: Decision | None
    head: Decision | None
    differences: tuple[DecisionDifference, ...] = ()
    partitions: tuple[str, ...] = ()


def pair_by_subject(base: Sequence[Decision], head: Sequence[Decision]) -> Iterator[DecisionPair]:
    """Pair decisions with the same subject. Partitions with the same content are left out, whatever
    batches they are sent in."""
    base_subjects, head_subjects = _by_subject(base), _by_subject(head)
    for subject in dict.fromkeys([*base_subjects, *head_subjects]):
        of_base, of_head = base_subjects.get(subject, []), head_subjects.get(subject, [])
        if _has_partitions(of_base) or _has_partitions(of_head):
            yield from _batches(of_base, of_head)
        else:
            yield from _one_by_one(of_base, of_head)


def partitions_of(decision: Decision) -> tuple[str, ...]:
    """The partitions that a decision names, as "topic-0"."""
    subject = subject_of(decision.target)
    if subject.kind == "state":
        return (subject.names[-1],)
    return tuple(dict.fromkeys(_names_in(decision.content)))


def touched_by(decision: Decision) -> tuple[str, ...]:
    """The partitions that a decision affects. For a write to a topic's assignments, these are the
    partitions with a choice."""
    subject = subject_of(decision.target)
    if subject.kind == "topic":
        chosen = [one for one in decision.choices if one.get("topic") == subject.topic]
        return tuple(dict.fromkeys(_names_in(chosen)))
    return partitions_of(decision)


def _names_in(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        topic, partition = value.get("topic"), value.get("partition")
        if isinstance(topic, str) and isinstance(partition, int):
            # In a response with topic ids the name is empty.
            if topic:
                yield partition_name(topic, partition)
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


def _one_by_one(base: Sequence[Decision], head: Sequence[Decision]) -> Iterator[DecisionPair]:
    for of_base, of_head in _pairs_by_event(base, head):
        if of_base is None or of_head is None:
            one = of_base or of_head
            assert one is not None, "a pair has at least one"
            yield DecisionPair(of_base, of_head, (), touched_by(one))
            continue
        differences = tuple(_differences("", of_base.content, of_head.content))
        if differences:
            names = dict.fromkeys([*touched_by(of_base), *touched_by(of_head)])
            yield DecisionPair(of_base, of_head, differences, tuple(names))


def _pairs_by_event(
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


def _differences(part: str, base: Any, head: Any) -> Iterator[DecisionDifference]:
    for one in structural_diff.differences(base, head, (part,) if part else ()):
        # An empty field that only one version knows is not a difference.
        is_empty = NOTHING in one[1:] and any(each in _EMPTY for each in one[1:])
        if one.name not in _NOT_COMPARED and not is_empty:
            yield DecisionDifference(one.name or "content", *one.texts(_TEXT_MAX))


# Requests, partition by partition -----------------------------------------------------------------


def _has_partitions(decisions: Sequence[Decision]) -> bool:
    return any(
        isinstance(one.content, dict)
        and isinstance(one.content.get("partitions"), list)
        and is_broker(one.channel)
        for one in decisions
    )


Item = tuple[str, str, Any]
"""The name of a partition, its content as text for comparison, and the content."""


def _batches(base: Sequence[Decision], head: Sequence[Decision]) -> Iterator[DecisionPair]:
    """Compare requests of one kind to one broker partition by partition."""
    of_base, of_head = _without_common(base, head), _without_common(head, base)
    others: dict[str, list[tuple[Decision, Any]]] = defaultdict(list)
    for place, items in of_head.items():
        for name, _, content in items:
            others[name].append((head[place], content))
    for place, items in of_base.items():
        pairs: dict[int, list[tuple[Decision, str, Any, Any]]] = defaultdict(list)
        alone = []
        for name, _, content in items:
            if others[name]:
                other, their_content = others[name].pop(0)
                pairs[id(other)].append((other, name, content, their_content))
            else:
                alone.append(name)
        for found in pairs.values():
            differences = [
                difference
                for _, name, content, their_content in found
                for difference in _differences(name, content, their_content)
            ]
            if differences:
                names = tuple(name for _, name, _, _ in found if name)
                yield DecisionPair(base[place], found[0][0], tuple(differences), names)
        if any(alone) or (alone and not _names_partitions(base[place])):
            yield DecisionPair(base[place], None, (), tuple(one for one in alone if one))
    yield from _head_only(others)


def _head_only(others: Mapping[str, Sequence[tuple[Decision, Any]]]) -> Iterator[DecisionPair]:
    """The partitions and requests that only head has."""
    names: dict[int, list[str]] = defaultdict(list)
    of: dict[int, Decision] = {}
    for name, left in others.items():
        for decision, _ in left:
            if name or not _names_partitions(decision):
                names[id(decision)].append(name)
                of[id(decision)] = decision
    for key, decision in of.items():
        yield DecisionPair(None, decision, (), tuple(one for one in names[key] if one))


def _without_common(
    decisions: Sequence[Decision], others: Sequence[Decision]
) -> dict[int, list[Item]]:
    """By position: the content of each decision that the others do not have."""
    common = Counter(text for one in others for _, text, _ in _items(one))
    heads = {text for one in others for name, text, _ in _items(one) if not name}
    found: dict[int, list[Item]] = {}
    for place, one in enumerate(decisions):
        for item in _items(one):
            name, text, _ = item
            if not name and text in heads:
                continue
            if common[text] > 0:
                common[text] -= 1
            else:
                found.setdefault(place, []).append(item)
    return found


def _names_partitions(decision: Decision) -> bool:
    """Whether a request names any partition."""
    return bool((decision.content or {}).get("partitions"))


def _items(decision: Decision) -> Iterator[Item]:
    """The partitions of a request, and its other fields with the name ""."""
    content = decision.content or {}
    rest = {key: value for key, value in content.items() if key != "partitions"}
    yield "", msgspec.json.encode(rest, order="sorted").decode(), rest
    for one in content.get("partitions") or []:
        name = f"{one.get('topic')}-{one.get('partition')}"
        yield name, msgspec.json.encode(one, order="sorted").decode(), one
