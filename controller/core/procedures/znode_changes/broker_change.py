"""Brokers that register, disappear, restart and change (KB 3.3, 3.4, 9.1 to 9.4)."""

from itertools import groupby
from operator import attrgetter

from controller.core.controller import Controller
from controller.core.outcomes import SLICE, suspend
from controller.core.pauses import SLICE_SIZE, send_in_slices
from controller.core.prepared_topics import PreparedTopic, prepare_start
from controller.core.procedures.brokers.registration_checks import suspect_lost, trust
from controller.core.procedures.brokers.registrations import (
    close_channels,
    open_channels,
    read_brokers,
    read_registrations,
)
from controller.core.procedures.elections.partition_state_machine import (
    change_partitions,
    retry_offline_partitions,
)
from controller.core.procedures.elections.replica_state_machine import Replicas, change_replicas
from controller.core.procedures.elections.unsent_batches import REPLICAS
from controller.core.procedures.reassignment.initiation import resume_on_brokers
from controller.core.procedures.reassignment.replica_deletion import request_deletions_again
from controller.core.procedures.reassignment_znodes.cancel_znode import retry_waiting_rollbacks
from controller.core.procedures.topics.deletion import fail_deletion, resume_deletion_for
from controller.core.procedures.topics.topics import create_awaiting_partitions
from controller.core.state import ControllerContext, sorted_partitions
from controller.core.state_machines import PartitionState, ReplicaState
from controller.core.values import Broker

_RULE = "broker change"
STARTUP = "broker start-up"
FAILURE = "broker failure"
_NOTICE_TEXTS = {
    "broker_started": "broker {0} registered",
    "broker_bounced": "broker {0} registered again between two checks",
    "broker_failed": "the registration of broker {0} was deleted",
}


async def process_broker_change(controller: Controller) -> None:
    """Compare the registered brokers with the known ones (processBrokerChange, KB 3.3).

    New brokers first, then bounced brokers, then dead brokers. Until the dead brokers are handled,
    they still count as live (KB 3.3.7).
    """
    context = controller.context
    current = {broker.id: broker for broker in await read_brokers(controller, _RULE)}
    known = dict(context.brokers)
    new = [one for id, one in current.items() if id not in known]
    bounced = [one for id, one in current.items() if id in known and one.epoch > known[id].epoch]
    dead = sorted(id for id in known if id not in current)
    _report(controller, new, bounced, dead)
    open_channels(controller, new, _RULE)
    close_channels(controller, [one.id for one in bounced], _RULE)
    open_channels(controller, bounced, _RULE)
    close_channels(controller, dead, _RULE)
    trust(controller, [*new, *bounced])
    suspect_lost(controller, [known[id] for id in dead])
    if new:
        _register(context, new)
        await on_broker_startup(controller, [one.id for one in new])
        await create_awaiting_partitions(controller)
    if bounced:
        _unregister(context, [one.id for one in bounced])
        await on_broker_failure(controller, [one.id for one in bounced])
        _register(context, bounced)
        await on_broker_startup(controller, [one.id for one in bounced])
    if dead:
        _unregister(context, dead)
        await on_broker_failure(controller, dead)
    retry_waiting_rollbacks(controller)


def _report(
    controller: Controller, new: list[Broker], bounced: list[Broker], dead: list[int]
) -> None:
    came_and_went = {
        "broker_started": [one.id for one in new],
        "broker_bounced": [one.id for one in bounced],
        "broker_failed": dead,
    }
    for code, brokers in came_and_went.items():
        for broker in brokers:
            level = "info" if code == "broker_started" else "warning"
            text = _NOTICE_TEXTS[code].format(broker)
            controller.notice(level, code, f"broker {broker}", text)


def _register(context: ControllerContext, brokers: list[Broker]) -> None:
    for broker in brokers:
        context.brokers[broker.id] = broker


def _unregister(context: ControllerContext, brokers: list[int]) -> None:
    for broker in brokers:
        del context.brokers[broker]


async def process_broker_modification(controller: Controller, id: int) -> None:
    """A broker changed its registration: endpoints matter, the rack alone does not (KB 3.4)."""
    context = controller.context
    found = await read_registrations(controller, [id], "broker modifications")
    before = context.brokers.get(id)
    if not found or before is None or found[0].endpoints == before.endpoints:
        return
    now = found[0]
    context.brokers[id] = Broker(id, before.epoch, now.endpoints, now.rack)
    controller.send_metadata("broker modifications", context.brokers)


