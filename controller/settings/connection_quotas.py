"""The limits of the endpoint, with those of single listeners (Kafka's ConnectionQuotas)."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from controller.api.limits import EndpointLimits, ListenerQuota
from controller.security.errors import SecurityError
from controller.settings import parsing
from controller.settings.endpoint_limits import OF_ONE_LISTENER
from controller.settings.security import SecurityKeys, read_or_report
from controller.settings.setting import of_listener
from controller.settings.sources import RawSetting

_INT_MAX: Final = 2**31 - 1
_CONNECTIONS, _RATE = OF_ONE_LISTENER


def limits_of(
    values: Mapping[str, Any],
    file: Sequence[RawSetting],
    inter_broker_listener: str,
    problems: list[str],
) -> EndpointLimits:
    """The endpoint's limits for clients. Problems are appended."""
    listeners = [one.listener for one in values["listeners"]]
    rate = values[_RATE]
    of_listeners = {
        one: read_or_report(
            partial(_of_listener, SecurityKeys(file, of_listener(one, "")), rate), problems
        )
        for one in listeners
    }
    is_exempt = len(listeners) > 1 and inter_broker_listener in listeners
    limits = EndpointLimits(
        connections_max=values["max.connections"],
        connections_per_address_max=values["max.connections.per.ip"],
        connections_of_address_max=values["max.connections.per.ip.overrides"] or {},
        creation_rate=_limit(rate),
        creation_burst_seconds=max(values["quota.window.num"] - 1, 1)
        * values["quota.window.size.seconds"],
        exempt_listener=inter_broker_listener if is_exempt else None,
        of_listeners={name: one for name, one in of_listeners.items() if one},
        connections_max_idle_ms=values["connections.max.idle.ms"],
        request_timeout_ms=values["request.timeout.ms"],
        request_bytes_max=values["socket.request.max.bytes"],
        waiting_requests_max=values["queued.max.requests"],
        whole_bytes_max=values["queued.max.request.bytes"],
    )
    largest = min(limits.request_bytes_max, limits.controller_request_bytes_max)
    if limits.whole_bytes_max is not None and limits.whole_bytes_max < largest:
        problems.append(
            f"queued.max.request.bytes={limits.whole_bytes_max}: must be at least "
            f"{largest}, the maximum size of a request to the controller"
        )
    if not limits.connections_per_address_max and not limits.connections_of_address_max:
        problems.append(
            "max.connections.per.ip=0: must be above 0, because max.connections.per.ip.overrides "
            "is not set"
        )
    return limits


def _of_listener(keys: SecurityKeys, rate: int) -> ListenerQuota | None:
    """The limits of one listener; None if it has none. Raises SecurityError."""
    connections = _number(keys, _CONNECTIONS, _INT_MAX)
    found = ListenerQuota(
        connections_max=_limit(connections), creation_rate=_limit(_number(keys, _RATE, rate))
    )
    return None if found == ListenerQuota() else found


def _number(keys: SecurityKeys, key: str, default: int) -> int:
    text = keys.text(key)
    try:
        return default if text is None else parsing.whole_number(1)(text)
    except ValueError as error:
        raise SecurityError(f"{keys.shown(key)}: must be {error}") from None


def _limit(number: int) -> int | None:
    return None if number == _INT_MAX else number
