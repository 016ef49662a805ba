"""AlterUserScramCredentials on the wire, and SCRAM credentials (RFC 5802) as Kafka stores them."""

import hashlib
import hmac
from base64 import b64encode
from typing import Any, Final

from kio.schema.errors import ErrorCode

from controller.core.api_requests.scram_credentials import (
    AlterUserScramCredentialsReceived,
    AlterUserScramCredentialsResponse,
    ScramDeletion,
    ScramUpsertion,
)
from controller.wire.admin.admin_api import AdminApi, ResponseBuilder
from controller.wire.request_body import RequestBody

_HASHES: Final = {1: "sha256", 2: "sha512"}
"""By mechanism (org.apache.kafka.clients.admin.ScramMechanism)."""


def _decode(body: RequestBody, version: int, request: int) -> AlterUserScramCredentialsReceived:
    """The salted password stays here: the event has only the credential that brokers store."""

    def deletion() -> ScramDeletion:
        return ScramDeletion(body.string(), body.int8())

    def upsertion() -> ScramUpsertion:
        user, mechanism, iterations = body.string(), body.int8(), body.int32()
        credential = credential_of(mechanism, body.octets(), body.octets(), iterations)
        return ScramUpsertion(user, mechanism, iterations, credential)

    deletions = body.structures(deletion)
    return AlterUserScramCredentialsReceived(
        request, version, deletions, body.structures(upsertion)
    )


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


def _fields(
    response: AlterUserScramCredentialsResponse, builder: ResponseBuilder
) -> dict[str, Any]:
    results = tuple(
        builder.make(
            "AlterUserScramCredentialsResult",
            user=one.user,
            error_code=ErrorCode(one.error),
            error_message=one.message,
        )
        for one in response.users
    )
    return {"results": results}


ALTER_USER_SCRAM_CREDENTIALS: Final = AdminApi(
    key=51,
    name="AlterUserScramCredentials",
    first=0,
    last=0,
    first_flexible=0,
    decode=_decode,
    response=AlterUserScramCredentialsResponse,
    fields=_fields,
)
