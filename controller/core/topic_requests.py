"""Requests of admin tools about topics and features, and their answers.

Requests are events, answers are commands (events.py, commands.py). `request` numbers the requests
of one daemon run, and the answer has the same number. `version` is the API version where it affects
the outcome, `timeout_ms` how long the answer may wait.
"""

from msgspec import Struct

from controller.core.error_codes import NONE
from controller.core.releases import LATEST, Release

NOT_GIVEN = -1
"""The request leaves the number of partitions or replicas to the controller."""


class NewTopic(Struct, frozen=True, array_like=True):
    """One topic of a CreateTopics request: either counts (NOT_GIVEN: the default) or assignments
    (partition number and brokers, in the order of the request). A configuration without a value is
    None."""

    name: str
    partitions: int
    replication_factor: int
    assignments: list[tuple[int, tuple[int, ...]]]
    configs: list[tuple[str, str | None]]


class CreateTopicsReceived(Struct, frozen=True, array_like=True, tag="create_topics_received"):
    """An admin tool creates topics (KB 11.8, ZkAdminManager.createTopics)."""

    request: int
    version: int
    timeout_ms: int
    validate_only: bool
    topics: list[NewTopic]


class CreatedTopic(Struct, frozen=True, array_like=True, gc=False):
    """The answer for one topic of a CreateTopics request.

    `message` is None where Kafka sends none. Without an error the other fields describe the created
    topic (with validate_only, the topic that would be created): `configs` are the overrides.
    `topic_id` is None if there is none.
    """

    name: str
    error: int = NONE
    message: str | None = None
    topic_id: bytes | None = None
    partitions: int = NOT_GIVEN
    replication_factor: int = NOT_GIVEN
    configs: tuple[tuple[str, str], ...] = ()


class AnswerCreateTopics(Struct, frozen=True, array_like=True, tag="answer_create_topics"):
    """The answer to a `CreateTopicsReceived`, in the order of the request. Configurations are those
    that a controller of `release` returns."""

    request: int
    topics: tuple[CreatedTopic, ...]
    release: Release = LATEST


class NewPartitions(Struct, frozen=True, array_like=True):
    """One topic of a CreatePartitions request: the new number of partitions, and the brokers of
    each new one (None: the controller chooses)."""

    topic: str
    count: int
    assignments: list[tuple[int, ...]] | None


class CreatePartitionsReceived(
    Struct, frozen=True, array_like=True, tag="create_partitions_received"
):
    """An admin tool adds partitions (KB 11.8, ZkAdminManager.createPartitions)."""

    request: int
    version: int
    timeout_ms: int
    validate_only: bool
    topics: list[NewPartitions]


class TopicAnswer(Struct, frozen=True, array_like=True, gc=False):
    """The answer for one topic: an error code and, where Kafka sends one, a message."""

    name: str
    error: int = NONE
    message: str | None = None


class AnswerCreatePartitions(Struct, frozen=True, array_like=True, tag="answer_create_partitions"):
    """The answer to a `CreatePartitionsReceived`: every topic name once."""

    request: int
    topics: tuple[TopicAnswer, ...]


class DoomedTopic(Struct, frozen=True, array_like=True, gc=False):
    """One topic of a DeleteTopics request, by name or, from version 6 on, by id."""

    name: str | None
    topic_id: bytes | None


class DeleteTopicsReceived(Struct, frozen=True, array_like=True, tag="delete_topics_received"):
    """An admin tool deletes topics (KB 11.8, ZkAdminManager.deleteTopics)."""

    request: int
    version: int
    timeout_ms: int
    topics: list[DoomedTopic]


class DeletedTopic(Struct, frozen=True, array_like=True, gc=False):
    """The answer for one topic of a DeleteTopics request. `name` is None for an unknown id."""

    name: str | None
    topic_id: bytes | None
    error: int = NONE


class AnswerDeleteTopics(Struct, frozen=True, array_like=True, tag="answer_delete_topics"):
    """The answer to a `DeleteTopicsReceived`, in the order of the request. `error` is that of the
    whole request: INVALID_REQUEST if a topic is named both ways."""

    request: int
    error: int
    topics: tuple[DeletedTopic, ...]


class FeatureUpdate(Struct, frozen=True, array_like=True, gc=False):
    """One feature of an UpdateFeatures request. `upgrade_type`: 1 upgrade, 2 safe downgrade, 3
    unsafe downgrade; version 0's "allow downgrade" is 2."""

    feature: str
    level: int
    upgrade_type: int


class UpdateFeaturesReceived(Struct, frozen=True, array_like=True, tag="update_features_received"):
    """An admin tool changes finalized features (KB 11.9.2)."""

    request: int
    version: int
    timeout_ms: int
    validate_only: bool
    updates: list[FeatureUpdate]


class AnswerUpdateFeatures(Struct, frozen=True, array_like=True, tag="answer_update_features"):
    """The answer to an `UpdateFeaturesReceived`: an error of the whole request, or one for each
    feature (`TopicAnswer.name` is the feature's name)."""

    request: int
    error: int
    message: str | None = None
    features: tuple[TopicAnswer, ...] = ()


WaitingAnswer = AnswerCreateTopics | AnswerCreatePartitions | AnswerDeleteTopics


class WaitingRequest(Struct, array_like=True):
    """A request whose answer waits for leaders of partitions, or for the deletion of topics.

    `answer` is the answer when everything is done. Finished items are removed from the end of the
    lists.
    """

    answer: WaitingAnswer
    leaderless: list[tuple[str, int]]
    undeleted: list[str]


TopicRequest = (
    CreateTopicsReceived | CreatePartitionsReceived | DeleteTopicsReceived | UpdateFeaturesReceived
)
AnswerTopicRequest = (
    AnswerCreateTopics | AnswerCreatePartitions | AnswerDeleteTopics | AnswerUpdateFeatures
)
