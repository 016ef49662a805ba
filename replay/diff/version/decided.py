"""What counts as a decision: writes, requests to brokers and their channels, answers, timers, and
that a controller event failed.

Reads are not decisions, nor are draws and other notices: how a version finds out what it has to do
may change. Each write of a bulk is one decision, whatever others it is sent with.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from controller.core.canonical import digest, encode_command, kind_of
from controller.core.commands import (
    AnswerLater,
    CancelTimer,
    CloseChannel,
    Command,
    CommandId,
    DrawNumbers,
    DrawTopicIds,
    Issued,
    LeaderAndIsrRequest,
    Notice,
    OpenChannel,
    ReadChildren,
    ReadStats,
    ReadZnodes,
    Reason,
    StartTimer,
    Stop,
    StopReplicaRequest,
    SyncZnodes,
    UpdateMetadataRequest,
    WriteAtomically,
    WriteZnodes,
    target_of,
)
from controller.core.operations import Check, WriteOperation
from replay.description.as_json import plain
from replay.diff.messages import Decision

ZOOKEEPER: Final = "zookeeper"
_NO_DECISIONS: Final = (
    ReadZnodes,
    ReadStats,
    ReadChildren,
    SyncZnodes,
    DrawTopicIds,
    DrawNumbers,
    AnswerLater,
)
FAILED: Final = "procedure_failed"
"""The kind of decision that dropping the rest of a controller event is."""
_encode: Final = msgspec.msgpack.Encoder().encode


class Deciding:
    """Collects what is decided. `known` are the keys of what needs no content."""

    def __init__(self, *, with_contents: bool = False, known: bytes = b"") -> None:
        self._with_contents = with_contents
        self._known = {known[place : place + 16] for place in range(0, len(known), 16)}
        self.decisions: list[Decision] = []

    def take(
        self,
        issued: Iterable[Issued],
        seq: int,
        turn: int,
        time_ns: int,
        event: str,
        causes: Mapping[CommandId, str],
    ) -> None:
        """What was decided on one event of the version's own; `causes` are the controller events
        that were under way."""
        for one in issued:
            for key, channel, kind, target, said in parts_of(one.command):
                content: dict[str, Any] | None = None
                choices: list[dict[str, Any]] = []
                if self._with_contents and key not in self._known:
                    content, choices = _content(said, one.command), _choices(one.reason)
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
                        causes.get(one.id, ""),
                        content,
                        choices,
                    )
                )


Part = tuple[bytes, str, str, str, Command | WriteOperation]
"""Key, channel, kind, target, and what is said."""


def parts_of(command: Command) -> Iterator[Part]:
    """The decisions that a command is."""
    if isinstance(command, _NO_DECISIONS):
        return
    if isinstance(command, Notice):
        if command.code == FAILED:
            told = f"{command.subject}: {command.text}"
            yield digest(encode_command(command)), "controller", FAILED, told, command
        return
    if isinstance(command, WriteZnodes):
        for one in command.operations:
            kind = f"{one.__struct_config__.tag}"
            yield digest(_encode(one)), ZOOKEEPER, kind, one.path, one
        return
    key = digest(encode_command(command))
    yield key, channel_of(command), kind_of(command), _target(command), command


def channel_of(command: Command) -> str:
    """Where it goes."""
    match command:
        case WriteZnodes() | WriteAtomically():
            return ZOOKEEPER
        case StartTimer(timer=timer) | CancelTimer(timer=timer):
            return f"timer {timer}"
        case (
            LeaderAndIsrRequest()
            | UpdateMetadataRequest()
            | StopReplicaRequest()
            | OpenChannel()
            | CloseChannel()
        ):
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


def _content(said: Command | WriteOperation, command: Command) -> dict[str, Any]:
    content: dict[str, Any] = plain(said)
    if isinstance(command, WriteZnodes):
        content["is_guarded"] = command.epoch_version is not None
    return content


def _choices(reason: Reason) -> list[dict[str, Any]]:
    return [plain(one) for one in reason.choices]
