"""The subject of a question, and the parts of its answer."""

from typing import Final

from msgspec import Struct

from controller.core.commands import Notice
from controller.core.values import LeaderAndIsr
from controller.core.znodes import broker_path
from replay.names import partition_name

_WITHOUT_CAUSE: Final = ("broker_error", "reassignment_ended", "reassignment_not_cancelled")
"""Notices of what another process did."""
_PARTITION_NOTICES: Final = ("no_leader_elected", "no_leader_created", "leaders_elected")
"""Notices that say no more than the facts about their partitions."""

STATE_MACHINE_STUCK: Final = "batch_not_empty"
"""The notice that a state machine cannot send requests any more: its last batch was not sent."""
PROCEDURE_FAILED: Final = "procedure_failed"
"""The notice that the controller gave up a controller event."""
QUEUE_STUCK: Final = "queue_stuck"
"""A stock controller that processes no controller events any more; no notice has this code."""
NOT_CANCELLED: Final = "reassignment_not_cancelled"
"""The notice that a move had been completed when its cancellation was read."""
CONTROLLER_FAILURES: Final = (STATE_MACHINE_STUCK, PROCEDURE_FAILED, QUEUE_STUCK)
"""Notices about the controller itself. They belong to every answer."""


class Subject(Struct, frozen=True):
    """The partition, topic, broker or term of a question. A broker with a partition means its
    replica. `is_reassignment`: the question is about the reassignment of the partition.
    `is_unhealthy`: the question is about everything that is not well. `is_everything`: all facts
    are wanted, as for a report."""

    topic: str | None = None
    partition: int | None = None
    broker: int | None = None
    term: int | None = None
    is_reassignment: bool = False
    is_unhealthy: bool = False
    is_everything: bool = False

    @property
    def is_of_role(self) -> bool:
        """Whether the question is about the controller role."""
        return self.topic is None and self.broker is None

    def is_about(self, topic: str, number: int) -> bool:
        """Whether the question is about a partition or its topic."""
        is_named = self.topic is not None or self.is_everything
        return is_named and self.covers(topic, number)

    def covers_topic(self, topic: str | None) -> bool:
        """Whether facts about a whole topic belong to the answer."""
        return topic is not None and (topic == self.topic or self.is_everything)

    def covers(self, topic: str, number: int) -> bool:
        """Whether facts about a partition belong to the answer."""
        if self.topic is not None:
            return topic == self.topic and self.partition in (None, number)
        return self.broker is not None or self.is_everything

    def covers_state(self, before: LeaderAndIsr | None, after: LeaderAndIsr) -> bool:
        """Whether a change of a covered partition's state belongs to the answer. For a question
        about a broker, the change must concern that broker."""
        if self.topic is not None or self.broker is None:
            return True
        return has_role_changed(before, after, self.broker)

    def covers_notice(self, notice: Notice) -> bool:
        """Whether a notice that is no other kind of fact belongs to the answer."""
        if notice.code in _PARTITION_NOTICES:
            return False
        if notice.code in CONTROLLER_FAILURES or self.is_everything:
            return True
        if self.topic is not None:
            if notice.subject.endswith(f"/{self.topic}/{self.partition}"):
                return True
            words = notice.subject.replace(",", " ").replace("/", " ").split()
            if self.partition is not None:
                return partition_name(self.topic, self.partition) in words
            return any(self.topic in (one, one.rpartition("-")[0]) for one in words)
        if self.broker is not None:
            return notice.subject in (f"broker {self.broker}", broker_path(self.broker))
        return self.term is not None and notice.level == "error"


def has_role_changed(before: LeaderAndIsr | None, after: LeaderAndIsr, broker: int) -> bool:
    """Whether a broker began or ceased to lead a partition or to be in sync."""
    was = (False, False) if before is None else _role(before, broker)
    return was != _role(after, broker)


def _role(state: LeaderAndIsr, broker: int) -> tuple[bool, bool]:
    """Whether a broker leads, and whether it is in sync."""
    return state.leader == broker, broker in state.isr


def has_no_cause(notice: Notice) -> bool:
    """Whether a notice reports an event that the procedure of that moment did not cause."""
    return notice.code in _WITHOUT_CAUSE or notice.code.startswith("channel_")
