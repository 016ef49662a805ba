"""Stuck registrations below /brokers/ids (ZOOKEEPER-1740; race R1; KB 16.5).

The end of a session and the deletion of its ephemeral znodes are not one step in ZooKeeper, and a
broker may fail to register in its next session. The result is one of two states, which do not end
by themselves:

- A broker is alive and not registered: its registration was deleted, and it answers.
- A registration is left: the znode exists, and no process listens at its address. Its owner's
  session is over, or ends late.

Both look the same as a broker that has just been killed or restarts, so the daemon looks again
after a while: it probes the address, and reports a state that two probes in a row have shown. The
probes send nothing but ApiVersions. These findings do not affect decisions about partitions.
"""

from collections.abc import Iterable
from typing import Final

from controller.core import znodes
from controller.core.commands import ProbeBroker, Reason, StartTimer
from controller.core.controller import Controller
from controller.core.events import ANSWERS, REFUSES, BrokerProbed, ChannelFault
from controller.core.state import SuspectRegistration
from controller.core.values import Broker, format_session

TIMER: Final = "registrations"
_RULE: Final = "check of registrations"
_PROBES: Final = 2
"""The number of probes in a row that must show the same."""
_LATEST_AFTER: Final = 128
"""The longest pause between two probes of a dead broker, as a multiple of the first pause."""


def suspect_lost(controller: Controller, lost: Iterable[Broker]) -> None:
    """These brokers are no longer registered. A broker that shuts down is not expected to register
    again."""
    for broker in lost:
        if broker.id not in controller.context.shutting_down:
            _suspect(controller, broker, is_registered=False)


def suspect_unreachable(controller: Controller, fault: ChannelFault) -> None:
    """A channel to a registered broker does not work, or works again."""
    context = controller.context
    broker = context.brokers.get(fault.broker)
    if broker is None or context.channels.get(fault.broker) != fault.broker_epoch:
        return
    if fault.kind == "unreachable":
        _suspect(controller, broker, is_registered=True)
    else:
        context.suspects.pop(fault.broker, None)


def trust(controller: Controller, brokers: Iterable[Broker]) -> None:
    """Stop the checks of brokers that have registered again."""
    for broker in brokers:
        controller.context.suspects.pop(broker.id, None)


def check_registrations(controller: Controller) -> None:
    """The timer has fired: probe the brokers that are due."""
    now_ms = controller.now_ms
    for one in controller.context.suspects.values():
        if one.due_ms > now_ms:
            continue
        if not _is_anothers(controller, one):
            probe = ProbeBroker(one.broker, one.broker_epoch, one.endpoint)
            controller.issue(probe, Reason(_RULE))
        one.due_ms = now_ms + one.pause_ms
        one.pause_ms = min(2 * one.pause_ms, _pause_ms(controller) * _LATEST_AFTER)
    _start_timer(controller)


def shows_stuck(result: str, *, is_registered: bool) -> bool:
    """Whether the result of a probe is that of a broker whose registration is stuck."""
    return result == (REFUSES if is_registered else ANSWERS)


def process_probe(controller: Controller, probed: BrokerProbed) -> None:
    """The result of a probe."""
    one = controller.context.suspects.get(probed.broker)
    if one is None or one.broker_epoch != probed.broker_epoch:
        return
    if not shows_stuck(probed.result, is_registered=one.is_registered):
        one.times, one.is_reported = 0, False
        return
    one.times += 1
    if one.times >= _PROBES:
        _report(controller, one)
    else:
        one.pause_ms = _pause_ms(controller)
        one.due_ms = controller.now_ms + one.pause_ms
        _start_timer(controller)


def _suspect(controller: Controller, broker: Broker, *, is_registered: bool) -> None:
    pause_ms = _pause_ms(controller)
    endpoint = broker.endpoint(controller.configuration.controller_listener)
    if not pause_ms or endpoint is None:
        return
    context = controller.context
    known = context.suspects.get(broker.id)
    if known is not None and known.is_registered is is_registered:
        return
    now_ms = controller.now_ms
    context.suspects[broker.id] = SuspectRegistration(
        broker.id,
        broker.epoch,
        endpoint,
        context.sessions.get(broker.id, 0),
        is_registered,
        since_ms=now_ms,
        due_ms=now_ms + pause_ms,
        pause_ms=pause_ms,
    )
    _start_timer(controller)


def _pause_ms(controller: Controller) -> int:
    return controller.configuration.registration_check_ms


def _is_anothers(controller: Controller, one: SuspectRegistration) -> bool:
    """Whether another broker has registered with the address, as after a change of the id."""
    return any(
        (endpoint.host, endpoint.port) == (one.endpoint.host, one.endpoint.port)
        for broker in controller.context.brokers.values()
        if broker.id != one.broker
        for endpoint in broker.endpoints
    )


def _start_timer(controller: Controller) -> None:
    due = [one.due_ms for one in controller.context.suspects.values()]
    if due:
        delay_ms = max(min(due) - controller.now_ms, 1)
        controller.issue(StartTimer(TIMER, delay_ms), Reason(_RULE))


def _report(controller: Controller, one: SuspectRegistration) -> None:
    """Report a stuck registration, once."""
    if one.is_reported:
        return
    one.is_reported = True
    id, path = one.broker, znodes.broker_path(one.broker)
    address = f"{one.endpoint.host}:{one.endpoint.port}"
    seconds = (controller.now_ms - one.since_ms) // 1000
    if one.is_registered:
        owner = "no session, so that ZooKeeper does not delete it"
        if one.session:
            owner = f"session {format_session(one.session)}, which is over, or ends late"
        text = (
            f"{path} exists, owned by {owner} (ZOOKEEPER-1740): no process has listened on "
            f"{address} for {seconds} s. While the znode exists, broker {id} counts as alive and "
            f"cannot register again: start the broker; if it does not start because of the znode, "
            f"delete {path}"
        )
        controller.notice("error", "registration_left_over", path, text)
        return
    owned = f", owned by session {format_session(one.session)}," if one.session else ""
    text = (
        f"broker {id} answers on {address}, but {path} does not exist: the znode{owned} was "
        f"deleted {seconds} s ago, and the broker has not registered again (ZOOKEEPER-1740). It "
        "gets no requests and leads no partition: restart it"
    )
    controller.notice("error", "broker_not_registered", path, text)
