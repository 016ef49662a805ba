"""Defines what a decision is: a write, a request to a broker, a channel, a response, a timer, or
the failure of a controller event.

Reads, probes, random draws and other notices are not decisions, because a version may change how it
finds out what to do. Each write of a batch is a separate decision.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import structs

from controller.core.canonical import digest, encode_command, kind_of
from controller.core.commands import (
    BrokerRequest,
    CancelTimer,
    CloseChannel,
    Command,
    CommandId,
    Internal,
    Issued,
    Notice,
    OpenChannel,
    Reason,
    StartTimer,
    Stop,
    WriteAtomically,
    WriteZnodes,
    target_of,
)
from controller.core.events import ZnodesWritten
from controller.core.operations import FENCED, Check, WriteOperation
from replay.description.as_json import plain_object
from replay.diff.messages import Decision

ZOOKEEPER: Final = "zookeeper"
FAILED: Final = "procedure_failed"
"""The kind of decision for a controller event that failed: the rest of its work is dropped."""
_encode: Final = msgspec.msgpack.Encoder().encode


class DecidedTrigger(NamedTuple):
    """A controller event: its name, and a number that differs between successive events."""

    name: str
    number: int


NO_CAUSE: Final = DecidedTrigger("", 0)


class DecisionRecorder:
    """Collects decisions. Decisions with a key in `known`, concatenated keys of 16 bytes, are
    recorded without content."""

    def __init__(self, *, with_contents: bool = False, known: bytes = b"") -> None:
        self._with_contents = with_contents
        self._known = {known[place : place + 16] for place in range(0, len(known), 16)}
        self.decisions: list[Decision] = []
        self._writes: dict[CommandId, int] = {}
        """The place of the first write of each batch without an outcome."""
        self._begun: tuple[DecidedTrigger, str, int] = (NO_CAUSE, "", 0)
        """The controller event, the rule and the time of the last writes of one rule."""

    def record(
        self,
        issued: Iterable[Issued],
        seq: int,
        turn: int,
        time_ns: int,
        event: str,
        causes: Mapping[CommandId, DecidedTrigger],
    ) -> None:
        """Add the decisions of an event.

        `seq` is the last event of the log, `turn` the number of the event that the version folded,
        at `time_ns`, of the kind `event`. `causes` are the controller events of the commands.
        """
        for one in issued:
            cause, begun_ns = causes.get(one.id, NO_CAUSE), 0
            if isinstance(one.command, WriteZnodes):
                self._writes[one.id] = len(self.decisions)
                if self._begun[:2] != (cause, one.reason.rule):
                    self._begun = (cause, one.reason.rule, time_ns)
                begun_ns = self._begun[2]
            for key, channel, kind, target, part in parts_of(one.command):
                content: dict[str, Any] | None = None
                choices: list[dict[str, Any]] = []
                if self._with_contents and key not in self._known:
                    content, choices = _content(part, one.command), _choices(one.reason)
                self.decisions.append(
                    Decision(
                        key,
                        channel,
                        kind,
                        target,
                        one.reason.rule,
                        seq,
                        turn,
                        time_ns,
                        event,
                        cause.name,
                        content,
                        choices,
                        begun_ns=begun_ns,
                    )
                )

    def mark_fenced(self, outcome: ZnodesWritten) -> None:
        """Mark the writes that were fenced."""
        first = self._writes.get(outcome.command)
        if first is None or FENCED not in outcome.errors:
            return
        for place, error in enumerate(outcome.errors, first + outcome.offset):
            if error == FENCED:
                self.decisions[place] = structs.replace(self.decisions[place], is_fenced=True)


Part = tuple[bytes, str, str, str, Command | WriteOperation]
"""Key, channel, kind, target, and the command or the single write."""


def parts_of(command: Command) -> Iterator[Part]:
    """The decisions in a command."""
    if isinstance(command, Internal):
        return
    if isinstance(command, Notice):
        if command.code == FAILED:
            target = f"{command.subject}: {command.text}"
            yield digest(encode_command(command)), "controller", FAILED, target, command
        return
    if isinstance(command, WriteZnodes):
        for one in command.operations:
            kind = f"{one.__struct_config__.tag}"
            yield digest(_encode(one)), ZOOKEEPER, kind, one.path, one
        return
    key = digest(encode_command(command))
    yield key, channel_of(command), kind_of(command), _target(command), command


def channel_of(command: Command) -> str:
    """The destination of a command."""
    match command:
        case WriteZnodes() | WriteAtomically():
            return ZOOKEEPER
        case StartTimer(timer=timer) | CancelTimer(timer=timer):
            return f"timer {timer}"
        case OpenChannel(broker=broker) | CloseChannel(broker=broker):
            return f"broker {broker}"
        case _ if isinstance(command, BrokerRequest):
            return f"broker {command.broker}"
        case Stop():
            return "daemon"
        case _:
            return target_of(command)


def _target(command: Command) -> str:
    if isinstance(command, WriteAtomically):
        paths = [one.path for one in command.operations if not isinstance(one, Check)]
        return ", ".join(paths)
    return target_of(command)


def _content(part: Command | WriteOperation, command: Command) -> dict[str, Any]:
    content: dict[str, Any] = plain_object(part)
    if isinstance(command, WriteZnodes):
        content["is_guarded"] = command.epoch_version is not None
    return content


def _choices(reason: Reason) -> list[dict[str, Any]]:
    return [plain_object(one) for one in reason.choices]
