"""Requests of admin tools about the SCRAM credentials of users, and their answers.

They hold no secrets: a salted password is replaced by a keyed digest, whose secret the daemon keeps
in memory (controller/event_log/secret_digests.py). So the log has no secret either.
"""

from msgspec import Struct

from controller.core.error_codes import NONE


class ScramDeletion(Struct, frozen=True, array_like=True, gc=False):
    """One credential to delete. `mechanism`: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512."""

    user: str
    mechanism: int


class ScramUpsertion(Struct, frozen=True, array_like=True, gc=False):
    """One credential to set. `credential` is its seal; empty if Kafka cannot make a credential of
    the salted password."""

    user: str
    mechanism: int
    iterations: int
    credential: str


class AlterUserScramCredentialsReceived(
    Struct, frozen=True, array_like=True, tag="alter_user_scram_credentials_received"
):
    """An admin tool changes credentials (ZkAdminManager.alterUserScramCredentials)."""

    request: int
    version: int
    deletions: list[ScramDeletion]
    upsertions: list[ScramUpsertion]


class UserAnswer(Struct, frozen=True, array_like=True, gc=False):
    """The answer for one user: an error code and, where Kafka sends one, a message."""

    user: str
    error: int = NONE
    message: str | None = None


class AnswerAlterUserScramCredentials(
    Struct, frozen=True, array_like=True, tag="answer_alter_user_scram_credentials"
):
    """The answer to an `AlterUserScramCredentialsReceived`: every user once."""

    request: int
    users: tuple[UserAnswer, ...]
