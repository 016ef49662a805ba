"""Following the cluster as a standby: reads what a failover would read, and what has changed since
(docs/standby.md).
"""

from collections.abc import Iterator
from typing import Final

from controller.core import znodes
from controller.core.controller import Controller
from controller.core.errors import ZnodeError
from controller.core.operations import OK, UNIMPLEMENTED
from controller.core.outcomes import SLICE, suspend
from controller.core.pauses import SLICE_SIZE
from controller.core.procedures.topics.daemon_id import names_broker
from controller.core.standby import LISTS, KnownZnode, StandbyState, new_topic
from controller.core.state import Partition, Topic
from controller.core.triggers import Follow
from controller.core.values import counted
from controller.core.zookeeper_io import fetch_children, fetch_znodes, watch_subtree

_RULE = "standby"
_TOPICS_AT_ONCE: Final = 1_000


async def follow(controller: Controller) -> None:
    """Read what is not known or has changed, until another controller event waits."""
    standby = controller.standby
    if controller.is_active or standby.is_unsupported or not controller.configuration.standby:
        return
    if not standby.is_watching and not await _begin(controller, standby):
        return
    for step in (_read_lists, _read_single_znodes, _read_topics, _read_states):
        try:
            await step(controller, standby)
        except Exception:
            controller.forget_standby()
            controller.standby = _unsupported()
            raise
        if controller.standby is not standby:
            # The connection was lost: a new one begins with nothing.
            return
        if controller.triggers:
            controller.enqueue(Follow())
            return
    while standby.unprepared and not controller.triggers:
        standby.prepare_some(SLICE_SIZE)
        await suspend(SLICE)
    if standby.is_ready:
        return
    if standby.has_stale:
        controller.enqueue(Follow())
    else:
        standby.is_ready = True
        _report_ready(controller, standby)


def forget_all(controller: Controller) -> None:
    """Forget everything: it may have changed, or belongs to a term now. A standby reads it again
    if it has a session."""
    controller.forget_standby()
    if controller.configuration.standby and controller.session_id and not controller.is_active:
        controller.enqueue(Follow())


def _unsupported() -> StandbyState:
    """The state of a standby that follows nothing on this connection, because ZooKeeper cannot
    watch subtrees or following failed."""
    standby = StandbyState()
    standby.is_unsupported = True
    return standby


async def _begin(controller: Controller, standby: StandbyState) -> bool:
    """Watch the brokers and topics. Returns whether that was possible."""
    error = await watch_subtree(controller, znodes.BROKERS, _RULE)
    if controller.standby is not standby:
        return False
    if error == UNIMPLEMENTED:
        controller.standby = _unsupported()
        text = "ZooKeeper is older than 3.6: a take-over will read all znodes, as after a start"
        controller.notice("warning", "standby_reads_all", znodes.BROKERS, text)
        return False
    if error != OK:
        controller.standby = _unsupported()
        text = (
            f"{znodes.BROKERS} cannot be watched (ZooKeeper code {error}): a take-over reads all "
            "znodes"
        )
        controller.notice("error", "standby_reads_all", znodes.BROKERS, text)
        return False
    standby.is_watching = True
    standby.stale_children = dict.fromkeys(LISTS)
    standby.stale = dict.fromkeys(_single_znodes(controller))
    return True


def _single_znodes(controller: Controller) -> list[str]:
    """The znodes that a failover reads one by one."""
    return [
        znodes.CONTROLLER,
        znodes.CONTROLLER_EPOCH,
        znodes.FEATURE,
        znodes.PREFERRED_ELECTION,
        znodes.REASSIGN_PARTITIONS,
        znodes.broker_config_path(None),
        znodes.broker_config_path(controller.configuration.broker_id),
    ]


async def _read_lists(controller: Controller, standby: StandbyState) -> None:
    while standby.stale_children:
        path = next(iter(standby.stale_children))
        del standby.stale_children[path]
        standby.reading = {path: None}
        found = await fetch_children(controller, path, _RULE, watch=True)
        if controller.standby is not standby:
            return
        standby.reading = {}
        standby.children[path] = found.children
        if path == znodes.BROKER_IDS:
            _note_brokers(controller, standby, found.children)
        elif path == znodes.TOPICS:
            _note_topics(controller, standby, found.children)


def _note_brokers(controller: Controller, standby: StandbyState, names: list[str]) -> None:
    """Read new registrations; forget those of brokers that no longer exist."""
    own = controller.configuration.id_without_replicas
    ids = [int(one) for one in names if znodes.is_broker_id(one)]
    paths = dict.fromkeys(znodes.broker_path(id) for id in ids if id != own)
    prefix = f"{znodes.BROKER_IDS}/"
    for path in [one for one in standby.znodes if one.startswith(prefix) and one not in paths]:
        del standby.znodes[path]
        standby.stale.pop(path, None)
    standby.stale.update(dict.fromkeys(one for one in paths if one not in standby.znodes))


