"""How a session identifies itself to a server, after each handshake and before anything else."""

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from controller.core.operations import OK
from controller.zookeeper import wire
from controller.zookeeper.errors import LoginFailed

LOGIN_REQUIRED: Final = -124
"""The error of any request but a login, on a server that requires one."""


class SaslExchange(Protocol):
    """The client's side of one SASL exchange."""

    def respond(self, challenge: bytes) -> bytes | None:
        """The response to a message of the server; None if the server has authenticated itself.
        Raises LoginFailed."""


class SaslLogin(NamedTuple):
    """A login by SASL. `begin` starts an exchange for one connection."""

    user: str
    begin: Callable[[], SaslExchange]


class DigestLogin(NamedTuple):
    """A login by ZooKeeper's scheme `digest`, which sends the password: use it with TLS only.
    `credentials` returns user:password; as a function, so that no text of this object has them."""

    user: str
    credentials: Callable[[], bytes]


Login = SaslLogin | DigestLogin


class ConnectionLogin:
    """The login on one connection."""

    def __init__(self, login: Login) -> None:
        self._user = login.user
        self._exchange = login.begin() if isinstance(login, SaslLogin) else None

    @property
    def is_sasl(self) -> bool:
        """Whether requests are SASL's, with an xid as other requests have."""
        return self._exchange is not None

    def next_request(self, error: int, frame: bytes) -> bytes | None:
        """The body of the next request after a reply; None if the login is complete. Raises
        LoginFailed, or MalformedReply."""
        if error != OK:
            raise LoginFailed(
                f"rejects the login of {self._user} (ZooKeeper code {error}): check the user and "
                "the password, and the server's JAAS file"
            )
        if self._exchange is None:
            return None
        challenge = wire.read_sasl_token(frame)
        if not challenge:
            # So does a server with zookeeper.allowSaslFailedClients, without an identity.
            raise LoginFailed(f"does not authenticate itself in the login of {self._user}")
        response = self._exchange.respond(challenge)
        return None if response is None else wire.sasl_request(response)
