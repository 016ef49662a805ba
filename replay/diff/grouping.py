"""Groups the decisions that differ by their first cause and by the rule that differs."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, Final, Literal

from msgspec import Struct, field

from replay.description.choices import candidates_in_brief
from replay.diff.contents import (
    DecisionDifference,
    DecisionPair,
    pair_by_subject,
    partitions_of,
    touched_by,
)
from replay.diff.matching import MatchedDecisions, Pair, ReorderedDecision, match
from replay.diff.messages import Decision
from replay.diff.verdicts import BROKER_RESPONSES, RESPONSE, verdicts
from replay.diff.version.decisions import FAILED

What = Literal["changed", "missing", "new", "reordered"]

_LATE_NS: Final = 1_000_000_000
"""A decision that is so much later than in the other version counts as changed."""
_NUMBERS: Final = re.compile(r"\d+")
IDS_IN_RULES: Final = re.compile(r"(?<![\w.-])\d+(?![\w.-])")
"""The ids in the name of a rule, such as "remove 3 from ISR", but not KIP-236."""
_TIMERS: Final = ("start_timer", "cancel_timer")
_TIME: Final = "time"
_PASSED_OVER_MAX: Final = 10


class DecisionDivergence(Struct):
    """One decision that differs. `seq` is the event of the log that led to it, and `cause` the
    controller event that was processed. `details` are sentences about the choice, `verdicts` about
    requests that only one version accepts."""

    what: What
    kind: str
    target: str
    base_rule: str
    head_rule: str
    seq: int
    time_ns: int
    event: str
    cause: str
    differences: tuple[DecisionDifference, ...] = ()
    partitions: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    verdicts: tuple[str, ...] = ()
    is_harmless: bool = False
    place: tuple[int, int] = (0, 0)

    @property
    def rule(self) -> str:
        """The rule, or both rules if they differ."""
        return _join_sides(self.base_rule, self.head_rule)

    @property
    def general_rule(self) -> str:
        """The rule, or both rules, without ids of brokers."""
        return _join_sides(without_ids(self.base_rule), without_ids(self.head_rule))


class RootDivergence(Struct):
    """A root divergence: the first one in content, and those that follow from the same event or
    partition."""

    first: DecisionDivergence
    followers: list[DecisionDivergence] = field(default_factory=list)

    @property
    def partitions(self) -> list[str]:
        """All affected partitions."""
        names = [*self.first.partitions]
        for one in self.followers:
            names += one.partitions
        return list(dict.fromkeys(names))

    @property
    def verdicts(self) -> list[str]:
        """The requests that only one version accepts."""
        every = [one for each in (self.first, *self.followers) for one in each.verdicts]
        return list(dict.fromkeys(every))

    @property
    def may_matter(self) -> bool:
        """Whether it can have simulated consequences: the same decisions in another order have
        none."""
        return any(one.what != "reordered" for one in (self.first, *self.followers))

    @property
    def to_brokers(self) -> list[str]:
        """The kinds of differing decisions that brokers receive or read, sorted."""
        return sorted(one for one in self._received if not _is_to_clients(one))

    @property
    def to_clients(self) -> list[str]:
        """The kinds of differing responses to admin clients, sorted."""
        return sorted(filter(_is_to_clients, self._received))

    @property
    def _received(self) -> set[str]:
        kinds = {one.kind for one in (self.first, *self.followers) if not one.is_harmless}
        return kinds.difference(_TIMERS, (FAILED,))


def _is_to_clients(kind: str) -> bool:
    return kind.startswith(RESPONSE) and kind not in BROKER_RESPONSES


def divergences(base: Sequence[Decision], head: Sequence[Decision]) -> list[DecisionDivergence]:
    """All decisions that differ, in order."""
    matched = match(base, head)
    of_base = [base[place] for place in matched.base_only]
    of_head = [head[place] for place in matched.head_only]
    found = [_of_pair(one) for one in pair_by_subject(of_base, of_head)]
    found += [_of_reordered(one, base, head) for one in matched.reordered]
    reordered = {one.pair for one in matched.reordered if not one.is_harmless}
    for pair, late_ns in _late(matched, base, head):
        if pair not in reordered:
            found.append(_of_late(base[pair[0]], head[pair[1]], late_ns))
    return sorted(found, key=lambda one: one.place)


def common_keys(base: Sequence[Decision], head: Sequence[Decision]) -> set[bytes]:
    """The keys of decisions that both versions make equally often, at the same time and in the same
    order. Their contents are not needed."""
    matched = match(base, head)
    pairs = {one.pair for one in matched.reordered}
    pairs.update(pair for pair, _ in _late(matched, base, head))
    differing = {base[place].key for place in matched.base_only}
    differing.update(head[place].key for place in matched.head_only)
    differing.update(base[place].key for place, _ in pairs)
    return {one.key for one in base} - differing


def first_difference(base: Sequence[Decision], head: Sequence[Decision]) -> int | None:
    """The first event at which decisions differ, or None. Contents are not needed.

    The decisions of an imported log are ordered by session, so they are sorted here.
    """
    for of_base, of_head in zip_longest(sorted(base, key=_seq_of), sorted(head, key=_seq_of)):
        if of_base is None or of_head is None:
            return (of_base or of_head).seq
        if of_base.key != of_head.key or _late_ns(of_base, of_head):
            return min(of_base.seq, of_head.seq)
    return None


def _seq_of(decision: Decision) -> int:
    return decision.seq


def _late(
    matched: MatchedDecisions, base: Sequence[Decision], head: Sequence[Decision]
) -> Iterator[tuple[Pair, int]]:
    """The pairs that head decides at another time, and how much later."""
    for pair in matched.pairs:
        late_ns = _late_ns(base[pair[0]], head[pair[1]])
        if late_ns:
            yield pair, late_ns


def _late_ns(base: Decision, head: Decision) -> int:
    """How much later head decides; 0 for less than a second. A version that writes one by one
    makes the later writes of a rule later, so the first one counts."""
    late_ns = head.time_ns - base.time_ns
    begun_ns = (head.begun_ns or head.time_ns) - (base.begun_ns or base.time_ns)
    return late_ns if min(abs(late_ns), abs(begun_ns)) >= _LATE_NS else 0


def roots(found: Iterable[DecisionDivergence]) -> list[RootDivergence]:
    """The first causes, each with the divergences that follow from it.

    A divergence follows from an earlier one of the same partition or the same controller event.
    Timers and responses follow from the last divergence of a controller event with the same name.
    Harmless divergences are separate.
    """
    all_roots: list[RootDivergence] = []
    of_partition: dict[str, RootDivergence] = {}
    of_event: dict[tuple[int, str], RootDivergence] = {}
    of_cause: dict[str, RootDivergence] = {}
    for one in found:
        if one.is_harmless:
            all_roots.append(RootDivergence(one))
            continue
        keys = [of_partition.get(name) for name in one.partitions]
        keys.append(of_event.get((one.seq, one.cause)))
        if one.kind in _TIMERS or one.kind.startswith(RESPONSE):
            keys.append(of_cause.get(one.cause))
        root = next((key for key in keys if key is not None), None)
        if root is None:
            root = RootDivergence(one)
            all_roots.append(root)
        else:
            root.followers.append(one)
        # A reordering has no consequences for a partition.
        for name in one.partitions if one.what != "reordered" else ():
            of_partition.setdefault(name, root)
        of_event.setdefault((one.seq, one.cause), root)
        of_cause[one.cause] = root
    for root in all_roots:
        _show_content_first(root)
    return all_roots


def _show_content_first(root: RootDivergence) -> None:
    """A timer, or only another time, explains less than the first decision whose content differs:
    that one becomes the first cause."""
    if _differs_in_content(root.first):
        return
    shown = next((one for one in root.followers if _differs_in_content(one)), None)
    if shown is not None:
        root.followers.remove(shown)
        root.followers.insert(0, root.first)
        root.first = shown


def _differs_in_content(one: DecisionDivergence) -> bool:
    is_only_late = [difference.part for difference in one.differences] == [_TIME]
    return one.kind not in _TIMERS and one.what != "reordered" and not is_only_late


def first_root(found: Sequence[RootDivergence]) -> RootDivergence | None:
    """The root with the decision that differs first by content. Without one, the first root that is
    not harmless, or None."""
    return min(
        (one for one in found if not one.first.is_harmless),
        key=lambda one: (not _differs_in_content(one.first), one.first.place),
        default=None,
    )


def signature(one: DecisionDivergence) -> tuple[str, ...]:
    """The common part of all divergences of a group, without ids of brokers and partitions."""
    parts = sorted({_general(difference.part) for difference in one.differences})
    harmless = "harmless" if one.is_harmless else ""
    rules = without_ids(one.base_rule), without_ids(one.head_rule)
    return (one.what, harmless, *rules, one.kind, ", ".join(parts))


def group_id(parts: Sequence[str]) -> str:
    """The short name of a group for the file of accepted changes. It is the same in each run."""
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=4).hexdigest()


def _join_sides(base: str, head: str) -> str:
    return base or head if not base or not head or base == head else f"{base} / {head}"


def without_ids(rule: str) -> str:
    """The name of a rule with N for each id, so that rules that differ only in a broker are one."""
    return IDS_IN_RULES.sub("N", rule)


def _general(part: str) -> str:
    """The name of a part without ids of partitions and brokers."""
    last = part.rpartition(".")[2]
    return _NUMBERS.sub("N", last)


def _of_pair(one: DecisionPair) -> DecisionDivergence:
    what: What = "changed" if one.base and one.head else "missing" if one.base else "new"
    found = _divergence(
        what, one.base, one.head, one.partitions, tuple(_details(one)), one.differences
    )
    if one.base and one.head:
        found.verdicts = tuple(verdicts(one.base, one.head))
    return found


def _of_reordered(
    one: ReorderedDecision, base: Sequence[Decision], head: Sequence[Decision]
) -> DecisionDivergence:
    moved, passed = base[one.pair[0]], base[one.passes[0]]
    how = "after" if one.pair[0] < one.passes[0] else "before"
    channels = (
        f"both on {moved.channel}"
        if moved.channel == passed.channel
        else f"{moved.channel} and {passed.channel}"
    )
    text = f"head makes this decision {how} {passed.kind} {passed.target} ({channels})"
    found = _divergence("reordered", moved, head[one.pair[1]], touched_by(moved), (text,))
    found.is_harmless = one.is_harmless
    return found


def _of_late(base: Decision, head: Decision, late_ns: int) -> DecisionDivergence:
    time = DecisionDifference(_TIME, f"event {base.seq}", f"event {head.seq}")
    return _divergence("changed", base, head, touched_by(base), (_lateness(late_ns),), (time,))


def _divergence(
    what: What,
    base: Decision | None,
    head: Decision | None,
    partitions: tuple[str, ...],
    details: tuple[str, ...],
    differences: tuple[DecisionDifference, ...] = (),
) -> DecisionDivergence:
    """A divergence at the earlier of two decisions, one of which may not exist."""
    shown = base or head
    assert shown is not None, "a pair has at least one"
    earlier = min((one for one in (base, head) if one), key=lambda one: one.time_ns)
    return DecisionDivergence(
        what,
        shown.kind,
        shown.target,
        base.rule if base else "",
        head.rule if head else "",
        earlier.seq,
        earlier.time_ns,
        earlier.event,
        earlier.cause,
        differences,
        partitions,
        details,
        place=(earlier.time_ns, earlier.turn),
    )


# The choice ---------------------------------------------------------------------------------------


def _lateness(late_ns: int) -> str:
    how = "later" if late_ns > 0 else "earlier"
    return f"head makes this decision {abs(late_ns) / 1e9:.1f} s {how}"


def _details(one: DecisionPair) -> Iterator[str]:
    """The choices of each version that differ, with the replicas that were passed over; and the
    delay between the two decisions."""
    late_ns = _late_ns(one.base, one.head) if one.base and one.head else 0
    if one.head and late_ns:
        yield f"{_lateness(late_ns)}, at event {one.head.seq}"
    of_base, of_head = _choices(one.base), _choices(one.head)
    for name in dict.fromkeys([*of_base, *of_head]):
        if of_base.get(name) == of_head.get(name):
            continue
        for side, choices in (("base", of_base), ("head", of_head)):
            if name in choices:
                yield f"{side}, {name}: {_choice(choices[name])}"


def _choices(decision: Decision | None) -> dict[str, dict[str, Any]]:
    """The choices for the partitions that the decision is about."""
    if decision is None:
        return {}
    names = set(partitions_of(decision))
    found = {f"{one.get('topic')}-{one.get('partition')}": one for one in decision.choices}
    return {name: one for name, one in found.items() if name in names or not names}


def _choice(choice: dict[str, Any]) -> str:
    chosen, code = choice.get("chosen"), choice.get("code")
    text = f"chose {chosen}" if chosen != -1 else "chose no leader"
    text += f" ({code})" if code else ""
    if passed := candidates_in_brief(choice):
        text += f", passed over {', '.join(passed[:_PASSED_OVER_MAX])}"
    return text
