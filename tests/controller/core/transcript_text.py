"""A history of events and decisions as text, for the golden transcripts.

Each event is one line, followed by indented lines with its decisions. Equal requests to several
brokers are shown once. Answers of brokers that contain nothing new are left out.

    12 watch /brokers/ids children
         list /brokers/ids and watch it [broker change]
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from controller.core.api_requests import ApiRequest, ApiResponse
from controller.core.commands import (
    BrokerRequest,
    Choice,
    Command,
    CommandId,
    Issued,
    LeaderAndIsrRequest,
    Notice,
    ReadChildren,
    ReadStats,
    ReadZnodes,
    StopReplicaRequest,
    SyncZnodes,
    UpdateMetadataRequest,
    WatchSubtree,
    WriteAtomically,
    WriteZnodes,
    target_of,
)
from controller.core.error_codes import NONE, STALE_CONTROLLER_EPOCH
from controller.core.events import (
    BrokerResponded,
    ChildrenRead,
    Event,
    Recorded,
    SessionConnected,
    SessionDisconnected,
    SessionExpired,
    WatchFired,
    ZnodesRead,
    ZnodesWritten,
)
from controller.core.operations import (
    BAD_VERSION,
    CONNECTION_LOSS,
    FENCED,
    NO_NODE,
    NODE_EXISTS,
    NOT_EMPTY,
    OK,
    RUNTIME_INCONSISTENCY,
    SESSION_EXPIRED,
    WriteOperation,
)
from controller.core.values import NO_LEADER, RECOVERING, Assignment, LeaderAndIsr
from controller.kafka_0_8.commands import RecordCommand
from controller.kafka_0_8.events import RecordEvent
from replay.description.api_requests import request_lines, response_lines
from replay.description.commands import operation_in_words, plain_command_in_words
from replay.description.events import plain_event_lines
from replay.description.kafka_0_8 import broker_command_in_words, broker_event_in_words

_CODES: Final = {
    OK: "ok",
    RUNTIME_INCONSISTENCY: "not tried",
    CONNECTION_LOSS: "connection lost",
    NO_NODE: "no such znode",
    BAD_VERSION: "bad version",
    NODE_EXISTS: "exists",
    NOT_EMPTY: "not empty",
    SESSION_EXPIRED: "session expired",
    FENCED: "fenced",
}
_REQUESTS: Final = (LeaderAndIsrRequest, UpdateMetadataRequest, StopReplicaRequest)


def transcript(history: Iterable[tuple[Recorded, Sequence[Issued]]]) -> str:
    """The text of a part of a history; it ends with a newline."""
    lines: list[str] = []
    asked: dict[CommandId, Command] = {}
    term = None
    for recorded, issued in history:
        asked.update((one.id, one.command) for one in issued)
        event = recorded.event
        if not issued and _says_nothing(event):
            continue
        first, *more = _observed(event, asked)
        lines.append(f"{recorded.seq:3} {first}")
        lines += [f"      | {line}" for line in more]
        for one in _distinct(issued):
            if one[0].term != term:
                term = one[0].term
                lines.append(f"    -- controller epoch {term} --" if term else "    -- no role --")
            lines += [f"      {line}" for line in _decided(one)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


# Observations ---------------------------------------------------------------------------------


def _observed(event: Event, asked: dict[CommandId, Command]) -> list[str]:
    match event:
        case SessionConnected(session_id=id, renewed=renewed):
            return [f"session {id} {'is resumed' if renewed else 'begins'}"]
        case SessionDisconnected(session_id=id, cause=cause):
            return [f"session {id} lost its connection: {cause}"]
        case SessionExpired(session_id=id):
            return [f"session {id} is over"]
        case WatchFired(path=path, change=change):
            return [f"watch {path} {change}"]
        case ChildrenRead(command=command, error=error, children=children):
            listed = asked.get(command)
            path = listed.path if isinstance(listed, ReadChildren) else "?"
            return [f"listed {path}: {_CODES[error] if error else ' '.join(children) or 'nothing'}"]
        case ZnodesRead():
            return _read(event, asked.get(event.command))
        case ZnodesWritten():
            return _written(event, asked.get(event.command))
        case _ if isinstance(event, ApiRequest):
            return request_lines(event)
        case _ if isinstance(event, RecordEvent):
            return [broker_event_in_words(event)]
        case _:
            return plain_event_lines(event)


def _read(event: ZnodesRead, command: Command | None) -> list[str]:
    paths = command.paths if isinstance(command, (ReadZnodes, ReadStats)) else ()
    items = []
    for place, error in enumerate(event.errors):
        path = paths[event.offset + place] if paths else "?"
        data = event.data[place]
        text = "" if data is None else " " + data.decode("utf-8", "backslashreplace")
        found = f"version {event.versions[place]}{text}"
        items.append(f"{path}: {_CODES[error] if error else found}")
    return _one_or_many("read", items)


def _written(event: ZnodesWritten, command: Command | None) -> list[str]:
    match command:
        case WriteZnodes(operations=operations) | WriteAtomically(operations=operations):
            paths = [one.path for one in operations]
        case _:
            return [f"brought up to date: {_CODES[event.errors[0]]}"]
    items = [
        f"{paths[event.offset + place]}: "
        + (_CODES.get(error, f"code {error}") if error else _now_at(event.versions[place]))
        for place, error in enumerate(event.errors)
    ]
    return _one_or_many("written", items)


def _now_at(version: int) -> str:
    return "gone" if version < 0 else f"version {version}"


def _one_or_many(what: str, items: list[str]) -> list[str]:
    return [f"{what} {items[0]}"] if len(items) == 1 else [f"{what} {len(items)} znodes", *items]


# Decisions ------------------------------------------------------------------------------------


def _says_nothing(event: Event) -> bool:
    """Whether a broker carried out a request, or had done so before (KB 5.2.4)."""
    return (
        isinstance(event, BrokerResponded)
        and event.error == NONE
        and all(code == STALE_CONTROLLER_EPOCH for _, _, code in event.partition_errors)
    )


def _distinct(issued: Sequence[Issued]) -> Iterator[list[Issued]]:
    """Consecutive requests with the same content as one group; other commands one by one."""

    def key(pair: tuple[int, Issued]) -> object:
        place, one = pair
        return spell(one.command) if isinstance(one.command, _REQUESTS) else place

    for _, group in groupby(enumerate(issued), key):
        yield [one for _, one in group]


def _decided(alike: list[Issued]) -> list[str]:
    command, reason = alike[0].command, alike[0].reason
    head, *more = spell(command)
    if isinstance(command, _REQUESTS):
        head += f" to {', '.join(target_of(one.command).split()[-1] for one in alike)}"
    if isinstance(command, Notice):
        # The text of a notice has its code, and the candidates of a failed election.
        return [head, *(f"  {line}" for line in more)]
    head += f" [{reason.rule}]"
    return [head, *(f"  {line}" for line in more), *(f"  > {_choice(c)}" for c in reason.choices)]


def _choice(choice: Choice) -> str:
    chosen = "no leader" if choice.chosen == NO_LEADER else f"leader {choice.chosen}"
    passed = ", ".join(f"{replica} {why}" for replica, why in choice.passed_over)
    text = f"{choice.topic}-{choice.partition}: {chosen}, {choice.code}"
    return f"{text}; passed over: {passed}" if passed else text


def spell(command: Command) -> list[str]:
    """A command in words, then a line for each part. The text of a request does not name the
    broker, so that equal requests of one batch have equal texts."""
    match command:
        case ReadZnodes(paths=paths, watch=watch):
            return [f"read {_paths(paths)}{_watching(watch)}"]
        case ReadStats(paths=paths, watch=watch):
            return [f"look for {_paths(paths)}{_watching(watch)}"]
        case ReadChildren(path=path, watch=watch):
            return [f"list {path}{_watching(watch)}"]
        case WriteZnodes(operations=operations, epoch_version=version):
            guard = "" if version is None else f" while /controller_epoch has version {version}"
            return [f"write{guard}", *_writes(operations)]
        case WriteAtomically(operations=operations):
            return ["write all or nothing", *_writes(operations)]
        case SyncZnodes(path=path):
            return [f"sync {path}"]
        case WatchSubtree(path=path, ends=ends):
            return [f"{'end the watch of' if ends else 'watch'} all below {path}"]
        case LeaderAndIsrRequest() | UpdateMetadataRequest() | StopReplicaRequest():
            return _request(command)
        case _ if isinstance(command, ApiResponse):
            return response_lines(command)
        case _ if isinstance(command, RecordCommand):
            return [broker_command_in_words(command)]
        case _:
            return [plain_command_in_words(command)]


def _request(request: BrokerRequest) -> list[str]:
    match request:
        case LeaderAndIsrRequest(version=version, partitions=partitions):
            return [
                f"LeaderAndIsr v{version}",
                *(
                    f"{one.topic}-{one.partition} {spell_state(one.leadership)}"
                    f" {_assignment(one.assignment)}{' new' if one.is_new else ''}"
                    for one in partitions
                ),
            ]
        case UpdateMetadataRequest(version=version, partitions=updated, live_brokers=live):
            return [
                f"UpdateMetadata v{version}",
                f"live {_ids([one.id for one in live])}",
                *(
                    f"{one.topic}-{one.partition} {spell_state(one.leadership)}"
                    f" replicas {_ids(one.replicas)} offline {_ids(one.offline_replicas)}"
                    for one in updated
                ),
            ]
        case StopReplicaRequest(version=version, partitions=stopped):
            return [
                f"StopReplica v{version}",
                *(
                    f"{one.topic}-{one.partition} e {one.leader_epoch}"
                    f"{' delete' if one.delete else ''}"
                    for one in stopped
                ),
            ]


def spell_state(state: LeaderAndIsr) -> str:
    """The state of a partition as in the scenario tables: leader, e, ISR, v, controller epoch."""
    recovering = " recovering" if state.recovery_state == RECOVERING else ""
    return (
        f"leader {state.leader} e {state.leader_epoch} isr {_ids(state.isr)}"
        f" v {state.partition_epoch} ce {state.controller_epoch}{recovering}"
    )


def _writes(operations: tuple[WriteOperation, ...]) -> list[str]:
    return [operation_in_words(one, _whole) for one in operations]


def _whole(path: str, data: bytes) -> str:
    return f" {data.decode()}".rstrip()


def _paths(paths: tuple[str, ...]) -> str:
    return ", ".join(paths) or "nothing"


def _watching(watch: bool) -> str:
    return " and watch" if watch else ""


def _ids(brokers: Iterable[int]) -> str:
    return "[" + ",".join(map(str, brokers)) + "]"


def _assignment(one: Assignment) -> str:
    text = f"replicas {_ids(one.replicas)}"
    for word, replicas in (("adding", one.adding), ("removing", one.removing)):
        if replicas:
            text += f" {word} {_ids(replicas)}"
    return text
