"""Injection points: moments of a run at which another input is likely to make a difference.

These are the writes and requests of controllers, the writes and sessions of brokers in ZooKeeper,
the requests of brokers to the controller, and the watch events that controllers receive.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from controller.core.operations import Check
from replay.explore.coverage import ControllerAct, kind_of_act
from replay.names import is_broker
from replay.world.ensemble.protocol import (
    CloseSession,
    ConnectRequest,
    Ping,
    RequestPacket,
)
from replay.world.messages import ControllerRequest
from replay.world.network import Delivery
from replay.world.processes import ZOOKEEPER, is_controller
from replay.world.requests import Multi, Write
from replay.world.scheduler import MS

START_MS: Final = 2_900
"""Earlier points are those of the start of the cluster."""

_WATCH_EVENT: Final = (-1).to_bytes(4, signed=True)


class InjectionPoint(Struct, frozen=True):
    """An act of a process: `kind` is the same for acts that differ in names and numbers only."""

    process: str
    at_ms: int
    kind: str


def injection_points_of(
    acts: Mapping[str, Sequence[ControllerAct]], deliveries: Sequence[Delivery]
) -> dict[str, list[InjectionPoint]]:
    """The injection points of a run, by kind."""
    found: dict[str, list[InjectionPoint]] = {}
    for process, done in acts.items():
        for act in done:
            found.setdefault(act.point, []).append(InjectionPoint(process, act.at_ms, act.point))
    for one in deliveries:
        point = _of_delivery(one)
        if point is not None:
            found.setdefault(point.kind, []).append(point)
    for kind, points in list(found.items()):
        found[kind] = [one for one in points if one.at_ms >= START_MS]
        if not found[kind]:
            del found[kind]
    return found


def _of_delivery(one: Delivery) -> InjectionPoint | None:
    sender, _, receiver = one.link.partition(">")
    message, at_ms = one.message, one.at_us // MS
    if receiver == ZOOKEEPER and is_broker(sender):
        kind = _kind_of_request(message)
        return InjectionPoint(sender, at_ms, f"broker: {kind}") if kind else None
    if isinstance(message, ControllerRequest):
        name = type(message.request).__name__
        kind = f"request: {name}"
        return InjectionPoint(sender if is_broker(sender) else receiver, at_ms, kind)
    if sender == ZOOKEEPER and is_controller(receiver):
        is_event = isinstance(message, bytes) and message[4:8] == _WATCH_EVENT
        return InjectionPoint(receiver, at_ms, "watch event") if is_event else None
    return None


def _kind_of_request(message: object) -> str:
    """The kind of a write or of a session's begin or end; empty for reads and heartbeats."""
    if isinstance(message, ConnectRequest):
        return "session" if message.session == 0 else "reconnect"
    if not isinstance(message, RequestPacket) or isinstance(message.request, Ping):
        return ""
    request = message.request
    if isinstance(request, CloseSession):
        return "CloseSession"
    if isinstance(request, Multi):
        writes = [each for each in request.operations if not isinstance(each, Check)]
        return kind_of_act(f"Multi {writes[0].path}") if writes else ""
    if isinstance(request, Write):
        return kind_of_act(f"{type(request).__name__} {request.path}")
    return ""
