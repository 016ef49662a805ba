"""The server's side of SCRAM (RFC 5802), without channel binding, as Kafka's ScramSaslServer."""

import base64
import hashlib
import hmac
import re
import secrets
from binascii import Error as NotBase64
from typing import Final, NamedTuple

from controller.security.errors import LoginRejected

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The mechanisms, and the hash function of each."""
ITERATIONS_MIN: Final = 4096

_FIRST: Final = re.compile(
    r"(?P<head>n,(?:a=(?P<authzid>(?:[^=,]|=2C|=3D)+))?,)"
    r"(?P<bare>n=(?P<user>(?:[^=,]|=2C|=3D)+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?P<more>(?:,.+)?))"
)
_FINAL: Final = re.compile(
    r"(?P<bare>c=(?P<head>[A-Za-z0-9+/=]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,[^,]+=.*)?)"
    r",p=(?P<proof>[A-Za-z0-9+/=]+)"
)


class ScramCredential(NamedTuple):
    """The credential that a server stores for a password (ScramCredential)."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        """Without the keys."""
        return "ScramCredential([hidden])"


def read_credential(text: str) -> ScramCredential | None:
    """The credential as /config/users has it (ScramCredentialUtils); None if it is not one."""
    parts = dict(one.partition("=")[::2] for one in text.split(","))
    try:
        salt, stored_key, server_key = (
            base64.b64decode(parts[key], validate=True)
            for key in ("salt", "stored_key", "server_key")
        )
        return ScramCredential(salt, stored_key, server_key, int(parts["iterations"]))
    except (KeyError, ValueError):
        return None


class ScramExchange:
    """One login: the client's first message, a challenge, the client's proof. Raises LoginRejected
    for everything that is not a valid login."""

    def __init__(self, mechanism: str, first: bytes) -> None:
        found = _FIRST.fullmatch(_text(first))
        if found is None:
            raise LoginRejected("the client's first SCRAM message is invalid")
        self.user = _name(found["user"])
        if found["authzid"] and _name(found["authzid"]) != self.user:
            raise LoginRejected("the client requests the identity of another user")
        if re.search(r",tokenauth=true\b", found["more"], re.IGNORECASE):
            raise LoginRejected("refold does not support delegation tokens")
        self._hash = HASHES[mechanism]
        self._head = found["head"]
        self._first = found["bare"]
        self._nonce = found["nonce"] + secrets.token_urlsafe(24)

    def challenge(self, credential: ScramCredential) -> bytes:
        """The response to the first message."""
        if credential.iterations < ITERATIONS_MIN:
            raise LoginRejected(f"the credential has fewer than {ITERATIONS_MIN} iterations")
        self._credential = credential
        salt = base64.b64encode(credential.salt).decode()
        self._challenge = f"r={self._nonce},s={salt},i={credential.iterations}"
        return self._challenge.encode()

    def verify(self, final: bytes) -> bytes:
        """Check the client's proof; return the server's signature."""
        found = _FINAL.fullmatch(_text(final))
        if found is None or found["nonce"] != self._nonce:
            raise LoginRejected("the client's last SCRAM message is invalid")
        stored, server_key = self._credential.stored_key, self._credential.server_key
        text = f"{self._first},{self._challenge},{found['bare']}".encode()
        signature = hmac.digest(stored, text, self._hash)
        proof = _decoded_base64(found["proof"])
        if len(proof) != len(signature) or _decoded_base64(found["head"]) != self._head.encode():
            raise LoginRejected("the client's proof is invalid")
        key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.new(self._hash, key).digest(), stored):
            raise LoginRejected("the password is wrong")
        return b"v=" + base64.b64encode(hmac.digest(server_key, text, self._hash))


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise LoginRejected("a SCRAM message is not UTF-8 text") from None


def _decoded_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except NotBase64:
        raise LoginRejected("a SCRAM message is not valid Base64") from None


def _name(escaped: str) -> str:
    return escaped.replace("=2C", ",").replace("=3D", "=")
