"""Follows settings of the endpoint that Kafka has in ZooKeeper. They decide nothing in the core,
and never reach the event log."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import ClassVar, Final, Generic, TypeVar

import anyio

from controller.daemon.errors import ZnodeUnreadable
from controller.daemon.session_reads import SessionReads

READ_EVERY_SECONDS: Final = 5.0
T = TypeVar("T")


class FollowedSettings(ABC, Generic[T]):
    """Reads the settings every few seconds, and passes on what changed. `applied`: those that count
    before the first read."""

    LOGGER: ClassVar[logging.Logger]
    NO_EFFECT: ClassVar[str]
    """The end of a warning about a setting that cannot be used."""

    def __init__(self, reads: SessionReads, apply: Callable[[T], None], applied: T) -> None:
        self._reads = reads
        self._apply = apply
        self._applied = applied
        self._reported: set[str] = set()

    async def keep(self) -> None:
        """Follow the settings until cancelled. Those that were read last count while ZooKeeper
        cannot be read."""
        while True:
            with suppress(ZnodeUnreadable):
                found = await self._read()
                if found is not None and found != self._applied:
                    self._apply(found)
                    self._applied = found
            await anyio.sleep(READ_EVERY_SECONDS)

    @abstractmethod
    async def _read(self) -> T | None:
        """The present settings; None if they cannot be used. Raises ZnodeUnreadable."""

    def _warn(self, text: str) -> None:
        """Log each problem once."""
        if text not in self._reported:
            self._reported.add(text)
            self.LOGGER.warning("%s; %s", text, self.NO_EFFECT)
