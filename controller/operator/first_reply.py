"""Waits for the first answer of ZooKeeper, when a process starts."""

import logging
import time
from typing import Final

import anyio

from controller.operator.probes import probe_zookeeper
from controller.operator.status import ZooKeeperStatus
from controller.settings.settings import Settings

_PAUSE_SECONDS: Final = 1.0
"""The first pause before ZooKeeper is asked again; each further one is twice as long."""
_PAUSE_SECONDS_MAX: Final = 30.0

logger = logging.getLogger(__name__)


class FirstReply:
    """`fault` is why ZooKeeper has not answered so far, empty at first."""

    def __init__(self, settings: Settings, process: str) -> None:
        """`process` is the process that starts, in messages: the daemon, the shadow."""
        self.fault = ""
        self._settings = settings
        self._process = process

    async def status(self) -> ZooKeeperStatus:
        """The state of ZooKeeper. If it does not answer and the settings say so, wait until it
        does."""
        begun, pause_s = time.monotonic(), _PAUSE_SECONDS
        status = await probe_zookeeper(self._settings, self._report_first)
        while status.cluster is None and self._settings.waits_for_zookeeper:
            self.fault = status.fault
            text = "ZooKeeper does not answer, nothing was changed: %s; trying again in %g s"
            logger.warning(text, status.fault, pause_s)
            await anyio.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_SECONDS_MAX)
            status = await probe_zookeeper(self._settings)
            if status.cluster is not None:
                logger.info("ZooKeeper answers after %.0f s", time.monotonic() - begun)
        return status

    def _report_first(self, fault: str) -> None:
        self.fault = fault
        limit = f"for up to {self._settings.connection_timeout_ms / 1000:g} s"
        logger.warning(
            "ZooKeeper %s does not answer yet, nothing was changed: %s; %s continues trying %s",
            ",".join(map(str, self._settings.zookeeper.servers)),
            fault,
            self._process,
            "until it answers" if self._settings.waits_for_zookeeper else limit,
        )
