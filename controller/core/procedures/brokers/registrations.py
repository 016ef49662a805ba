"""Registered brokers below /brokers/ids, and the channels to them."""

from collections.abc import Iterable

from controller.core import znodes
from controller.core.commands import CloseChannel, OpenChannel, Reason
from controller.core.controller import Controller
from controller.core.deviations import UNREADABLE_SKIPPED
from controller.core.errors import ProcedureError, ZnodeError
from controller.core.operations import OK
from controller.core.values import Broker
from controller.core.zookeeper_io import read_children, read_znodes


async def read_brokers(controller: Controller, rule: str) -> list[Broker]:
    """All registered brokers by id (getAllBrokerAndEpochsInCluster, KB 3.3.1); watches the list.

    A child that is no broker id, an unreadable registration, and a registration with the daemon's
    id are reported and skipped. A registration that has just disappeared is skipped.
    """
    children = await read_children(controller, znodes.BROKER_IDS, rule, watch=True)
    ids = []
    for child in children.children:
        if not znodes.is_broker_id(child):
            _report(controller, f"{znodes.BROKER_IDS}/{child}", f"{child[:80]!r} is no broker id")
        elif int(child) == controller.configuration.id_without_replicas:
            _report(
                controller,
                znodes.broker_path(int(child)),
                "a broker uses the daemon's own broker.id: give the daemon another one",
            )
        else:
            ids.append(int(child))
    return await read_registrations(controller, sorted(ids), rule)


async def read_registrations(controller: Controller, ids: list[int], rule: str) -> list[Broker]:
    """The registrations of these brokers that exist and can be read; watches each."""
    paths = [znodes.broker_path(id) for id in ids]
    found = await read_znodes(controller, paths, rule, watch=True)
    brokers = []
    columns = zip(ids, found.errors, found.data, found.czxids, found.owners, strict=True)
    for id, error, data, czxid, owner in columns:
        if error != OK:
            continue
        try:
            brokers.append(znodes.read_broker(id, data, czxid))
            controller.context.sessions[id] = owner
            _compare_protocols(controller, id, data)
        except ZnodeError as unreadable:
            _report(controller, znodes.broker_path(id), str(unreadable))
    return brokers


def _compare_protocols(controller: Controller, id: int, data: bytes | None) -> None:
    """Report a new broker whose registration contradicts the configured protocol version."""
    side = controller.protocol.contradicted_by(znodes.registration_version(data))
    if not side or id in controller.context.brokers:
        return
    controller.notice(
        "error",
        "protocol_mismatch",
        znodes.broker_path(id),
        f"broker {id} runs with an inter.broker.protocol.version {side}, refold with "
        f"{controller.protocol.name}: set the one that the brokers have",
    )


def _report(controller: Controller, path: str, text: str) -> None:
    controller.notice("error", "unreadable_znode", path, f"{text}; skipped")
    controller.observer.deviates(UNREADABLE_SKIPPED, path)


# Channels (KB 3.3.3, 12.1) ----------------------------------------------------------------------


def open_channels(controller: Controller, brokers: Iterable[Broker], rule: str) -> None:
    """Open a channel to each broker that has none (KB 3.3.8)."""
    listener = controller.configuration.controller_listener
    channels = controller.context.channels
    for broker in brokers:
        if broker.id in channels:
            continue
        endpoint = broker.endpoint(listener)
        if endpoint is None:
            controller.notice(
                "error",
                "no_listener",
                znodes.broker_path(broker.id),
                f"broker {broker.id} has no listener {listener}: it gets no requests; set "
                "inter.broker.listener.name (or control.plane.listener.name) as the brokers do",
            )
            continue
        channels[broker.id] = broker.epoch
        controller.issue(OpenChannel(broker.id, broker.epoch, endpoint), Reason(rule))


def require_no_leftover_channels(controller: Controller) -> None:
    """Refuse to register brokers if one has a channel from before the role was taken: Kafka's
    controller cannot register the metrics of a second one (ControllerChannelManager.startup).
    Raises ProcedureError."""
    left = sorted(controller.leftover_channels & controller.context.brokers.keys())
    if left:
        raise ProcedureError(f"broker {left[0]} has a channel of an earlier term")


def close_channels(controller: Controller, brokers: Iterable[int], rule: str) -> None:
    """Close the channels; the requests in their queues are dropped and never answered."""
    context = controller.context
    for broker in brokers:
        epoch = context.channels.pop(broker, None)
        context.releases.pop(broker, None)
        if epoch is not None:
            controller.issue(CloseChannel(broker, epoch), Reason(rule))
            context.unacked_metadata.pop(broker, None)
            context.unresponsive.pop(broker, None)
            context.in_flight = {
                id: one for id, one in context.in_flight.items() if one.broker != broker
            }
