"""Which notices tell what has become of brokers, the role and topics."""

from typing import Final, Literal

from controller.core.commands import Notice
from replay.why.subject import Subject

BROKERS: Final[dict[str, Literal["registered", "gone", "bounced", "log directory failed"]]] = {
    "broker_started": "registered",
    "broker_failed": "gone",
    "broker_bounced": "bounced",
    "replicas_in_failed_log_dir": "log directory failed",
}

ROLE: Final = (
    "elected",
    "failover_done",
    "failover_failed",
    "resigned",
    "standing_by",
    "lost_election",
    "role_not_taken",
    "epoch_changed",
    "foreign_controller",
)

TOPICS: Final = (
    "topic_deletion_started",
    "topic_deletion_waits",
    "topic_deleted",
    "topic_not_deleted",
    "deletion_refused",
)

_OF_PARTITIONS: Final = ("no_leader_elected", "no_leader_created", "leaders_elected")
"""Those that say no more than facts of their own do."""


def is_about(notice: Notice, subject: Subject) -> bool:
    """Whether another notice belongs to the answer."""
    if notice.code in _OF_PARTITIONS:
        return False
    if subject.topic is not None:
        if notice.subject.endswith(f"/{subject.topic}/{subject.partition}"):
            return True
        words = notice.subject.replace(",", " ").replace("/", " ").split()
        if subject.partition is not None:
            return f"{subject.topic}-{subject.partition}" in words
        return any(subject.topic in (one, one.rpartition("-")[0]) for one in words)
    if subject.broker is not None:
        return notice.subject == f"broker {subject.broker}"
    return subject.term is not None and notice.level == "error"


def is_by_itself(notice: Notice) -> bool:
    """Whether an event is told of when it comes: what runs at that time has not led to it."""
    return notice.code == "broker_error" or notice.code.startswith("channel_")
