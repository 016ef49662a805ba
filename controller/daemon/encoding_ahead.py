"""Encodes requests before they are needed: a standby's for its take-over, a controller's for the
start of a broker."""

import time
from typing import Final

import anyio
from anyio.lowlevel import checkpoint

from controller.core.canonical import encode_entries_ahead
from controller.core.fold import Fold
from controller.core.prepared_topics import PreparedTopic, prepare_ahead
from controller.wire.encoding import encode_ahead
from controller.wire.errors import WireError

QUIET_SECONDS: Final = 1.0
"""A broker takes longer to start. While many ISRs change, there is no such gap."""


class EncodingAhead:
    """Encodes topic after topic while the event loop has nothing else to do, for a controller only
    after `quiet_seconds` without events.

    A channel encodes a topic itself if the requests are needed before, or if its broker does not
    support these versions.
    """

    def __init__(self, fold: Fold, quiet_seconds: float = QUIET_SECONDS) -> None:
        self._fold = fold
        self._quiet_seconds = quiet_seconds
        self._quiet_until = 0.0
        self._has_folded = anyio.Event()

    def folded(self) -> None:
        """An event was folded, which may have prepared or changed topics."""
        self._quiet_until = time.monotonic() + self._quiet_seconds
        self._has_folded.set()

    async def run(self) -> None:
        """Encode until cancelled."""
        try:
            while True:
                await self._has_folded.wait()
                self._has_folded = anyio.Event()
                await self._encode_for_take_over()
                await self._encode_for_starts()
        except WireError:
            # The channels report it when the request is sent.
            return

    async def _encode_for_take_over(self) -> None:
        """Encode what the standby has prepared."""
        while unencoded := self._fold.controller.standby.unencoded:
            self._encode(unencoded.pop(next(iter(unencoded))), for_all=True)
            await checkpoint()

    async def _encode_for_starts(self) -> None:
        """If the controller is quiet, prepare and encode the topics that have changed."""
        controller = self._fold.controller
        while controller.is_active:
            left = self._quiet_until - time.monotonic()
            if left <= 0:
                break
            await anyio.sleep(left)
        topics, prepared = controller.context.topics, controller.prepared
        for name in [one for one in prepared if one not in topics]:
            del prepared[name]
            await checkpoint()
        for topic in list(topics.values()):
            if self._has_folded.is_set():
                return
            changed = prepare_ahead(topic, prepared)
            if changed is not None:
                self._encode(changed, for_all=False)
            await checkpoint()

    def _encode(self, prepared: PreparedTopic, *, for_all: bool) -> None:
        protocol = self._fold.controller.protocol
        versions = protocol.leader_and_isr, protocol.update_metadata
        encode_ahead(prepared, *versions, for_all=for_all)
        encode_entries_ahead(prepared, for_all=for_all)
