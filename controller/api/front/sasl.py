"""The login of a client by SASL, before its first request (SaslServerAuthenticator)."""

import asyncio
import hmac
import struct
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from math import inf
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from controller.api.endpoint_security import EndpointSecurity
from controller.api.front.request_quotas import SMALL_BYTES
from controller.api.front.versions import VersionTable
from controller.security.errors import LoginRejected
from controller.security.oauthbearer import FAILED, OAUTHBEARER, InvalidToken, read_token
from controller.security.scram import HASHES, ScramCredential, ScramExchange
from controller.wire.api_versions import API_VERSIONS, read_api_versions
from controller.wire.client_requests import (
    HEAD_BYTES,
    RequestHead,
    decode_request,
    encode_response,
    read_head,
    response_schema,
)
from controller.wire.sasl import SASL_AUTHENTICATE, SASL_HANDSHAKE, SASL_SPANS

Lookup = Callable[[str, str], Awaitable[ScramCredential | None]]
"""The credential of a user for a mechanism; None if there is none."""

_SIZE_BYTES: Final = 4
_FIRST_WITH_LIFETIME: Final = 1


class Login(NamedTuple):
    """The result of a login: who the client is, and when it has to log in again, in the event
    loop's time; None: never."""

    principal: str
    mechanism: str
    expires_at: float | None


