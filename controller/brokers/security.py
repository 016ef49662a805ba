"""How connections to brokers are secured, by listener."""

import base64
import json
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from aiokafka.abc import AbstractTokenProvider

from controller.brokers.errors import Unreachable
from controller.core.values import Endpoint
from controller.security.passwords import Password
from controller.security.tls import ReloadedContext


class UnsecuredToken(AbstractTokenProvider):  # type: ignore[misc]
    """The unsigned tokens of Kafka's OAuthBearerUnsecuredLoginCallbackHandler, which brokers accept
    unless they have another handler."""

    def __init__(self, claims: Mapping[str, object], lifetime_s: int) -> None:
        self._claims = dict(claims)
        self._lifetime_s = lifetime_s

    @property
    def subject(self) -> str:
        """The user of the tokens."""
        return str(self._claims["sub"])

    async def token(self) -> str:
        """A token that is valid from now on."""
        now_s = time.time()
        times = {"iat": now_s, "exp": now_s + self._lifetime_s}
        return f"{_encoded_json({'alg': 'none'})}.{_encoded_json(self._claims | times)}."


def _encoded_json(content: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


class BrokerLogin(NamedTuple):
    """A login by SASL. `token` belongs to OAUTHBEARER, user and password to the others."""

    mechanism: str
    user: str = ""
    password: Password = Password("")
    token: AbstractTokenProvider | None = None

    @property
    def principal(self) -> str:
        """The principal under which brokers see refold."""
        user = self.token.subject if isinstance(self.token, UnsecuredToken) else self.user
        return f"User:{user}"


class ListenerSecurity(NamedTuple):
    """The security of connections to one listener; `protocol` is Kafka's name for it."""

    protocol: str
    tls: ReloadedContext | None = None
    login: BrokerLogin | None = None

    def arguments(self) -> dict[str, Any]:
        """Arguments for a connection or client of aiokafka. They contain the password."""
        arguments: dict[str, Any] = {"security_protocol": self.protocol}
        if self.tls is not None:
            arguments["ssl_context"] = self.tls.current()
        if self.login is not None:
            arguments["sasl_mechanism"] = self.login.mechanism
            if self.login.token is not None:
                arguments["sasl_oauth_token_provider"] = self.login.token
            else:
                arguments["sasl_plain_username"] = self.login.user
                arguments["sasl_plain_password"] = self.login.password.reveal()
        return arguments


class BrokerSecurity(NamedTuple):
    """The listeners of all brokers that refold can connect to, apart from those in plain text."""

    listeners: Mapping[str, ListenerSecurity]

    def arguments(self, endpoint: Endpoint) -> dict[str, Any]:
        """Arguments for aiokafka's connection to a registered endpoint. Raises Unreachable.

        The endpoint must have the protocol that is configured for its listener. Otherwise a broker
        that registers as one in plain text would see what is meant for TLS.
        """
        known = self.listeners.get(endpoint.listener)
        expected = "PLAINTEXT" if known is None else known.protocol
        if endpoint.security_protocol != expected:
            raise Unreachable(
                f"{endpoint.host}:{endpoint.port} ({endpoint.listener}): the broker has registered "
                f"this listener with {endpoint.security_protocol}, refold is configured for "
                f"{expected}: check inter.broker.listener.name, control.plane.listener.name and "
                "listener.security.protocol.map"
            )
        return {} if known is None else known.arguments()

    def reachable(self, endpoints: Iterable[Endpoint]) -> Endpoint | None:
        """The endpoint of a broker that a command asks: the first one at a listener that has
        settings here, otherwise the first one in plain text."""
        offered = tuple(endpoints)
        known = [one for one in offered if one.listener in self.listeners]
        plain = [one for one in offered if one.security_protocol == "PLAINTEXT"]
        return next(iter(known or plain), None)

    def login(self) -> dict[str, Any]:
        """Arguments for a client of aiokafka, at the first listener that has settings here. They
        contain the password."""
        return next((one.arguments() for one in self.listeners.values()), {})

    def endpoint(self, host: str, port: int) -> Endpoint:
        """An address that no broker has registered, at the first listener that has settings here,
        otherwise in plain text."""
        for listener, security in self.listeners.items():
            return Endpoint(listener, security.protocol, host, port)
        return Endpoint("", "PLAINTEXT", host, port)


PLAIN: Final = BrokerSecurity({})
"""All listeners are in plain text."""
