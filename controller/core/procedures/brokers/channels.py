"""Opening and closing the channels to brokers (KB 3.3.3, 12.1)."""

from collections.abc import Iterable

from controller.core import znodes
from controller.core.commands import CloseChannel, OpenChannel, Reason
from controller.core.controller import Controller
from controller.core.errors import ProcedureError
from controller.core.values import Broker


def open_channels(controller: Controller, brokers: Iterable[Broker], rule: str) -> None:
    """A channel to each; one that stands already is left as it is (KB 3.3.8)."""
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


def demand_none_is_left(controller: Controller) -> None:
    """Raises ProcedureError where a broker has a channel that was open before the role was taken:
    Kafka's cannot register the metrics of another one (ControllerChannelManager.startup)."""
    left = sorted(controller.left_channels & controller.context.brokers.keys())
    if left:
        raise ProcedureError(f"broker {left[0]} has a channel of an earlier term")


def close_channels(controller: Controller, brokers: Iterable[int], rule: str) -> None:
    """End the channels; what is queued for these brokers is dropped and never answered."""
    context = controller.context
    for broker in brokers:
        epoch = context.channels.pop(broker, None)
        context.releases.pop(broker, None)
        if epoch is not None:
            controller.issue(CloseChannel(broker, epoch), Reason(rule))
            context.unheard.pop(broker, None)
            context.silent.pop(broker, None)
            context.in_flight = {
                id: one for id, one in context.in_flight.items() if one.broker != broker
            }
