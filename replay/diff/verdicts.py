"""Requests to the controller that only one version accepts."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from controller.core.error_codes import NONE, REQUEST_TIMED_OUT
from replay.description.error_names import error_name
from replay.description.phrases import first_few
from replay.diff.messages import Decision
from replay.names import partition_name

RESPONSE: Final = "answer_"
"""The prefix of the kinds of responses. The rest is the name of the API."""
BROKER_RESPONSES: Final = tuple(
    f"{RESPONSE}{api}"
    for api in ("alter_partition", "controlled_shutdown", "allocate_producer_ids")
)
"""The kinds of responses to brokers; the others are to admin clients."""
_WHOLE: Final = ""
"""The name of an error for the whole request."""


def verdicts(base: Decision, head: Decision) -> Iterator[str]:
    """One sentence for the parts of a request that head accepts and base refuses, or the reverse.
    `base` and `head` are the responses to the same request."""
    if not base.kind.startswith(RESPONSE):
        return
    of_base, of_head = dict(_errors(base.content)), dict(_errors(head.content))
    names: dict[tuple[bool, int], list[str]] = defaultdict(list)
    for name in dict.fromkeys([*of_base, *of_head]):
        before, after = (one.get(name, one.get(_WHOLE)) for one in (of_base, of_head))
        if before is None or after is None:
            continue
        if (before == NONE) != (after == NONE):
            names[after == NONE, before or after].append(name)
    for (is_accepted, error), parts in names.items():
        request = base.kind.removeprefix(RESPONSE)
        if _WHOLE not in parts:
            request += f" {first_few(parts, ', ')}"
        yield f"head {_outcome_text(is_accepted, error)}: {request} ({error_name(error)})"


def _outcome_text(is_accepted: bool, error: int) -> str:
    if error == REQUEST_TIMED_OUT:
        return "completes what base does not" if is_accepted else "does not complete what base does"
    return "accepts what base refuses" if is_accepted else "refuses what base accepts"


def _errors(value: Any, name: str = _WHOLE) -> Iterator[tuple[str, int]]:
    """The error codes in a response, by the name of the part."""
    if isinstance(value, dict):
        own = _name(value) or name
        if isinstance(value.get("error"), int):
            yield own, value["error"]
        for part in value.values():
            yield from _errors(part, own)
    elif isinstance(value, list):
        for part in value:
            yield from _errors(part, name)


def _name(part: dict[str, Any]) -> str:
    """The name of a partition, topic or user; "" for other parts."""
    topic = part.get("topic") or part.get("name") or part.get("user") or part.get("topic_id")
    if not isinstance(topic, str):
        return ""
    number = part.get("partition")
    return partition_name(topic, number) if isinstance(number, int) else topic
