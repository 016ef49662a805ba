"""OAUTHBEARER as a server, with Kafka's unsecured tokens (RFC 7628, OAuthBearerSaslServer,
OAuthBearerUnsecuredValidatorCallbackHandler, OAuthBearerUnsecuredJws). Pure.

Nothing signs these tokens: a client that can connect may claim any name. As in Kafka, they are the
default; validators of signed tokens are callback handlers, which refold refuses.
"""

import base64
import binascii
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct

from controller.security.errors import LoginRejected

OAUTHBEARER: Final = "OAUTHBEARER"
FAILED: Final = b"\x01"
"""The message that a client sends after an error, instead of a token."""

_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PAIR: Final = r"[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01"
_INITIAL: Final = re.compile(rf"n,(?:a=(?P<as_whom>{_NAME}))?,\x01(?P<pairs>(?:{_PAIR})*)\x01")
_AUTH: Final = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_.a-zA-Z0-9]+)", re.ASCII)
_MS: Final = 1000


class TokenRules(Struct, frozen=True, kw_only=True):
    """The options unsecuredValidator... of the login module."""

    principal_claim: str = "sub"
    scope_claim: str = "scope"
    required_scope: tuple[str, ...] = ()
    clock_skew_ms: int = 0


class Token(NamedTuple):
    """A valid token: who its client is, and until when, by the wall clock."""

    user: str
    expires_ms: float


class InvalidToken(LoginRejected):
    """A token that Kafka does not accept. `answer`: the challenge that the client receives."""

    def __init__(self, why: str, missing_scope: Sequence[str] = ()) -> None:
        super().__init__(f"the OAUTHBEARER token is not valid: {why}")
        status = "insufficient_scope" if missing_scope else "invalid_token"
        answer = {"status": status}
        if missing_scope:
            answer["scope"] = " ".join(missing_scope)
        self.answer = json.dumps(answer, separators=(",", ":"))


def read_token(message: bytes, rules: TokenRules, now_ms: float) -> Token:
    """The token in the first message of a client. Raises `InvalidToken` for one that does not
    count, and LoginRejected for a message that is none, or that wants another identity."""
    try:
        found = _INITIAL.fullmatch(message.decode("ascii"))
    except UnicodeDecodeError:
        found = None
    pairs = dict(one.split("=", 1) for one in found["pairs"].split("\x01") if one) if found else {}
    auth = _AUTH.fullmatch(pairs.get("auth", ""))
    if found is None or auth is None or auth["scheme"].lower() != "bearer":
        raise LoginRejected("the client's OAUTHBEARER message is invalid")
    token = _validated_token(auth["token"], rules, now_ms)
    as_whom = (found["as_whom"] or "").replace("=2C", ",").replace("=3D", "=")
    if as_whom and as_whom != token.user:
        raise LoginRejected("the client requests the identity of another user")
    return token


def _validated_token(text: str, rules: TokenRules, now_ms: float) -> Token:
    parts = text.split(".")
    if len(parts) != 3 or not parts[0] or not parts[1]:
        raise InvalidToken("it does not have the parts of a JWS")
    header, claims = _json(parts[0]), _json(parts[1])
    if header.get("alg") != "none" or parts[2]:
        raise InvalidToken("it is signed; refold accepts Kafka's unsecured tokens only")
    user = claims.get(rules.principal_claim)
    if not isinstance(user, str) or not user.strip():
        raise InvalidToken(f"it has no claim {rules.principal_claim}")
    expires_ms = _time_ms(claims, "exp")
    issued_ms = _time_ms(claims, "iat")
    if expires_ms is None:
        raise InvalidToken("it has no claim exp")
    if issued_ms is not None and issued_ms > now_ms + rules.clock_skew_ms:
        raise InvalidToken("it is issued in the future")
    if now_ms - rules.clock_skew_ms >= expires_ms:
        raise InvalidToken("it has expired")
    if issued_ms is not None and expires_ms <= issued_ms:
        raise InvalidToken("it expires before it is issued")
    scope = _scope(claims, rules.scope_claim)
    if not set(rules.required_scope) <= scope:
        raise InvalidToken("its scope is too small", rules.required_scope)
    return Token(user, expires_ms)


def _json(part: str) -> Mapping[str, Any]:
    try:
        raw = base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
        found = json.loads(raw)
    except (binascii.Error, ValueError, RecursionError):
        raise InvalidToken("a part of it is not JSON in Base64") from None
    if not isinstance(found, dict):
        raise InvalidToken("a part of it is not a JSON object")
    return found


def _time_ms(claims: Mapping[str, Any], name: str) -> float | None:
    found = claims.get(name)
    if found is None:
        return None
    # NaN and infinity are no numbers in JSON, but Python accepts them.
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    if not is_number or not -1e15 < found < 1e15:
        raise InvalidToken(f"its claim {name} is not a number")
    return float(found) * _MS


def _scope(claims: Mapping[str, Any], name: str) -> set[str]:
    found = claims.get(name)
    if isinstance(found, str):
        return set(found.split())
    if isinstance(found, list):
        return {one.strip() for one in found if isinstance(one, str)}
    return set()
