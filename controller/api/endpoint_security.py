"""How clients of one listener of the endpoint prove who they are."""

from msgspec import Struct

from controller.security.oauthbearer import TokenRules
from controller.security.passwords import Password
from controller.security.tls import TlsSettings


class EndpointSecurity(Struct, frozen=True, kw_only=True):
    """The keys of one listener. `mechanisms`: those of SASL; none without SASL. `users`: the
    passwords of PLAIN. `principal_rules`: ssl.principal.mapping.rules."""

    tls: TlsSettings | None = None
    mechanisms: tuple[str, ...] = ()
    users: dict[str, Password] = {}
    token_rules: TokenRules = TokenRules()
    """The requirements for tokens of OAUTHBEARER."""
    principal_rules: str = "DEFAULT"
    receive_bytes_max: int = 524_288
    """sasl.server.max.receive.size: size of one request before the login is complete."""
    session_ms: dict[str, int] = {}
    """connections.max.reauth.ms, by mechanism: a client that does not log in again within this time
    after its login is disconnected; 0: never."""
    failure_delay_ms: int = 100
    """connection.failed.authentication.delay.ms: how long a client whose login failed waits for the
    response."""

    @property
    def is_plain(self) -> bool:
        """Whether clients have no identity."""
        return self.tls is None and not self.mechanisms


PLAIN = EndpointSecurity()
"""A listener in plain text."""
