"""Encodes what a standby has prepared, so that a take-over only joins and sends it."""

from typing import Final

import anyio
from anyio.lowlevel import checkpoint

from controller.core.canonical import encode_entries_ahead
from controller.core.fold import Fold
from controller.wire.encoding import encode_ahead
from controller.wire.errors import WireError

_PAUSE_SECONDS: Final = 0.1


async def encode_prepared_topics(fold: Fold) -> None:
    """Encode topic after topic while the event loop has nothing else to do, until cancelled.

    A channel encodes a topic itself if the take-over comes first, or if its broker does not support
    these versions.
    """
    protocol = fold.controller.protocol
    while True:
        prepared = fold.controller.standby.prepared
        waiting = [one for one in prepared.values() if not one.update_metadata.encoded]
        for one in waiting:
            if fold.controller.standby.prepared is not prepared:
                break
            try:
                encode_ahead(one, protocol.leader_and_isr, protocol.update_metadata)
            except WireError:
                # The channels report it when the request is sent.
                return
            encode_entries_ahead(one)
            await checkpoint()
        await anyio.sleep(_PAUSE_SECONDS)
