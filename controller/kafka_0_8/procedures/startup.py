"""brokerStartup(), in the order of the design (S-01 to S-11)."""

from typing import Final

from controller.core.commands import Reason
from controller.core.operations import (
    CONNECTION_LOSS,
    NO_AUTH,
    NO_NODE,
    NODE_EXISTS,
    OK,
    RUNTIME_INCONSISTENCY,
    Check,
    Create,
    SetData,
    WriteOperation,
)
from controller.core.values import ANY_VERSION
from controller.core.znodes.schema import parse_natural
from controller.core.zookeeper_io import (
    fetch_stats,
    write,
    write_atomically,
)
from controller.kafka_0_8 import rules, znodes
from controller.kafka_0_8.broker import CHECKPOINT_TIMER, REGISTER_TIMER, STARTUP_TIMER, Broker
from controller.kafka_0_8.configuration import FIRST_RULES, SECOND_RULES, THIRD_RULES
from controller.kafka_0_8.procedures.reading import (
    children_of,
    children_of_each,
    read_znodes,
)
from controller.kafka_0_8.procedures.reassignment import read_reassignments
from controller.kafka_0_8.procedures.replicas import drain, start_replica
from controller.kafka_0_8.state import Name
from controller.kafka_0_8.triggers import Startup

_REGISTRATION_REFUSED: Final = "registration_refused"
_START_REFUSED: Final = "start_refused"
_NOTE_REFUSED: Final = "note_refused"
"""Codes of notices."""


async def broker_startup(broker: Broker) -> None:
    """Start the broker, or start it again in a new session (X-02)."""
    broker.unread, broker.kept = {}, {}
    create: list[WriteOperation] = [Create(znodes.state_path(broker.id))]
    written = await write(broker, create, Reason(rules.STATE_PATH))
    if written.errors[0] == NO_NODE:
        # The first broker of a cluster to which add-brokers has added none.
        create = [*map(Create, znodes.PERSISTENT), *create]
        await write(broker, create, Reason(rules.STATE_PATH))
    if broker.configuration.rules > SECOND_RULES and not await _note_start(broker):
        return
    await children_of(broker, znodes.state_path(broker.id), rules.WATCH_STATE, watch=True)
    text = "from here on, the broker starts again when this session ends"
    subject = f"session {broker.session_id}"
    broker.notice("info", "session_listener", subject, text, rules.SESSION_LISTENER)
    await drain(broker, rules.DRAIN)
    for name in await _assigned_partitions(broker):
        await start_replica(broker, name)
    interval_ms = broker.configuration.checkpoint_interval_ms
    broker.start_periodic(CHECKPOINT_TIMER, interval_ms, rules.CHECKPOINT)
    await register(broker)


async def _note_start(broker: Broker) -> bool:
    """Change the version of the state path (S-11). Leaders compare it before a replica of this
    broker joins an ISR (I-05). The content is the session id, so that a write whose reply was lost
    is recognized. Without it, the broker does not start, and tries it again."""
    path = znodes.state_path(broker.id)
    error = await _change_version(broker, rules.NOTE_START)
    if error == OK:
        broker.forget(path, _START_REFUSED)
        return True
    why = _why_refused(path, error)
    if error == NO_NODE and broker.configuration.rules > THIRD_RULES:
        why = f"{path} cannot be created (NoNode): create the chroot of --zookeeper"
    text = f"the broker does not start: {why}; it is tried again"
    rule, content = rules.NOTE_START, str(error).encode()
    broker.notice_once("error", _START_REFUSED, path, text, rule, content)
    broker.start_timer(STARTUP_TIMER, broker.configuration.retry_ms, rules.NOTE_START)
    return False


async def note_again(broker: Broker) -> None:
    """Another client has written or deleted the state path of this running broker: change its
    version again, so that fetches name the present one (S-13)."""
    rule, path = rules.NOTE_AGAIN, znodes.state_path(broker.id)
    found = await read_znodes(broker, [path], rule)
    if found.errors[0] == OK and found.versions[0] == broker.run:
        return
    error = await _change_version(broker, rule)
    if error != OK:
        why = _why_refused(path, error)
        if error == NO_NODE:
            why = f"the queue {path} was deleted: run add-brokers {broker.id}"
        text = f"replicas of this broker do not join ISRs: {why}; it is tried again"
        broker.notice_once("error", _NOTE_REFUSED, path, text, rule, str(error).encode())
        return
    broker.forget(path, _NOTE_REFUSED)
    was = repr((found.data[0] or b"")[:80].decode("utf-8", "backslashreplace"))
    text = (
        f"another client has written or deleted this znode (content: {was}): this broker has "
        "written it again, so that its replicas can join ISRs"
    )
    broker.notice("warning", "state_path_changed", path, text, rule)


async def _change_version(broker: Broker, rule: str) -> int:
    """Write the state path, and keep its new version. Returns ZooKeeper's code."""
    content = str(broker.session_id).encode()
    change: list[WriteOperation] = [SetData(znodes.state_path(broker.id), content, ANY_VERSION)]
    written = await write(broker, change, Reason(rule))
    if written.errors[0] == OK:
        broker.run = written.versions[0]
    return written.errors[0]


def _why_refused(path: str, error: int) -> str:
    if error == NO_AUTH:
        return f"the ACL of {path} does not allow to write it (NoAuth): correct the ACL"
    return f"ZooKeeper refused to write {path} (code {error})"


