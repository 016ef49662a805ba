"""An answer to an admin tool that waits until brokers know what it tells of.

Kafka's waits until its own broker's metadata cache shows it (DelayedCreatePartitions,
DelayedDeleteTopics, DelayedElectLeader); here nobody is both.
"""

from msgspec import Struct

from controller.core.commands import AnswerElectLeaders, CommandId
from controller.core.topic_requests import WaitingAnswer


class Announcement(Struct, array_like=True):
    """`awaited`: the brokers that have not answered, each with the last UpdateMetadata that it was
    sent by then. `is_heard`: a broker has answered."""

    answer: WaitingAnswer | AnswerElectLeaders
    awaited: dict[int, CommandId]
    is_heard: bool = False
