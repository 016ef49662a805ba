"""AlterUserScramCredentials: an admin tool changes the SCRAM credentials of users (KIP-554).

The request has no secrets, and so the log has none: keyed digests replace credentials. The daemon
keeps the secrets in memory (controller/event_log/secret_digests.py).
"""

from typing import ClassVar

from msgspec import Struct

from controller.core.api_requests.received_request import ReceivedRequest
from controller.core.error_codes import NONE


class ScramDeletion(Struct, frozen=True, array_like=True, gc=False):
    """One credential to delete. `mechanism`: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512."""

    user: str
    mechanism: int


class ScramUpsertion(Struct, frozen=True, array_like=True, gc=False):
    """One credential to set. `credential` is its keyed digest; empty if Kafka cannot make a
    credential of the salted password."""

    user: str
    mechanism: int
    iterations: int
    credential: str


class AlterUserScramCredentialsReceived(
    ReceivedRequest, frozen=True, array_like=True, tag="alter_user_scram_credentials_received"
):
    """An admin tool changes credentials (ZkAdminManager.alterUserScramCredentials)."""

    RULE: ClassVar[str] = "SCRAM credentials altered by request"
    CLUSTER_OPERATION: ClassVar[str | None] = "Alter"

    deletions: list[ScramDeletion]
    upsertions: list[ScramUpsertion]

    def refusal(self, error: int) -> "AlterUserScramCredentialsResponse":
        """The response with the error for each user, sorted by name, without messages."""
        users = {one.user for one in self.deletions} | {one.user for one in self.upsertions}
        refused = tuple(UserResult(user, error) for user in sorted(users))
        return AlterUserScramCredentialsResponse(self.request, refused)


class UserResult(Struct, frozen=True, array_like=True, gc=False):
    """The answer for one user: an error code and, where Kafka sends one, a message."""

    user: str
    error: int = NONE
    message: str | None = None


class AlterUserScramCredentialsResponse(
    Struct, frozen=True, array_like=True, tag="answer_alter_user_scram_credentials"
):
    """The response to an `AlterUserScramCredentialsReceived`: every user once."""

    request: int
    users: tuple[UserResult, ...]
