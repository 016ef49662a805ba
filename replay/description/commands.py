"""A command in words."""

import re
from collections.abc import Callable, Sequence
from typing import Final, assert_never

from controller.core import commands, znodes
from controller.core.api_requests import ApiResponse
from controller.core.errors import ZnodeError
from controller.core.operations import (
    Check,
    Create,
    CreateSequential,
    Delete,
    SetData,
    WriteOperation,
)
from controller.core.values import ANY_VERSION
from controller.core.znodes.config import read_config
from replay.description.api_requests import response_lines
from replay.description.phrases import broker_list, first_few, in_one_line, state_in_words
from replay.times import iso_time

PlainCommand = (
    commands.OpenChannel
    | commands.CloseChannel
    | commands.ProbeBroker
    | commands.Notice
    | commands.DrawTopicIds
    | commands.DrawNumbers
    | commands.StartTimer
    | commands.CancelTimer
    | commands.ThrottleClient
    | commands.DelayResponse
    | commands.Stop
)
"""All commands but those about znodes, requests to brokers and responses to API requests."""


def command_in_words(command: commands.Command) -> str:
    """A command in one line, with the first few of many parts."""
    match command:
        case commands.ReadZnodes(paths=paths):
            return f"read {first_few(paths)}"
        case commands.ReadStats(paths=paths):
            return f"look at {first_few(paths)}"
        case commands.ReadChildren(path=path):
            return f"list {path}"
        case commands.SyncZnodes(path=path):
            return f"sync {path}"
        case commands.WatchSubtree(path=path, ends=ends):
            return f"{'stop watching' if ends else 'watch'} all znodes below {path}"
        case commands.WriteZnodes(operations=operations):
            return first_few(operation_in_words(one, content) for one in operations)
        case commands.WriteAtomically(operations=operations):
            return f"multi: {first_few(operation_in_words(one, content) for one in operations)}"
        case commands.LeaderAndIsrRequest(broker=broker, partitions=partitions):
            return f"LeaderAndIsr to broker {broker}: {_partition_states(partitions)}"
        case commands.UpdateMetadataRequest(broker=broker, partitions=parts, live_brokers=live):
            brokers = broker_list([one.id for one in live])
            return (
                f"UpdateMetadata to broker {broker}: brokers {brokers}; {_partition_states(parts)}"
            )
        case commands.StopReplicaRequest(broker=broker, partitions=stopped):
            replicas = first_few(
                f"{one.topic}-{one.partition}{' and delete it' if one.delete else ''}"
                for one in stopped
            )
            return f"StopReplica to broker {broker}: {replicas}"
        case _ if isinstance(command, ApiResponse):
            return in_one_line(response_lines(command, only_errors=True))
        case _:
            return plain_command_in_words(command)


def _partition_states(
    partitions: Sequence[commands.LeaderAndIsrPartition | commands.UpdateMetadataPartition],
) -> str:
    return first_few(
        f"{one.topic}-{one.partition} {state_in_words(one.leadership)}" for one in partitions
    )


def plain_command_in_words(command: PlainCommand) -> str:
    """A command about channels, timers, draws, waiting requests or the operator."""
    match command:
        case commands.OpenChannel(broker=broker, broker_epoch=epoch, endpoint=endpoint):
            return f"open channel to {broker} epoch {epoch} at {endpoint.host}:{endpoint.port}"
        case commands.CloseChannel(broker=broker, broker_epoch=epoch):
            return f"close channel to {broker} epoch {epoch}"
        case commands.ProbeBroker(broker=broker, broker_epoch=epoch, endpoint=endpoint):
            return f"probe broker {broker} epoch {epoch} at {endpoint.host}:{endpoint.port}"
        case commands.Notice(level=level, code=code, subject=subject, text=text):
            return f"{level} {code} {subject}: {text}"
        case commands.DrawTopicIds(count=count):
            return f"draw {count} topic ids"
        case commands.DrawNumbers(bounds=bounds):
            return f"draw numbers below {' '.join(map(str, bounds))}"
        case commands.StartTimer(timer=timer, delay_ms=delay_ms):
            return f"start timer {timer} of {delay_ms} ms"
        case commands.ThrottleClient(request=request, until_ms=until_ms):
            until = iso_time(until_ms * 1_000_000)
            return f"the client of request {request} is throttled until {until}"
        case commands.DelayResponse(request=request):
            return f"request {request} is answered later"
        case commands.CancelTimer(timer=timer):
            return f"cancel timer {timer}"
        case commands.Stop(reason=reason):
            return f"stop: {reason or 'as requested'}"
        case _:
            assert_never(command)


def operation_in_words(one: WriteOperation, content_of: Callable[[str, bytes], str]) -> str:
    """A write to a znode; `content_of` describes the data that is written to a path."""
    match one:
        case Create(path=path, data=data, ephemeral=ephemeral):
            return f"create {'ephemeral ' if ephemeral else ''}{path}{content_of(path, data)}"
        case CreateSequential(path=path, data=data):
            return f"create sequential {path}{content_of(path, data)}"
        case SetData(path=path, data=data, version=version):
            return f"set {path}{_expected_version(version)}{content_of(path, data)}"
        case Delete(path=path, version=version):
            return f"delete {path}{_expected_version(version)}"
        case Check(path=path, version=version):
            return f"check {path} version {version}"


def _expected_version(version: int) -> str:
    return "" if version == ANY_VERSION else f", expected version {version}"


_LIMIT: Final = re.compile(
    r".*\.replication\.throttled\.(?:replicas|rate)|.*\.max\.bytes\.per\.second"
    r"|min\.insync\.replicas|unclean\.leader\.election\.enable"
    r"|(?:producer|consumer)_byte_rate|request_percentage|controller_mutation_rate"
)


def content(path: str, data: bytes | None) -> str:
    """The content of a partition's state znode, or the limits in a configuration; "" for other
    znodes."""
    if path.startswith(f"{znodes.CONFIGS}/"):
        return _limits(path, data)
    if znodes.partition_of_state(path) is None:
        return ""
    try:
        return f" ({state_in_words(znodes.read_state(path, data, 0))})"
    except ZnodeError:
        return ""


def _limits(path: str, data: bytes | None) -> str:
    """The throttles, quotas and ISR settings of a configuration. Other keys may be secret."""
    try:
        overrides = read_config(path, data)
    except ZnodeError:
        return ""
    shown = [f"{key}={one}" for key, one in sorted(overrides.items()) if _LIMIT.fullmatch(key)]
    return f" ({', '.join(shown)})" if shown else ""
