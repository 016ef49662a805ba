"""Follows Kafka's dynamic configuration of connection limits in /config/brokers (KIP-226, KIP-402,
KIP-612: DynamicConnectionQuota)."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from controller.api.messages import ConnectionLimits
from controller.core import znodes
from controller.core.errors import ZnodeError
from controller.daemon.followed_settings import FollowedSettings
from controller.daemon.session_reads import SessionReads
from controller.settings.endpoint_limits import ENDPOINT_LIMITS
from controller.settings.setting import Setting

logger = logging.getLogger(__name__)

_FIELDS: Final = {
    "max.connections": "connections_max",
    "max.connections.per.ip": "connections_per_address_max",
    "max.connections.per.ip.overrides": "connections_of_address_max",
    "max.connection.creation.rate": "creation_rate",
}
_SETTINGS: Final[Mapping[str, Setting]] = {
    one.key: one for one in ENDPOINT_LIMITS if one.key in _FIELDS
}


class ConnectionLimitReader(FollowedSettings[ConnectionLimits]):
    """Reads the configuration of the daemon's id and that of all brokers. As in Kafka, the former
    counts before the latter, and both before the settings."""

    LOGGER = logger
    NO_EFFECT = "it has no effect"

    def __init__(
        self, reads: SessionReads, broker_id: int, apply: Callable[[ConnectionLimits], None]
    ) -> None:
        def report_and_apply(limits: ConnectionLimits) -> None:
            logger.info("the dynamic limits of connections changed: %s", _limits_text(limits))
            apply(limits)

        super().__init__(reads, report_and_apply, ConnectionLimits())
        self._paths = (znodes.broker_config_path(None), znodes.broker_config_path(broker_id))

    async def _read(self) -> ConnectionLimits | None:
        names = await self._reads.children(znodes.BROKER_CONFIGS)
        values: dict[str, Any] = {}
        for path in self._paths:
            if path.rpartition("/")[2] in names:
                values |= self._values(path, await self._reads.data(path))
        limits = ConnectionLimits(**values)
        if limits.connections_per_address_max == 0 and not limits.connections_of_address_max:
            self._warn(
                f"{znodes.BROKER_CONFIGS}: max.connections.per.ip=0 needs "
                "max.connections.per.ip.overrides"
            )
            return None
        return limits

    def _values(self, path: str, data: bytes | None) -> dict[str, Any]:
        found = {}
        try:
            config = znodes.read_config(path, data)
        except ZnodeError as error:
            self._warn(str(error))
            return {}
        for key, field in _FIELDS.items():
            if key in config:
                try:
                    found[field] = _SETTINGS[key].parse(config[key])
                except ValueError as error:
                    self._warn(f"{path}: {key}: must be {error}")
        return found


def _limits_text(limits: ConnectionLimits) -> str:
    values = ((key, getattr(limits, field)) for key, field in _FIELDS.items())
    given = [f"{key}={value}" for key, value in values if value is not None]
    return ", ".join(given) or "none; the settings count"
