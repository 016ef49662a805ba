"""SASL DIGEST-MD5, the password login of ZooKeeper, by pure-sasl; and logins from JAAS entries."""

from typing import Final

from puresasl import QOP, SASLError, SASLProtocolException
from puresasl.client import SASLClient

from controller.security.errors import SecurityError
from controller.security.jaas import LoginEntry
from controller.zookeeper.errors import LoginFailed
from controller.zookeeper.login import DigestLogin, SaslLogin

_MODULE: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"
_SERVICE: Final = "zookeeper"
_HOST: Final = "zk-sasl-md5"
"""The name of every ZooKeeper server in DIGEST-MD5, whatever its address is."""
_FAILURES: Final = (
    *(SASLError, SASLProtocolException),
    # pure-sasl checks neither the syntax nor the completeness of a challenge.
    *(AttributeError, LookupError, TypeError, ValueError),
)


class DigestMd5:
    """The client's side of one exchange. It ends only when the server has proved that it knows the
    password."""

    def __init__(self, user: str, password: str) -> None:
        self._client = SASLClient(
            _HOST, _SERVICE, "DIGEST-MD5", qops=(QOP.AUTH,), username=user, password=password
        )

    def respond(self, challenge: bytes) -> bytes | None:
        """The response to a message of the server; None if the server has authenticated itself.
        Raises LoginFailed."""
        try:
            response: bytes | None = self._client.process(challenge)
        except _FAILURES:
            raise LoginFailed(
                "does not prove that it knows the password: is it the right server?"
            ) from None
        return response


def sasl_login(user: str, password: str) -> SaslLogin:
    """A login by DIGEST-MD5."""
    return SaslLogin(user, lambda: DigestMd5(user, password))


def digest_login(user: str, password: str) -> DigestLogin:
    """A login by ZooKeeper's scheme `digest`."""
    return DigestLogin(user, lambda: f"{user}:{password}".encode())


def login_of(entry: LoginEntry, setting: str) -> SaslLogin:
    """The login of a JAAS file's section for ZooKeeper clients. Raises SecurityError, which names
    `setting`."""
    if entry.module != _MODULE:
        raise SecurityError(
            f"{setting}: refold does not support {entry.module} for ZooKeeper, only {_MODULE}; "
            "there is no Kerberos (GSSAPI)"
        )
    return sasl_login(*entry.credentials(setting))