def _note_topics(controller: Controller, standby: StandbyState, names: list[str]) -> None:
    existing = dict.fromkeys(names)
    for name in [one for one in standby.topics if one not in existing]:
        controller.observer.drops_topics(standby.drop_topic(name))
    standby.stale_topics = {one: None for one in standby.stale_topics if one in existing}
    standby.stale_topics.update(dict.fromkeys(one for one in names if one not in standby.topics))


async def _read_single_znodes(controller: Controller, standby: StandbyState) -> None:
    paths, standby.stale = list(standby.stale), {}
    if not paths:
        return
    standby.reading = dict.fromkeys(paths)
    found = await fetch_znodes(controller, paths, _RULE, watch=True)
    if controller.standby is not standby:
        return
    standby.reading = {}
    for place, path in enumerate(paths):
        standby.znodes[path] = KnownZnode(
            found.errors[place],
            found.data[place],
            found.versions[place],
            found.czxids[place],
            found.mzxids[place],
            found.owners[place],
        )


async def _read_topics(controller: Controller, standby: StandbyState) -> None:
    while standby.stale_topics and not controller.triggers:
        names = list(standby.stale_topics)[:_TOPICS_AT_ONCE]
        for name in names:
            del standby.stale_topics[name]
        paths = [znodes.topic_path(name) for name in names]
        found = await fetch_znodes(controller, paths, _RULE, watch=True)
        if controller.standby is not standby:
            return
        for place, name in enumerate(names):
            controller.observer.drops_topics(standby.drop_topic(name))
            if found.errors[place] == OK:
                standby.topics[name] = None
                topic = _plain_topic(controller, name, found.data[place], found.versions[place])
                if topic is not None:
                    standby.put_topic(topic)
        await suspend(SLICE)


def _plain_topic(
    controller: Controller, name: str, data: bytes | None, version: int
) -> Topic | None:
    """The topic, if a failover would neither write nor report anything about its znode, nor look
    for a reassignment of its partitions."""
    try:
        content = znodes.read_topic(name, data)
    except ZnodeError:
        return None
    own = controller.configuration.id_without_replicas
    is_plain = (
        bool(content.assignments)
        and (content.topic_id is not None or not controller.protocol.has_topic_ids)
        and not any(
            one.is_being_reassigned or not one.replicas or names_broker(one, own)
            for one in content.assignments.values()
        )
    )
    return new_topic(name, content, version) if is_plain else None


async def _read_states(controller: Controller, standby: StandbyState) -> None:
    while standby.unread and not controller.triggers:
        partitions = list(_take_unread(standby))
        paths = [znodes.state_path(one.topic.name, one.number) for one in partitions]
        found = await fetch_znodes(controller, paths, _RULE)
        if controller.standby is not standby:
            return
        for place, partition in enumerate(partitions):
            name, number = partition.key
            partition.leadership = None
            if found.errors[place] == OK:
                _set_leadership(
                    controller, partition, paths[place], found.data[place], found.versions[place]
                )
            if partition.leadership is not None:
                standby.mzxids[name][number] = found.mzxids[place]
            else:
                standby.mzxids[name].pop(number, None)
                standby.unusable.setdefault(name, {})[number] = None
        await suspend(SLICE)


def _take_unread(standby: StandbyState) -> Iterator[Partition]:
    """Some of the partitions whose state has to be read, which no longer count as unread."""
    taken = 0
    while standby.unread and taken < SLICE_SIZE:
        name = next(iter(standby.unread))
        numbers = standby.unread.pop(name)
        topic = standby.topics[name]
        assert topic is not None, "only known topics have states to read"
        unusable = standby.unusable.get(name, {})
        for number in numbers:
            unusable.pop(number, None)
            if number in topic.partitions:
                taken += 1
                yield topic.partitions[number]


def _set_leadership(
    controller: Controller, partition: Partition, path: str, data: bytes | None, version: int
) -> None:
    """Take the leader and ISR, unless a failover has to report or to repair them."""
    try:
        state = znodes.read_state(path, data, version)
    except ZnodeError:
        return
    if controller.configuration.id_without_replicas not in state.isr:
        partition.leadership = state


def _report_ready(controller: Controller, standby: StandbyState) -> None:
    topics = [one for one in standby.topics.values() if one is not None]
    partitions = sum(len(one.partitions) for one in topics)
    text = (
        f"the standby knows {counted(len(standby.topics), 'topic')} with "
        f"{counted(partitions, 'partition')}, and follows their changes"
    )
    controller.notice("info", "standby_ready", znodes.CONTROLLER, text)
