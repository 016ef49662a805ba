"""The principal of a connection's client, and until when its login is valid (KIP-368)."""

import asyncio
from collections.abc import Callable
from typing import Final

from controller.api.errors import SessionEnded
from controller.api.front.sasl import ClientLogin, Login
from controller.core.api_requests.received_request import ClientIdentity
from controller.wire.client_requests import RequestHead
from controller.wire.sasl import SASL_HANDSHAKE

_INTERVAL_SECONDS: Final = 1.0
"""A client may log in again at most this often (KafkaChannel.MIN_REAUTH_INTERVAL_ONE_SECOND)."""


class ClientSession:
    """The identity of one connection. `client`: None if clients have no identity and need none."""

    def __init__(
        self,
        client: ClientIdentity | None,
        login: Login | None = None,
        new_login: Callable[[], ClientLogin] | None = None,
    ) -> None:
        self.client = client
        self._login = login
        self._new_login = new_login
        self._renewed_at: float | None = None

    def renews(self, head: RequestHead) -> bool:
        """Whether a request begins a new login. Raises `SessionEnded` for any other request after
        the time of the login."""
        expires_at = None if self._login is None else self._login.expires_at
        if expires_at is None:
            return False
        now = asyncio.get_running_loop().time()
        if head.api_key == SASL_HANDSHAKE and (
            self._renewed_at is None or now - self._renewed_at >= _INTERVAL_SECONDS
        ):
            return True
        if now > expires_at:
            raise SessionEnded
        return False

    async def renew(self, head: RequestHead, frame: bytes) -> None:
        """Carry out a new login, which a SaslHandshake begins. Raises as ClientLogin does."""
        assert self._login is not None
        assert self._new_login is not None
        self._renewed_at = asyncio.get_running_loop().time()
        self._login = await self._new_login().log_in_again(head, frame, self._login)