async def on_broker_startup(controller: Controller, new: list[int]) -> None:
    """Send metadata to the existing and the new brokers, bring replicas and partitions online (KB
    9.1)."""
    context = controller.context
    for broker in new:
        context.offline_dirs.pop(broker, None)
    existing = [broker for broker in context.brokers if broker not in new]
    controller.send_metadata(STARTUP, existing)
    prepared = await _inform_started(controller, new)
    request_deletions_again(controller, new)
    others = context.replicas_on(new, without=prepared)
    for one in prepared.values():
        one.bring_online()
    replicas = _with_prepared(others, prepared)
    await change_replicas(controller, replicas, ReplicaState.ONLINE, STARTUP, prepared=prepared)
    await retry_offline_partitions(controller, STARTUP)
    await resume_on_brokers(controller, new)
    # No prepared topic is being deleted.
    topics = {one.topic.name: None for partitions in others.values() for one in partitions}
    await resume_deletion_for(controller, topics)


async def _inform_started(controller: Controller, new: list[int]) -> dict[str, PreparedTopic]:
    """Send the new brokers all partitions.

    Returns what is sent when their replicas come online, for topics whose brokers are all live.
    """
    context = controller.context
    batch = controller.new_batch(STARTUP)
    batch.add_update_metadata(new, ())
    # Machines with unsent requests change no state.
    may_prepare = not context.offline_dirs and REPLICAS not in controller.unsent
    all_prepared: dict[str, PreparedTopic] = {}
    handled = 0
    for name, topic in context.topics.items():
        if name not in context.queued_for_deletion:
            prepared = None
            if may_prepare:
                live = context.live_brokers.keys()
                prepared = prepare_start(topic, live, new, controller.prepared)
            if prepared is None:
                batch.add_update_metadata((), topic.assigned())
            else:
                all_prepared[name] = prepared
        handled += len(topic.partitions)
        if handled >= SLICE_SIZE:
            handled = 0
            await suspend(SLICE)
    batch.add_prepared_metadata(all_prepared)
    await send_in_slices(controller, batch)
    return {
        name: one.restricted_to(new)
        for name, one in all_prepared.items()
        if not one.online.keys().isdisjoint(new)
    }


async def on_broker_failure(controller: Controller, dead: list[int]) -> None:
    """The replicas of dead brokers go offline (KB 9.2)."""
    context = controller.context
    for broker in dead:
        context.offline_dirs.pop(broker, None)
        context.shutting_down.pop(broker, None)
    await on_replicas_become_offline(controller, context.replicas_on(dead))


async def on_replicas_become_offline(controller: Controller, replicas: Replicas) -> None:
    """New leaders for all partitions that lost theirs, then smaller ISRs (KB 9.3)."""
    context = controller.context
    leaderless = sorted_partitions(filter(context.has_offline_leader, context.partitions()))
    await change_partitions(controller, leaderless, PartitionState.OFFLINE, FAILURE)
    results = await retry_offline_partitions(controller, FAILURE)
    living = {
        broker: [one for one in partitions if not context.is_queued(one)]
        for broker, partitions in replicas.items()
    }
    await change_replicas(controller, _sorted(living), ReplicaState.OFFLINE, FAILURE)
    await fail_deletion(controller, replicas)
    if not any(living.values()) and not results:
        controller.send_metadata(FAILURE, context.brokers)


def _with_prepared(others: Replicas, prepared: dict[str, PreparedTopic]) -> Replicas:
    """All replicas by broker, topic and number: those of prepared topics, and the others."""
    replicas: Replicas = {}
    for broker, partitions in others.items():
        by_topic = {
            name: one.online[broker] for name, one in prepared.items() if broker in one.online
        }
        for topic, of_topic in groupby(sorted_partitions(partitions), key=attrgetter("topic.name")):
            by_topic[topic] = list(of_topic)
        replicas[broker] = [one for name in sorted(by_topic) for one in by_topic[name]]
    return replicas


def _sorted(replicas: Replicas) -> Replicas:
    return {broker: sorted_partitions(partitions) for broker, partitions in replicas.items()}
