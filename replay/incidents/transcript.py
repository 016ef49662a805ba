"""The decisions of this version on an incident, as text.

The text does not depend on how the version reads ZooKeeper, so a change of the text is a change of
decisions.
"""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import msgspec

from replay.description.choices import candidates_in_brief
from replay.diff.contents import partitions_of
from replay.diff.messages import Decision, FoldedLog
from replay.diff.version.decisions import DecisionRecorder
from replay.diff.version.fold_recorder import FoldRecorder, TimelineRecorder
from replay.diff.version.folding import fold_log
from replay.logs.open_log import open_reader

_LEFT_OUT: Final = (
    *("path", "broker", "timer", "request", "timestamp", "topic", "partition", "topic_id"),
)
"""Fields that are in the line already, and clocks and numbers that differ in each run."""
_LIVE: Final = ("live_leaders", "live_brokers")
_EMPTY: Final[tuple[Any, ...]] = (None, "", [])


def transcript(log: Path) -> str:
    """One paragraph for each event that leads to decisions. Raises ReplayError, LogError."""
    recorder = FoldRecorder(DecisionRecorder(with_contents=True), TimelineRecorder(()))
    with open_reader(log) as reader:
        folded = fold_log(reader, recorder)
    # The sessions of an imported log are folded one after the other.
    decisions = sorted(recorder.decisions.decisions, key=lambda one: one.seq)
    return "\n".join(_lines(decisions, folded)) + "\n"


def _lines(decisions: list[Decision], folded: FoldedLog) -> Iterator[str]:
    begun = decisions[0].time_ns if decisions else 0
    left = False
    for (seq, event, cause), group in groupby(
        decisions, lambda one: (one.seq, one.event, one.cause)
    ):
        if folded.left_at and seq >= folded.left_at and not left:
            left = True
            yield f"--- this version leaves the log at event {folded.left_at}"
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
            yield f"        {_choice_in_words(choice)}"


def _choice_in_words(choice: dict[str, Any]) -> str:
    passed = ", ".join(candidates_in_brief(choice))
    text = f"chosen {choice['chosen']}, {choice['code']}"
    return f"{text}; passed over {passed}" if passed else text


def _fields(content: dict[str, Any]) -> str:
    """Fields as " leader=1 isr=1,2", without empty fields and those in _LEFT_OUT."""
    return "".join(
        f" {name}={_value(value)}"
        for name, value in _flat(content)
        if name not in _LEFT_OUT and value is not False and value not in _EMPTY
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
