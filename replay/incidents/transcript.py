"""What this version decides on an incident, as text: the same however it reads, so that a change
of the text is a change of decisions."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import msgspec

from replay.diff.contents import partitions_of
from replay.diff.messages import Decision, Folded
from replay.diff.version.decided import Deciding
from replay.diff.version.fold_options import Wanted
from replay.diff.version.folding import fold_log
from replay.diff.version.imported import fold_imported
from replay.diff.version.partition_timelines import Courses
from replay.logs.open_log import open_reader
from replay.progress import unreported

_UNSAID: Final = (
    *("path", "broker", "timer", "request", "timestamp", "topic", "partition", "topic_id"),
)
"""What stands in the line already, and clocks and numbers of one run."""
_LIVE: Final = ("live_leaders", "live_brokers")
_EMPTY: Final[tuple[Any, ...]] = (None, "", [])


def transcript(log: Path) -> str:
    """One paragraph for each event on which something is decided. Raises ReplayError, LogError."""
    deciding = Deciding(with_contents=True)
    wanted = Wanted(deciding, Courses(()))
    with open_reader(log) as reader:
        if reader.header.kind == "recorded":
            folded = fold_log(reader, wanted, unreported)
        else:
            folded = fold_imported(log, wanted, {}, unreported)
    # Of an imported log each session of a controller is folded by itself.
    decisions = sorted(deciding.decisions, key=lambda one: one.seq)
    return "\n".join(_lines(decisions, folded)) + "\n"


def _lines(decisions: list[Decision], folded: Folded) -> Iterator[str]:
    begun = decisions[0].time_ns if decisions else 0
    left = False
    for (seq, event, cause), group in groupby(
        decisions, lambda one: (one.seq, one.event, one.cause)
    ):
        if folded.left_at and seq >= folded.left_at and not left:
            left = True
            yield f"--- from event {folded.left_at} on this version goes its own way"
        some = list(group)
        about = f"{event}: {cause}" if event else cause
        yield f"{seq} +{(some[0].time_ns - begun) / 1e9:.3f} s {about}"
        for one in some:
            yield from _decision(one)


def _decision(one: Decision) -> Iterator[str]:
    content = dict(one.content or {})
    partitions = content.pop("partitions", None)
    yield f"    {one.kind} {one.target} [{one.rule}]{_fields(content)}"
    for partition in partitions or ():
        topic = partition.get("topic") or partition.get("topic_id")
        yield f"        {topic}-{partition.get('partition')}{_fields(partition)}"
    about = partitions_of(one) if not partitions else ()
    for choice in one.choices:
        if f"{choice['topic']}-{choice['partition']}" in about:
            yield f"        {_chosen(choice)}"


def _chosen(choice: dict[str, Any]) -> str:
    passed = ", ".join(f"{one[0]} ({one[1]})" for one in choice.get("passed_over") or ())
    text = f"chosen {choice['chosen']}, {choice['code']}"
    return f"{text}; passed over {passed}" if passed else text


def _fields(content: dict[str, Any]) -> str:
    """ " leader=1 isr=1,2", without what is empty and what says nothing of a decision."""
    return "".join(
        f" {name}={_value(value)}"
        for name, value in _flat(content)
        if name not in _UNSAID and value is not False and value not in _EMPTY
    )


def _flat(content: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in content.items():
        if isinstance(value, dict):
            yield from _flat(value)
        elif name in _LIVE:
            yield name, [one["id"] if isinstance(one, dict) else one[0] for one in value]
        else:
            yield name, value


def _value(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(one, int) for one in value):
        return ",".join(map(str, value))
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
