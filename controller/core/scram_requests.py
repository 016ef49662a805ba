"""What admin tools ask about the SCRAM credentials of users, and what they are answered.

No secret is in them: what a password was made into is a seal, which stands for what the daemon
keeps in memory (controller/event_log/secret_digests.py), and so it is in the log.
"""

from msgspec import Struct

from controller.core.error_codes import NONE


class ScramDeletion(Struct, frozen=True, array_like=True, gc=False):
    """One credential that shall go. `mechanism`: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512."""

    user: str
    mechanism: int


class ScramUpsertion(Struct, frozen=True, array_like=True, gc=False):
    """One credential that shall be as given. `credential` is its seal; empty where Kafka makes none
    of the salted password."""

    user: str
    mechanism: int
    iterations: int
    credential: str


class AlterUserScramCredentialsReceived(
    Struct, frozen=True, array_like=True, tag="alter_user_scram_credentials_received"
):
    """Somebody wants other credentials (ZkAdminManager.alterUserScramCredentials)."""

    request: int
    version: int
    deletions: list[ScramDeletion]
    upsertions: list[ScramUpsertion]


class UserAnswer(Struct, frozen=True, array_like=True, gc=False):
    """What one user is answered: an error code and, where Kafka sends one, a message."""

    user: str
    error: int = NONE
    message: str | None = None


class AnswerAlterUserScramCredentials(
    Struct, frozen=True, array_like=True, tag="answer_alter_user_scram_credentials"
):
    """The answer to an `AlterUserScramCredentialsReceived`: every user once."""

    request: int
    users: tuple[UserAnswer, ...]
