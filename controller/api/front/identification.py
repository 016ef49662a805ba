"""Finds out who a client is, before its first request: by its certificate, or by SASL."""

import asyncio
import ssl
from collections.abc import Callable

from controller.api.endpoint_security import EndpointSecurity
from controller.api.front.connection import SECURED_VERSIONS
from controller.api.front.daemon_queries import DaemonQueries
from controller.api.front.sasl import ClientLogin, Lookup
from controller.api.front.session import ClientSession
from controller.api.messages import ReadCredential
from controller.core.api_requests.received_request import ANONYMOUS, ClientIdentity
from controller.core.configuration import Authorization
from controller.security.errors import LoginRejected
from controller.security.principals import PrincipalMapper
from controller.security.scram import ScramCredential, read_credential
from controller.security.tls import ReloadedContext, server_context
from controller.security.tls_errors import reason_of


class Credentials(DaemonQueries[ReadCredential, str | None]):
    """Asks the daemon for SCRAM credentials, which change while the front runs."""

    async def read(self, user: str, mechanism: str) -> ScramCredential | None:
        """The credential; None if there is none that can be used."""
        text = await self.ask(lambda number: ReadCredential(number, user, mechanism))
        return read_credential(text) if text else None


class Identification:
    """The rules of one listener."""

    def __init__(
        self,
        security: EndpointSecurity,
        authorization: Authorization | None,
        lookup: Lookup,
        warn: Callable[[str], None],
    ) -> None:
        self._security = security
        self._is_needed = not security.is_plain or authorization is not None
        self._lookup = lookup
        self._mapper = PrincipalMapper(security.principal_rules)
        self._tls: ReloadedContext | None = None
        if security.tls is not None:
            self._tls = ReloadedContext(security.tls, server_context, warn)

    @property
    def has_tls(self) -> bool:
        """Whether connections begin with a TLS handshake."""
        return self._tls is not None

    @property
    def authenticates(self) -> bool:
        """Whether connections begin with a TLS handshake or a login."""
        return not self._security.is_plain

    async def identify(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str
    ) -> ClientSession:
        """The principal of a client.

        Raises LoginRejected, MalformedRequest, IncompleteReadError, ConnectionError.
        """
        if self._tls is not None:
            try:
                await writer.start_tls(self._tls.current())
            except ssl.SSLError as error:
                raise LoginRejected(f"the TLS handshake failed: {reason_of(error)}") from None
        if not self._is_needed:
            return ClientSession(None)
        if self._security.mechanisms:

            def new_login() -> ClientLogin:
                return ClientLogin(self._security, SECURED_VERSIONS, self._lookup, reader, writer)

            login = await new_login().log_in()
            return ClientSession(ClientIdentity(login.principal, address), login, new_login)
        return ClientSession(ClientIdentity(self._of_certificate(writer), address))

    def _of_certificate(self, writer: asyncio.StreamWriter) -> str:
        tls: ssl.SSLObject | None = writer.get_extra_info("ssl_object")
        if tls is None:
            return ANONYMOUS
        return self._mapper.principal(tls.getpeercert(binary_form=True))