async def _assigned_partitions(broker: Broker, topics: list[str] | None = None) -> list[Name]:
    """The partitions with a replica on this broker (S-05), those of all topics or of these.
    Unreadable znodes are reported, and read again later (S-12)."""
    rule = rules.READ_ASSIGNED
    if topics is None:
        topics = await children_of(broker, znodes.TOPICS, rule)
        _read_denied_again(broker, [znodes.TOPICS])
    paths = list(map(znodes.topic_path, topics))
    children = await children_of_each(broker, paths, rule)
    _read_denied_again(broker, paths)
    names: list[Name] = []
    for topic, path in zip(topics, paths, strict=True):
        why = "is not named by a partition number"
        broker.report_children(path, children[path], znodes.is_number, why)
        names += [(topic, one) for one in map(parse_natural, children[path]) if one is not None]
    return await _assigned_among(broker, sorted(names))


def _read_denied_again(broker: Broker, paths: list[str]) -> None:
    for path in paths:
        if broker.is_denied(path):
            broker.read_again(path)


async def _assigned_among(broker: Broker, names: list[Name]) -> list[Name]:
    """The partitions among these that have a replica on this broker."""
    replicas = [znodes.replicas_path(*name) for name in names]
    found = await read_znodes(broker, replicas, rules.READ_ASSIGNED)
    assigned = []
    for name, path, error, data in zip(names, replicas, found.errors, found.data, strict=True):
        brokers = broker.read(znodes.read_brokers, path, data) if error == OK else ()
        if error == NO_AUTH or brokers is None:
            broker.read_again(path)
        elif broker.id in brokers:
            assigned.append(name)
    return assigned


async def read_again(broker: Broker) -> None:
    """Read what could not be read (S-12): carry out the requests that are found, start the
    replicas, and begin the reassignments."""
    unread, broker.unread = broker.unread, {}
    if any(path.startswith(znodes.STATE) for path in unread):
        await drain(broker, rules.READ_AGAIN)
    names = [name for name in map(znodes.partition_of_replicas, unread) if name is not None]
    topics = [path.removeprefix(f"{znodes.TOPICS}/") for path in unread]
    topics = [one for one in topics if one and "/" not in one]
    found = await _assigned_among(broker, sorted(names))
    if znodes.TOPICS in unread or topics:
        found += await _assigned_partitions(broker, None if znodes.TOPICS in unread else topics)
    for name in found:
        if not _is_started(broker, name):
            await start_replica(broker, name)
    if any(path.startswith(znodes.REASSIGNED) for path in unread):
        await read_reassignments(broker, rules.READ_AGAIN)


def _is_started(broker: Broker, name: Name) -> bool:
    partition = broker.partitions.get(name)
    return partition is not None and partition.is_open


async def register(broker: Broker, *, is_again: bool = False) -> None:
    """Register the broker id (S-08), or wait for an earlier session of it to end (S-09), which is
    reported once. If remove-brokers has deleted the queue, the broker starts again. `is_again`: the
    registration was tried before."""
    path = znodes.broker_path(broker.id)
    settings = broker.configuration
    address = f"{settings.host}:{settings.port}".encode()
    create: list[WriteOperation] = [
        Check(znodes.state_path(broker.id), ANY_VERSION),
        Create(path, address, ephemeral=True),
    ]
    while True:
        queue, error = await write_atomically(broker, create, Reason(rules.REGISTER))
        if error == OK:
            broker.forget(path, _REGISTRATION_REFUSED)
            return
        if error == CONNECTION_LOSS:
            continue
        if queue == NO_NODE:
            broker.enqueue(Startup())
            return
        found = await fetch_stats(broker, [path], rules.OLD_REGISTRATION, watch=True)
        if found.owners[0] == broker.session_id:
            return
        if error != NODE_EXISTS or found.errors[0] != NO_NODE:
            break
    if error != NODE_EXISTS and settings.rules != FIRST_RULES:
        _report_refused_registration(broker, queue, error)
        broker.start_timer(REGISTER_TIMER, settings.retry_ms, rules.REGISTER)
        return
    text = f"the id is not registered (ZooKeeper code {error}); it is tried again"
    if error == NODE_EXISTS:
        text = "another session has registered this id; it is registered when the znode is deleted"
    if not is_again:
        broker.notice("warning", "already_registered", path, text, rules.OLD_REGISTRATION)
    broker.start_timer(REGISTER_TIMER, settings.retry_ms, rules.OLD_REGISTRATION)


def _report_refused_registration(broker: Broker, queue: int, error: int) -> None:
    """`queue`: the code of the check of the queue; `error`: that of the creation."""
    path = znodes.broker_path(broker.id)
    denied = f"{znodes.state_path(broker.id)} does not allow to read it"
    code = queue
    if queue in (OK, RUNTIME_INCONSISTENCY):
        denied, code = f"{znodes.BROKER_IDS} does not allow to create {path}", error
    why = f"the ACL of {denied} (NoAuth): correct the ACL"
    if code != NO_AUTH:
        why = f"ZooKeeper refused the transaction (codes {queue} and {error})"
    text = f"the id is not registered: {why}; it is tried again"
    rule, content = rules.REGISTER, f"{queue} {error}".encode()
    broker.notice_once("error", _REGISTRATION_REFUSED, path, text, rule, content)
