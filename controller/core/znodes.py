"""Every znode of Kafka that the controller reads or writes: its path and its JSON (KB 1.1, 1.2).

The readers raise ZnodeError with the path for content that cannot be used; the writers give the
bytes that Kafka's own classes would give, but for the order of keys, which Kafka leaves open.
"""

import base64
import re
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta, Struct

from controller.core.errors import ZnodeError
from controller.core.values import RECOVERED, Assignment, Broker, Endpoint, LeaderAndIsr

CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
BROKER_IDS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"
ISR_CHANGES: Final = "/isr_change_notification"
LOG_DIR_EVENTS: Final = "/log_dir_event_notification"
FEATURE: Final = "/feature"
MIGRATION: Final = "/migration"
TOPIC_CONFIGS: Final = "/config/topics"
BROKER_CONFIGS: Final = "/config/brokers"
CONFIG_CHANGES: Final = "/config/changes"
REASSIGN_PARTITIONS: Final = "/admin/reassign_partitions"
PREFERRED_ELECTION: Final = "/admin/preferred_replica_election"
DELETE_TOPICS: Final = "/admin/delete_topics"

PRODUCER_IDS: Final = "/latest_producer_id_block"

DATA_BYTES_MAX: Final = 1_000_000
"""Of a znode: what a server takes at once, below jute.maxbuffer, 1 MiB where it is not set."""

_SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PORT_MAX: Final = 65535
_INT_MAX: Final = 2**31 - 1
_STATE_PATH: Final = re.compile(rf"{TOPICS}/([^/]+)/partitions/([0-9]+)/state")
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)
_TOPIC_ID: Final = re.compile(r"[A-Za-z0-9_-]{22}(==)?", re.ASCII)

Int32 = Annotated[int, Meta(ge=-(2**31), le=_INT_MAX)]
Epoch = Annotated[int, Meta(ge=-1, le=_INT_MAX - 1)]
"""An epoch that can be raised."""
Port = Annotated[int, Meta(ge=-1, le=65535)]
Replicas = tuple[Int32, ...]
"""Kafka takes any id, also one that no broker can have."""

_SEQUENCED: Final = {
    ISR_CHANGES: "isr_change_",
    LOG_DIR_EVENTS: "log_dir_event_",
    CONFIG_CHANGES: "config_change_",
}


CONFIG_CHANGE_PREFIX: Final = f"{CONFIG_CHANGES}/{_SEQUENCED[CONFIG_CHANGES]}"
"""What the path of a notification of changed configurations begins with; a number follows."""

T = TypeVar("T")


def decoded(decoder: msgspec.json.Decoder[T], path: str, what: str, data: bytes | None) -> T:
    """The content of a znode. Raises ZnodeError."""
    try:
        return decoder.decode(data or b"")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ZnodeError(f"{path} cannot be read as {what}: {error}") from error


def broker_path(broker: int) -> str:
    """Where a broker registers."""
    return f"{BROKER_IDS}/{broker}"


def topic_path(topic: str) -> str:
    """Where a topic's assignment stands."""
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    """The parent of a topic's partitions."""
    return f"{TOPICS}/{topic}/partitions"


def partition_path(topic: str, partition: int) -> str:
    """The parent of a partition's state."""
    return f"{TOPICS}/{topic}/partitions/{partition}"


def state_path(topic: str, partition: int) -> str:
    """Where a partition's leader and ISR stand."""
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def topic_config_path(topic: str) -> str:
    """Where a topic's configuration overrides stand."""
    return f"{TOPIC_CONFIGS}/{topic}"


def broker_config_path(broker: int | None) -> str:
    """Where the dynamic configuration of a broker stands; None: of all brokers."""
    return f"{BROKER_CONFIGS}/{'<default>' if broker is None else broker}"


def delete_topic_path(topic: str) -> str:
    """The marker of a topic that shall be deleted."""
    return f"{DELETE_TOPICS}/{topic}"


def state_of(path: str) -> tuple[str, int] | None:
    """The partition whose state znode this path is; None for any other path."""
    found = _STATE_PATH.fullmatch(path)
    number = _number(found[2]) if found else None
    return (found[1], number) if found and number is not None else None


# /controller and /controller_epoch ------------------------------------------------------------


class ControllerZnode(Struct, frozen=True):
    """The content of /controller. Only `brokerid` is needed to read it."""

    brokerid: Int32
    kraftControllerEpoch: Int32 = -1


_controller_decoder = msgspec.json.Decoder(ControllerZnode)


def read_controller(data: bytes | None) -> ControllerZnode | None:
    """Who is controller; None for content that cannot be used, as in Kafka (ControllerZNode)."""
    try:
        return _controller_decoder.decode(data or b"")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def write_controller(broker: int, wall_ms: int) -> bytes:
    """The content of /controller as Kafka 3.9 writes it; the timestamp is a string of ms."""
    return (
        f'{{"version":2,"brokerid":{broker},"timestamp":"{wall_ms}","kraftControllerEpoch":-1}}'
    ).encode()


