"""Encodes what a standby has prepared, so that a take-over only joins and sends it."""

import anyio
from anyio.lowlevel import checkpoint

from controller.core.canonical import encode_entries_ahead
from controller.core.fold import Fold
from controller.wire.encoding import encode_ahead
from controller.wire.errors import WireError


class EncodingAhead:
    """Encodes topic after topic while the event loop has nothing else to do.

    A channel encodes a topic itself if the take-over comes first, or if its broker does not support
    these versions.
    """

    def __init__(self, fold: Fold) -> None:
        self._fold = fold
        self._has_more = anyio.Event()

    def folded(self) -> None:
        """An event was folded, which may have prepared topics."""
        if self._fold.controller.standby.unencoded:
            self._has_more.set()

    async def run(self) -> None:
        """Encode until cancelled."""
        protocol = self._fold.controller.protocol
        while True:
            unencoded = self._fold.controller.standby.unencoded
            if not unencoded:
                self._has_more = anyio.Event()
                await self._has_more.wait()
                continue
            prepared = unencoded.pop(next(iter(unencoded)))
            try:
                encode_ahead(prepared, protocol.leader_and_isr, protocol.update_metadata)
            except WireError:
                # The channels report it when the request is sent.
                return
            encode_entries_ahead(prepared)
            await checkpoint()
