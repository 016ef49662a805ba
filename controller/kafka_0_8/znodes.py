"""Path and content of every znode of the design (docs/design-0.8.md#znodes).

Readers raise ZnodeError, whose text names the path and says what is wrong.
"""

import re
from typing import Final, Literal, NamedTuple

import msgspec
from msgspec import Struct

from controller.core.errors import ZnodeError
from controller.core.values import format_brokers

# Both designs have these znodes: other modules find them here.
from controller.core.znodes import BROKER_IDS as BROKER_IDS
from controller.core.znodes import BROKERS as BROKERS
from controller.core.znodes import TOPICS as TOPICS
from controller.core.znodes.schema import INT_MAX, Natural32, decode_znode, parse_natural

REASSIGNED: Final = f"{BROKERS}/partitions_reassigned"
EPOCH: Final = f"{BROKERS}/epoch"
STATE: Final = f"{BROKERS}/state"
NO_EPOCH_CONTENT: Final = b""
"""The content of /brokers/epoch if it was deleted and created again: the next leader derives the
epoch from the partitions (E-09)."""
PERSISTENT: Final = (BROKERS, BROKER_IDS, TOPICS, REASSIGNED, STATE)
"""The paths that exist before the first broker starts."""

_LIST: Final = "a list of broker ids such as 1,2,3"
_ADDRESS: Final = re.compile(r"[^\s:/]+:[0-9]{1,5}")
_REQUEST: Final = "request-"
_PARTITION: Final = re.compile(
    rf"({TOPICS}|{REASSIGNED})/([^/]+)/([0-9]{{1,10}})(?:/(replicas|leader|ISR))?"
)
_BROKER: Final = re.compile(rf"(?:{BROKER_IDS}|{STATE})/([0-9]{{1,10}})(?:/[^/]+)?")


class PartitionZnode(NamedTuple):
    """A znode by its path: its partition, and `kind`, which is the last part below /brokers/topics
    ("replicas", "leader", "ISR"), "partition" or "reassigned"."""

    name: tuple[str, int]
    kind: str


class LeaderZnode(NamedTuple):
    """The content of a leader znode."""

    broker: int
    epoch: int


class Isr(NamedTuple):
    """The content of an ISR znode, with the epoch of the leader that wrote it."""

    brokers: tuple[int, ...]
    epoch: int


class StateChange(Struct, frozen=True):
    """A request in the queue of a broker."""

    request: Literal["start-replica", "close-replica"]
    topic: str
    partition: Natural32


_state_changes = msgspec.json.Decoder(StateChange)

# Paths ------------------------------------------------------------------------------------------


def broker_path(broker: int) -> str:
    """The registration of a broker."""
    return f"{BROKER_IDS}/{broker}"


def state_path(broker: int) -> str:
    """The queue of a broker."""
    return f"{STATE}/{broker}"


def topic_path(topic: str) -> str:
    """The path of a topic."""
    return f"{TOPICS}/{topic}"


def partition_path(topic: str, partition: int) -> str:
    """The path of a partition."""
    return f"{TOPICS}/{topic}/{partition}"


def replicas_path(topic: str, partition: int) -> str:
    """The assigned replicas of a partition."""
    return f"{partition_path(topic, partition)}/replicas"


def leader_path(topic: str, partition: int) -> str:
    """The leader of a partition."""
    return f"{partition_path(topic, partition)}/leader"


def isr_path(topic: str, partition: int) -> str:
    """The in-sync replicas of a partition."""
    return f"{partition_path(topic, partition)}/ISR"


def reassigned_topic_path(topic: str) -> str:
    """The reassigned partitions of a topic."""
    return f"{REASSIGNED}/{topic}"


def reassigned_path(topic: str, partition: int) -> str:
    """The new replicas of a partition."""
    return f"{reassigned_topic_path(topic)}/{partition}"


def request_prefix(broker: int) -> str:
    """The path of a sequential request, without its number."""
    return f"{state_path(broker)}/{_REQUEST}"


def is_request(child: str) -> bool:
    """Whether a child of a state path is a request."""
    return child.startswith(_REQUEST)


def is_number(child: str) -> bool:
    """Whether a child is named as brokers and partitions are."""
    return parse_natural(child) is not None


def partition_of_leader(path: str) -> tuple[str, int] | None:
    """The partition whose leader znode this is; None for another path."""
    found = partition_znode(path)
    return found.name if found is not None and found.kind == "leader" else None


