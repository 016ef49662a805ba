"""SCRAM credentials (RFC 5802), as Kafka stores them in ZooKeeper. Pure."""

import hashlib
import hmac
from base64 import b64encode
from typing import Final

_HASHES: Final = {1: "sha256", 2: "sha512"}
"""By mechanism (org.apache.kafka.clients.admin.ScramMechanism)."""


def credential_of(mechanism: int, salt: bytes, salted_password: bytes, iterations: int) -> str:
    """A credential as a user's configuration contains it (ScramFormatter.generateCredential,
    ScramCredentialUtils.credentialToString).

    Empty for an unknown mechanism and for an empty password, for which Java creates none.
    """
    name = _HASHES.get(mechanism)
    if name is None or not salted_password:
        return ""
    stored_key = hashlib.new(name, hmac.digest(salted_password, b"Client Key", name)).digest()
    server_key = hmac.digest(salted_password, b"Server Key", name)
    return (
        f"salt={_text(salt)},stored_key={_text(stored_key)},"
        f"server_key={_text(server_key)},iterations={iterations}"
    )


def _text(data: bytes) -> str:
    return b64encode(data).decode()