def read_controller_epoch(data: bytes | None) -> int:
    """The controller epoch: decimal text. Raises ZnodeError."""
    text = (data or b"").decode("ascii", "replace")
    number = _number(text)
    if number is None or number == _INT_MAX:
        raise ZnodeError(f"{CONTROLLER_EPOCH} holds {text[:40]!r}, not an epoch: mend the znode")
    return number


def _number(text: str) -> int | None:
    """A natural number of 32 bits in its only spelling; None for anything else."""
    if not _NUMBER.fullmatch(text) or int(text) > _INT_MAX:
        return None
    return int(text)


def is_broker_id(text: str) -> bool:
    """Whether the name of a znode is a broker id."""
    return _number(text) is not None


# /brokers/ids/N -------------------------------------------------------------------------------


class _BrokerZnode(Struct, frozen=True):
    version: Int32
    host: str | None = None
    port: Port = -1
    endpoints: list[str] | None = None
    rack: str | None = None
    listener_security_protocol_map: dict[str, str] = {}


_broker_decoder = msgspec.json.Decoder(_BrokerZnode)


def read_broker(broker: int, data: bytes | None, epoch: int) -> Broker:
    """A broker's registration (BrokerIdZNode.decode). Raises ZnodeError."""
    path = broker_path(broker)
    znode = decoded(_broker_decoder, path, "a broker", data)
    if znode.version < 1:
        raise ZnodeError(f"{path}: version {znode.version} is not known")
    if znode.version == 1 or znode.endpoints is None:
        if znode.host is None or znode.port < 0:
            raise ZnodeError(f"{path}: neither endpoints nor a host and port")
        endpoints: tuple[Endpoint, ...] = (
            Endpoint("PLAINTEXT", "PLAINTEXT", znode.host, znode.port),
        )
    else:
        protocols = znode.listener_security_protocol_map
        endpoints = tuple(_endpoint(path, one, protocols) for one in znode.endpoints)
    return Broker(broker, epoch, endpoints, znode.rack)


def registration_version(data: bytes | None) -> int:
    """The version of a registration that `read_broker` has read."""
    return _broker_decoder.decode(data or b"").version


def _endpoint(path: str, text: str, protocols: dict[str, str]) -> Endpoint:
    listener, found, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    number = _number(port)
    if not found or not colon or number is None or number > _PORT_MAX:
        raise ZnodeError(f"{path}: endpoint {text[:80]!r} is not LISTENER://host:port")
    # A map that lacks the listener: its name is the protocol's (Kafka's default map).
    protocol = protocols.get(listener, listener)
    if protocol not in _SECURITY_PROTOCOLS:
        raise ZnodeError(f"{path}: listener {listener} has no known security protocol")
    return Endpoint(listener, protocol, host.strip("[]"), number)


# /brokers/topics/T ----------------------------------------------------------------------------


class _TopicZnode(Struct, frozen=True):
    partitions: dict[str, Replicas] = {}
    adding_replicas: dict[str, Replicas] = {}
    removing_replicas: dict[str, Replicas] = {}
    topic_id: str | None = None


class TopicContent(Struct, frozen=True):
    """What a topic's znode says: assignments by partition number, sorted, and the topic id."""

    assignments: dict[int, Assignment] = {}
    topic_id: bytes | None = None


_topic_decoder = msgspec.json.Decoder(_TopicZnode)


def read_topic(topic: str, data: bytes | None) -> TopicContent:
    """A topic's assignments (TopicZNode.decode). Raises ZnodeError.

    Kafka reads content that is no JSON as a topic without partitions; callers do the same, and
    tell the operator.
    """
    path = topic_path(topic)
    znode = decoded(_topic_decoder, path, "a topic", data)
    numbers: list[tuple[int, str]] = []
    for key in znode.partitions:
        number = _number(key)
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


# /brokers/topics/T/partitions/P/state ---------------------------------------------------------


class _StateZnode(Struct, frozen=True, gc=False):
    leader: Annotated[int, Meta(ge=-1, le=_INT_MAX)]
    leader_epoch: Epoch
    controller_epoch: Epoch
    isr: Replicas
    leader_recovery_state: Annotated[int, Meta(ge=0, le=1)] = RECOVERED


_state_decoder = msgspec.json.Decoder(_StateZnode)


def read_state(path: str, data: bytes | None, version: int) -> LeaderAndIsr:
    """A partition's leader and ISR (TopicPartitionStateZNode.decode). Raises ZnodeError."""
    znode = decoded(_state_decoder, path, "a partition state", data)
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


# Notifications --------------------------------------------------------------------------------


class _PartitionName(Struct, frozen=True):
    topic: str
    partition: Int32


class PartitionNames(Struct, frozen=True):
    """A list of partitions by name, as several znodes hold it."""

    partitions: list[_PartitionName]


names_decoder = msgspec.json.Decoder(PartitionNames)