def partition_of_replicas(path: str) -> tuple[str, int] | None:
    """The partition whose replicas znode this is; None for another path."""
    found = partition_znode(path)
    return found.name if found is not None and found.kind == "replicas" else None


def partition_znode(path: str) -> PartitionZnode | None:
    """The kind of a partition's znode; None for another path."""
    found = _PARTITION.fullmatch(path)
    number = parse_natural(found[3]) if found is not None else None
    if found is None or number is None:
        return None
    kind = found[4] or "partition" if found[1] == TOPICS else "reassigned"
    return PartitionZnode((found[2], number), kind)


def topic_of(path: str) -> str | None:
    """The topic whose znode this is; None for another path."""
    parent, _, name = path.rpartition("/")
    return name if parent == TOPICS else None


def broker_of(path: str) -> int | None:
    """The broker whose registration, queue or request this is; None for another path."""
    found = _BROKER.fullmatch(path)
    return parse_natural(found[1]) if found is not None else None


# Content ----------------------------------------------------------------------------------------


def read_brokers(path: str, data: bytes | None) -> tuple[int, ...]:
    """Parse a list of replicas. Raises ZnodeError."""
    return _brokers(path, _text(path, data, _LIST), _LIST)


def read_leader(path: str, data: bytes | None) -> LeaderZnode:
    """A leader and its epoch."""
    what = "a broker id and a leader epoch such as 1;7"
    broker, _, epoch = _text(path, data, what).partition(";")
    return LeaderZnode(_number(path, broker, what), _number(path, epoch, what))


def read_isr(path: str, data: bytes | None) -> Isr:
    """The in-sync replicas and the epoch of the leader that wrote them."""
    what = "broker ids and a leader epoch such as 1,2;7"
    brokers, _, epoch = _text(path, data, what).partition(";")
    return Isr(_brokers(path, brokers, what), _number(path, epoch, what))


def read_epoch(data: bytes | None) -> int:
    """The epoch of the newest leader."""
    what = "an epoch that can be incremented"
    epoch = _number(EPOCH, _text(EPOCH, data, what), what)
    if epoch == INT_MAX:
        raise ZnodeError(f"{EPOCH} cannot be read as {what}: it has the highest value, {epoch}")
    return epoch


def read_address(path: str, data: bytes | None) -> str:
    """The host and port of a broker."""
    what = "host:port of a broker"
    text = _text(path, data, what)
    if not _ADDRESS.fullmatch(text):
        raise ZnodeError(f"{path} cannot be read as {what}: {text[:80]!r}")
    return text


def read_state_change(path: str, data: bytes | None) -> StateChange:
    """A request in a queue."""
    return decode_znode(_state_changes, path, "a state change request", data)


def write_brokers(brokers: tuple[int, ...]) -> bytes:
    """The content of a znode with a list of replicas."""
    return format_brokers(brokers).encode()


def write_leader(leader: LeaderZnode) -> bytes:
    """A leader and its epoch."""
    return f"{leader.broker};{leader.epoch}".encode()


def write_isr(isr: Isr) -> bytes:
    """The in-sync replicas, and the epoch of the leader."""
    return write_brokers(isr.brokers) + f";{isr.epoch}".encode()


def write_epoch(epoch: int) -> bytes:
    """The content of a znode with an epoch."""
    return str(epoch).encode()


def write_state_change(change: StateChange) -> bytes:
    """A request in a queue."""
    return msgspec.json.encode(change)


def _text(path: str, data: bytes | None, what: str) -> str:
    try:
        return (data or b"").decode("ascii").strip()
    except UnicodeDecodeError:
        raise ZnodeError(f"{path} cannot be read as {what}: it has other characters") from None


def _number(path: str, text: str, what: str) -> int:
    number = parse_natural(text)
    if number is None:
        raise ZnodeError(f"{path} cannot be read as {what}: {text[:80]!r} is no number")
    return number


def _brokers(path: str, text: str, what: str) -> tuple[int, ...]:
    if not text:
        raise ZnodeError(f"{path} cannot be read as {what}: the list is empty")
    brokers = tuple(_number(path, one, what) for one in text.split(","))
    if len(dict.fromkeys(brokers)) < len(brokers):
        raise ZnodeError(f"{path} cannot be read as {what}: {text[:80]!r} names a broker twice")
    return brokers
