"""CreateTopics, CreatePartitions and DeleteTopics (KB 11.8). `timeout_ms` limits how long a
response waits for brokers."""

from typing import ClassVar

from msgspec import Struct

from controller.core.api_requests.received_request import ReceivedRequest
from controller.core.error_codes import NONE, NOT_CONTROLLER
from controller.core.releases import LATEST, Release


class MutatingRequest(ReceivedRequest, frozen=True, array_like=True, kw_only=True):
    """A request to which a controller mutation quota applies (KIP-599). `client_id` is the last
    field; it is None in logs from before the quotas were followed."""

    STRICT_SINCE: ClassVar[int]
    """From this version on, changes above the quota are refused; earlier versions are throttled."""

    client_id: str | None = None


NOT_GIVEN = -1
"""The request leaves the number of partitions or replicas to the controller."""
_HIDDEN = -2
"""The client may not see the number of partitions."""


class NewTopic(Struct, frozen=True, array_like=True):
    """One topic of a CreateTopics request: either counts (NOT_GIVEN: the default) or assignments
    (partition number and brokers, in the order of the request). A configuration without a value is
    None."""

    name: str
    partitions: int
    replication_factor: int
    assignments: list[tuple[int, tuple[int, ...]]]
    configs: list[tuple[str, str | None]]


class CreateTopicsReceived(
    MutatingRequest, frozen=True, array_like=True, tag="create_topics_received"
):
    """An admin tool creates topics (ZkAdminManager.createTopics)."""

    RULE: ClassVar[str] = "topics created by request"
    STRICT_SINCE: ClassVar[int] = 6

    timeout_ms: int
    validate_only: bool
    topics: list[NewTopic]

    def refusal(self, error: int) -> "CreateTopicsResponse":
        """The response with the error for each topic. As in Kafka, NOT_CONTROLLER has an empty
        message, and other errors have none."""
        text = "" if error == NOT_CONTROLLER else None
        refused = tuple(CreatedTopic(one.name, error, text) for one in self.topics)
        return CreateTopicsResponse(self.request, refused)


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

    @property
    def hides_configs(self) -> bool:
        """Whether the configuration and the counts are left out, because the client may not see
        them."""
        return self.partitions == _HIDDEN

    def without_configs(self) -> "CreatedTopic":
        """The answer for such a client (KafkaApis.handleCreateTopicsRequest)."""
        return CreatedTopic(self.name, self.error, self.message, self.topic_id, _HIDDEN)


class CreateTopicsResponse(Struct, frozen=True, array_like=True, tag="answer_create_topics"):
    """The response to a `CreateTopicsReceived`, in the order of the request. Configurations are
    those that a controller of `release` returns."""

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
    MutatingRequest, frozen=True, array_like=True, tag="create_partitions_received"
):
    """An admin tool adds partitions (ZkAdminManager.createPartitions)."""

    RULE: ClassVar[str] = "partitions added by request"
    STRICT_SINCE: ClassVar[int] = 3

    timeout_ms: int
    validate_only: bool
    topics: list[NewPartitions]

    def refusal(self, error: int) -> "CreatePartitionsResponse":
        """The response with the error for each topic, without messages."""
        names = dict.fromkeys(one.topic for one in self.topics)
        return CreatePartitionsResponse(
            self.request, tuple(TopicResult(name, error) for name in names)
        )


class TopicResult(Struct, frozen=True, array_like=True, gc=False):
    """The answer for one topic: an error code and, where Kafka sends one, a message."""

    name: str
    error: int = NONE
    message: str | None = None


class CreatePartitionsResponse(
    Struct, frozen=True, array_like=True, tag="answer_create_partitions"
):
    """The response to a `CreatePartitionsReceived`: every topic name once."""

    request: int
    topics: tuple[TopicResult, ...]


class TopicToDelete(Struct, frozen=True, array_like=True, gc=False):
    """One topic of a DeleteTopics request, by name or, from version 6 on, by id."""

    name: str | None
    topic_id: bytes | None


class DeleteTopicsReceived(
    MutatingRequest, frozen=True, array_like=True, tag="delete_topics_received"
):
    """An admin tool deletes topics (ZkAdminManager.deleteTopics)."""

    RULE: ClassVar[str] = "topics deleted by request"
    STRICT_SINCE: ClassVar[int] = 5

    timeout_ms: int
    topics: list[TopicToDelete]

    def refusal(self, error: int) -> "DeleteTopicsResponse":
        """The response with the error for each topic."""
        refused = tuple(DeletedTopic(one.name, one.topic_id, error) for one in self.topics)
        return DeleteTopicsResponse(self.request, error, refused)


class DeletedTopic(Struct, frozen=True, array_like=True, gc=False):
    """The answer for one topic of a DeleteTopics request. `name` is None for an unknown id."""

    name: str | None
    topic_id: bytes | None
    error: int = NONE


class DeleteTopicsResponse(Struct, frozen=True, array_like=True, tag="answer_delete_topics"):
    """The response to a `DeleteTopicsReceived`, in the order of the request. `error` is that of the
    whole request: INVALID_REQUEST if a topic is named both ways."""

    request: int
    error: int
    topics: tuple[DeletedTopic, ...]


WaitingResponse = CreateTopicsResponse | CreatePartitionsResponse | DeleteTopicsResponse


class WaitingRequest(Struct, array_like=True):
    """A request whose response waits for leaders of partitions, or for the deletion of topics.

    `response`: when everything is done. Finished items are removed from the end of the lists.
    """

    response: WaitingResponse
    leaderless: list[tuple[str, int]]
    undeleted: list[str]