def notification_path(parent: str, child: str) -> str:
    """The path of a notification below ISR_CHANGES, LOG_DIR_EVENTS or CONFIG_CHANGES."""
    return f"{parent}/{child}"


def is_notification(parent: str, child: str) -> bool:
    """Whether a child's name is that of a sequential notification."""
    return child.startswith(_SEQUENCED[parent])


def read_isr_change(path: str, data: bytes | None) -> list[tuple[str, int]]:
    """The partitions that an ISR notification names. Raises ZnodeError."""
    names = decoded(names_decoder, path, "an ISR notification", data)
    return [(one.topic, one.partition) for one in names.partitions]


class _LogDirEvent(Struct, frozen=True):
    broker: Int32


_log_dir_decoder = msgspec.json.Decoder(_LogDirEvent)


def read_log_dir_event(path: str, data: bytes | None) -> int:
    """The broker with a failed log directory. Raises ZnodeError."""
    return decoded(_log_dir_decoder, path, "a log directory event", data).broker


class _ConfigChange(Struct, frozen=True):
    entity_path: str


_config_change_decoder = msgspec.json.Decoder(_ConfigChange)


def read_config_change(path: str, data: bytes | None) -> str:
    """The entity whose configuration changed, such as "topics/t". Raises ZnodeError."""
    return decoded(_config_change_decoder, path, "a configuration change", data).entity_path


def write_config_change(entity: str) -> bytes:
    """The content of a notification that an entity such as "users/u" has other configurations
    (ConfigEntityChangeNotificationSequenceZNode.encode)."""
    return msgspec.json.encode({"version": 2, "entity_path": entity})


# /latest_producer_id_block --------------------------------------------------------------------


class ProducerIds(Struct, frozen=True):
    """A block of producer ids, both bounds inclusive, and the broker that it was given to."""

    broker: int
    first: int
    last: int


class _ProducerIdsZnode(Struct, frozen=True):
    broker: Int32
    block_start: str
    block_end: str


_producer_ids_decoder = msgspec.json.Decoder(_ProducerIdsZnode)


def read_producer_ids(data: bytes) -> ProducerIds:
    """The last block that was given out (ProducerIdBlockZNode). Raises ZnodeError."""
    try:
        znode = _producer_ids_decoder.decode(data)
        return ProducerIds(znode.broker, int(znode.block_start), int(znode.block_end))
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise ZnodeError(f"{PRODUCER_IDS} cannot be read: {error}: mend the znode") from error


def write_producer_ids(block: ProducerIds) -> bytes:
    """The block's znode; the bounds are strings."""
    return (
        f'{{"version":1,"broker":{block.broker},'
        f'"block_start":"{block.first}","block_end":"{block.last}"}}'
    ).encode()


# /feature and /config/topics/T ----------------------------------------------------------------


class Features(Struct, frozen=True):
    """The content of /feature: `levels` maps a feature to its finalized max version level."""

    enabled: bool
    levels: dict[str, int] = {}
    version: int = 2


class _Level(Struct, frozen=True):
    max_version_level: Int32
    min_version_level: Int32 | None = None


class _FeatureZnode(Struct, frozen=True):
    version: Int32
    status: Int32
    features: dict[str, _Level]


_feature_decoder = msgspec.json.Decoder(_FeatureZnode)


def read_features(data: bytes | None) -> Features:
    """The content of /feature (FeatureZNode.decode, KB 1.2 item 10). Raises ZnodeError."""
    znode = decoded(_feature_decoder, FEATURE, "features", data)
    if znode.version not in (1, 2) or znode.status not in (0, 1):
        raise ZnodeError(f"{FEATURE}: version {znode.version}, status {znode.status} not known")
    for name, level in znode.features.items():
        lowest = level.min_version_level if znode.version == 1 else 1
        if lowest is None or lowest < 1 or level.max_version_level < lowest:
            raise ZnodeError(f"{FEATURE}: the levels of feature {name!r} make no sense")
    levels = {name: level.max_version_level for name, level in sorted(znode.features.items())}
    return Features(znode.status == 1, levels, znode.version)


def write_features(features: Features) -> bytes:
    """The content of /feature: version 2, or 1 below IBP 3.3-IV0."""
    one = features.version == 1
    levels = {
        name: {"min_version_level": 1, "max_version_level": level}
        if one
        else {"max_version_level": level}
        for name, level in features.levels.items()
    }
    znode = {"version": features.version, "status": int(features.enabled), "features": levels}
    return msgspec.json.encode(znode)


class _ConfigZnode(Struct, frozen=True):
    config: dict[str, str] = {}


_config_decoder = msgspec.json.Decoder(_ConfigZnode)


def read_config(path: str, data: bytes | None) -> dict[str, str]:
    """The overrides of /config/topics/T; none where there is no data. Raises ZnodeError."""
    return decoded(_config_decoder, path, "a configuration", data).config if data else {}


def write_config(overrides: dict[str, str]) -> bytes:
    """The content of /config/topics/T (ConfigEntityZNode.encode)."""
    return msgspec.json.encode({"version": 1, "config": overrides})
