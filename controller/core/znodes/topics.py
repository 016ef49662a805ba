"""/brokers/topics/$topic and what is below it: assignments, leaders and ISRs."""

import base64
import re
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from controller.core.errors import ZnodeError
from controller.core.values import RECOVERED, Assignment, LeaderAndIsr
from controller.core.znodes.schema import (
    INT_MAX,
    Epoch,
    Name,
    Replicas,
    decode_znode,
    parse_natural,
)

TOPICS: Final = "/brokers/topics"

_STATE_PATH: Final = re.compile(rf"{TOPICS}/([^/]+)/partitions/([0-9]+)/state")
_TOPIC_ID: Final = re.compile(r"[A-Za-z0-9_-]{22}(==)?", re.ASCII)


def topic_path(topic: str) -> str:
    """Where a topic's assignment is stored."""
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    """The parent of a topic's partitions."""
    return f"{topic_path(topic)}/partitions"


def partition_path(topic: str, partition: int | str) -> str:
    """The parent of a partition's state."""
    return f"{partitions_path(topic)}/{partition}"


def state_path(topic: str, partition: int | str) -> str:
    """Where a partition's leader and ISR are stored."""
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def partition_of_state(path: str) -> Name | None:
    """The partition whose state znode this path is; None for any other path."""
    found = _STATE_PATH.fullmatch(path)
    number = parse_natural(found[2]) if found else None
    return (found[1], number) if found and number is not None else None


def topic_of(path: str) -> str | None:
    """The topic whose znode this path is; None for any other path."""
    name = path.removeprefix(f"{TOPICS}/")
    return name if name != path and "/" not in name else None


# /brokers/topics/$topic -------------------------------------------------------------------------


class _TopicZnode(Struct, frozen=True):
    partitions: dict[str, Replicas] = {}
    adding_replicas: dict[str, Replicas] = {}
    removing_replicas: dict[str, Replicas] = {}
    topic_id: str | None = None


class TopicContent(Struct, frozen=True):
    """The content of a topic's znode: assignments by partition number, sorted, and the topic id."""

    assignments: dict[int, Assignment] = {}
    topic_id: bytes | None = None


_topic_decoder = msgspec.json.Decoder(_TopicZnode)


def read_topic(topic: str, data: bytes | None) -> TopicContent:
    """A topic's assignments (TopicZNode.decode). Raises ZnodeError.

    Kafka reads content that is no JSON as a topic without partitions; callers do the same, and
    report it.
    """
    path = topic_path(topic)
    znode = decode_znode(_topic_decoder, path, "a topic", data)
    numbers: list[tuple[int, str]] = []
    for key in znode.partitions:
        number = parse_natural(key)
        if number is None:
            raise ZnodeError(f"{path}: {key[:40]!r} is no partition number")
        numbers.append((number, key))
    numbers.sort()
    adding, removing = znode.adding_replicas, znode.removing_replicas
    assignments = {
        number: Assignment(znode.partitions[key], adding.get(key, ()), removing.get(key, ()))
        for number, key in numbers
    }
    return TopicContent(assignments, _read_topic_id(path, znode.topic_id))


def _read_topic_id(path: str, text: str | None) -> bytes | None:
    if text is None:
        return None
    if not _TOPIC_ID.fullmatch(text):
        raise ZnodeError(f"{path}: topic_id {text[:40]!r} is not 16 bytes in base64url")
    return base64.urlsafe_b64decode(text[:22] + "==")


def write_topic(content: TopicContent) -> bytes:
    """A topic's znode, version 3 (TopicZNode.encode)."""
    partitions = content.assignments
    # A reassignment writes all of it again for each partition: the encoder makes text of numbers.
    znode: dict[str, Any] = {
        "version": 3,
        "partitions": {number: one.replicas for number, one in partitions.items()},
        "adding_replicas": {n: one.adding for n, one in partitions.items() if one.adding},
        "removing_replicas": {n: one.removing for n, one in partitions.items() if one.removing},
    }
    if content.topic_id is not None:
        znode["topic_id"] = write_topic_id(content.topic_id)
    return msgspec.json.encode(znode)


def write_topic_id(topic_id: bytes) -> str:
    """A topic id as Kafka writes it: 22 characters of base64url."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


# /brokers/topics/$topic/partitions/$partition/state ---------------------------------------------


class _StateZnode(Struct, frozen=True, gc=False):
    leader: Annotated[int, Meta(ge=-1, le=INT_MAX)]
    leader_epoch: Epoch
    controller_epoch: Epoch
    isr: Replicas
    leader_recovery_state: Annotated[int, Meta(ge=0, le=1)] = RECOVERED


_state_decoder = msgspec.json.Decoder(_StateZnode)


def read_state(path: str, data: bytes | None, version: int) -> LeaderAndIsr:
    """A partition's leader and ISR (TopicPartitionStateZNode.decode). Raises ZnodeError."""
    znode = decode_znode(_state_decoder, path, "a partition state", data)
    return LeaderAndIsr(
        znode.leader,
        znode.leader_epoch,
        znode.isr,
        version,
        znode.controller_epoch,
        znode.leader_recovery_state,
    )


def write_state(state: LeaderAndIsr) -> bytes:
    """A partition's state znode; the recovery state only while recovering."""
    isr = ",".join(map(str, state.isr))
    recovery = ""
    if state.recovery_state != RECOVERED:
        recovery = f',"leader_recovery_state":{state.recovery_state}'
    return (
        f'{{"version":1,"leader":{state.leader},"leader_epoch":{state.leader_epoch},'
        f'"controller_epoch":{state.controller_epoch},"isr":[{isr}]{recovery}}}'
    ).encode()