class ClientLogin:
    """One login. Frames before its end are small, so that strangers cannot fill the memory."""

    def __init__(
        self,
        security: EndpointSecurity,
        versions: VersionTable,
        lookup: Lookup,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._security = security
        self._versions = versions
        self._lookup = lookup
        self._reader = reader
        self._writer = writer
        self._bytes_max = min(security.receive_bytes_max, SMALL_BYTES)
        self._asked: RequestHead | None = None
        """The request that the next token answers; None if tokens have no header."""

    async def log_in(self) -> Login:
        """Carry out the login; return its result.

        Raises LoginRejected, MalformedRequest, IncompleteReadError, ConnectionError.
        """
        return await self._log_in(*await self._handshake())

    async def log_in_again(self, head: RequestHead, frame: bytes, earlier: Login) -> Login:
        """Renew a login, which the client begins with this SaslHandshake (KIP-368). As in Kafka
        neither the mechanism nor the principal may change. Raises as `log_in` does."""
        mechanism, has_headers = await self._mechanism(head, frame)
        if mechanism != earlier.mechanism:
            raise LoginRejected(
                f"SASL mechanism {mechanism} is not that of the login, {earlier.mechanism}"
            )
        return await self._log_in(mechanism, has_headers, earlier)

    async def _log_in(
        self, mechanism: str, has_headers: bool, earlier: Login | None = None
    ) -> Login:
        text: str | None = None
        try:
            user, last, until_ms = await self._exchange(mechanism, has_headers)
            principal = f"User:{user}"
            if earlier is not None and principal != earlier.principal:
                # Kafka's text, with its "." and ":".
                changed = (one.replace(":", ".", 1) for one in (earlier.principal, principal))
                text = (
                    f"Cannot change principals during re-authentication from {': '.join(changed)}"
                )
                raise LoginRejected(text)
        except LoginRejected as rejected:
            await asyncio.sleep(self._security.failure_delay_ms / 1000)
            if isinstance(rejected, InvalidToken):
                text = await self._announce(rejected, has_headers)
            await self._refuse(mechanism, text, is_again=earlier is not None)
            raise
        session_ms = self._session_ms(mechanism, until_ms)
        begun = asyncio.get_running_loop().time()
        await self._send_token(last, session_ms)
        return Login(principal, mechanism, begun + session_ms / 1000 if session_ms else None)

    def _session_ms(self, mechanism: str, until_ms: float) -> int:
        """How long a login counts, 0: always. A token ends it
        (SaslServerAuthenticator.calcCompletionTimesAndReturnSessionLifetimeMs)."""
        limit_ms = self._security.session_ms.get(mechanism, 0)
        if until_ms == inf:
            return limit_ms
        left_ms = max(int(until_ms - time.time() * 1000), 1)
        return min(left_ms, limit_ms) if limit_ms else left_ms

    async def _handshake(self) -> tuple[str, bool]:
        """The mechanism, and whether its tokens are in SaslAuthenticate requests."""
        knows_versions = False
        while True:
            head, frame = await self._request()
            if head.api_key == API_VERSIONS and not knows_versions:
                asked = read_api_versions(head, frame)
                await self._send(self._versions.answer(head, asked))
                knows_versions = asked.is_known and asked.is_valid
            elif head.api_key == SASL_HANDSHAKE:
                return await self._mechanism(head, frame)
            else:
                raise LoginRejected(f"a {head.description} came before the login")

    async def _mechanism(self, head: RequestHead, frame: bytes) -> tuple[str, bool]:
        _require_version(head)
        mechanism = decode_request(head, frame).mechanism
        known = self._security.mechanisms
        is_known = mechanism in known
        error = ErrorCode.none if is_known else ErrorCode.unsupported_sasl_mechanism
        await self._send(_response(head, error_code=error, mechanisms=known))
        if not is_known:
            # The client chose the text.
            shown = repr(mechanism[:32])
            raise LoginRejected(f"SASL mechanism {shown} is not one of {', '.join(known)}")
        return mechanism, head.version > 0

    async def _exchange(self, mechanism: str, has_headers: bool) -> tuple[str, bytes, float]:
        """The user, the last token of the server, and until when the client's credential counts,
        by the wall clock in ms."""
        first = await self._token(has_headers)
        if mechanism == OAUTHBEARER:
            token = read_token(first, self._security.token_rules, time.time() * 1000)
            return token.user, b"", token.expires_ms
        if mechanism not in HASHES:
            return self._plain_user(first), b"", inf
        scram = ScramExchange(mechanism, first)
        credential = await self._lookup(scram.user, mechanism)
        if credential is None:
            raise LoginRejected(f"there is no {mechanism} credential of user {scram.user[:64]!r}")
        await self._send_token(scram.challenge(credential))
        return scram.user, scram.verify(await self._token(has_headers)), inf

    async def _announce(self, invalid: InvalidToken, has_headers: bool) -> str:
        """Send why a token does not count, which the client confirms (RFC 7628). Returns the text
        of the refusal that follows."""
        await self._send_token(invalid.answer.encode())
        confirmation = await self._token(has_headers)
        if confirmation != FAILED:
            raise LoginRejected(f"{invalid}, and the client continues with it")
        return invalid.answer

    def _plain_user(self, token: bytes) -> str:
        """RFC 4616; Kafka's PlainSaslServer."""
        try:
            as_whom, user, password = token.decode().split("\0")
        except ValueError:
            raise LoginRejected("the client's PLAIN message is invalid") from None
        if as_whom not in ("", user):
            raise LoginRejected("the client requests the identity of another user")
        expected = self._security.users.get(user)
        if expected is None or not password:
            raise LoginRejected(f"PLAIN has no user {user[:64]!r}, or the password is empty")
        if not hmac.compare_digest(expected.reveal().encode(), password.encode()):
            raise LoginRejected(f"the password of user {user[:64]!r} is wrong")
        return user

    async def _token(self, has_headers: bool) -> bytes:
        if not has_headers:
            return await self._frame()
        head, frame = await self._request()
        if head.api_key == SASL_HANDSHAKE:
            _require_version(head)
            await self._send(
                _response(head, error_code=ErrorCode.illegal_sasl_state, mechanisms=())
            )
        if head.api_key != SASL_AUTHENTICATE:
            # The response to an earlier token was sent already.
            self._asked = None
            raise LoginRejected(f"a {head.description} came during the login")
        _require_version(head)
        self._asked = head
        token: bytes = decode_request(head, frame).auth_bytes
        return token

    async def _send_token(self, token: bytes, session_ms: int = 0) -> None:
        if self._asked is not None:
            await self._send(authenticated(self._asked, token, session_ms=session_ms))
        else:
            await self._send(struct.pack(">i", len(token)) + token)

    async def _refuse(self, mechanism: str, text: str | None, *, is_again: bool) -> None:
        """Kafka's response; the reason is for the log only. Without headers there is none."""
        if self._asked is None:
            return
        if text is None:
            text = (
                f"Authentication failed during {'re-' if is_again else ''}authentication due to "
                f"invalid credentials with SASL mechanism {mechanism}"
                if mechanism in HASHES or mechanism == OAUTHBEARER
                else "Authentication failed: Invalid username or password"
            )
        error = ErrorCode.sasl_authentication_failed
        await self._send(authenticated(self._asked, b"", error, text))

    async def _request(self) -> tuple[RequestHead, bytes]:
        frame = await self._frame()
        if len(frame) < HEAD_BYTES:
            raise LoginRejected("a frame before the login is not a request")
        return read_head(frame), frame

    async def _frame(self) -> bytes:
        size = int.from_bytes(await self._reader.readexactly(_SIZE_BYTES), "big", signed=True)
        if not 0 <= size <= self._bytes_max:
            raise LoginRejected(
                f"a request of {size} bytes before the login, at most {self._bytes_max} are "
                "allowed (sasl.server.max.receive.size); does the client use TLS, and the "
                "listener does not?"
            )
        return await self._reader.readexactly(size)

    async def _send(self, frame: bytes) -> None:
        self._writer.write(frame)
        await self._writer.drain()


def authenticated(
    head: RequestHead,
    token: bytes,
    error: ErrorCode = ErrorCode.none,
    message: str | None = None,
    session_ms: int = 0,
) -> bytes:
    """The response to a SaslAuthenticate request. `session_ms`: after how long the client has to
    log in again, from version 1 on; 0: never."""
    fields: dict[str, Any] = {"error_code": error, "error_message": message, "auth_bytes": token}
    if head.version >= _FIRST_WITH_LIFETIME:
        fields["session_lifetime"] = timedelta(milliseconds=session_ms)
    return _response(head, **fields)


def illegal_state(head: RequestHead) -> bytes:
    """The response to a request of SASL after the login, or on a listener without SASL
    (KafkaApis.handleSaslHandshakeRequest). Raises LoginRejected for an unknown version."""
    _require_version(head)
    if head.api_key == SASL_HANDSHAKE:
        return _response(head, error_code=ErrorCode.illegal_sasl_state, mechanisms=())
    text = "SaslAuthenticate request received after successful authentication"
    return authenticated(head, b"", ErrorCode.illegal_sasl_state, text)


def _require_version(head: RequestHead) -> None:
    first, last = SASL_SPANS[head.api_key]
    if not first <= head.version <= last:
        raise LoginRejected(f"a {head.description} is not supported")


def _response(head: RequestHead, **fields: Any) -> bytes:
    return encode_response(head, response_schema(head)(**fields))
