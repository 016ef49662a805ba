"""The answer to a request that is refused as a whole, for every kind of request."""

from controller.core.commands import (
    AnswerAllocateProducerIds,
    AnswerAlterPartition,
    AnswerAlterPartitionReassignments,
    AnswerControlledShutdown,
    AnswerElectLeaders,
    AnswerListPartitionReassignments,
    ApiAnswer,
    PartitionAnswer,
)
from controller.core.error_codes import NOT_CONTROLLER, NOT_CONTROLLER_TEXT
from controller.core.events import (
    AllocateProducerIdsReceived,
    AlterPartitionReassignmentsReceived,
    AlterPartitionReceived,
    ApiRequest,
    ControlledShutdownReceived,
    ElectLeadersReceived,
    ListPartitionReassignmentsReceived,
)
from controller.core.scram_requests import (
    AlterUserScramCredentialsReceived,
    AnswerAlterUserScramCredentials,
    UserAnswer,
)
from controller.core.topic_requests import (
    AnswerCreatePartitions,
    AnswerCreateTopics,
    AnswerDeleteTopics,
    AnswerTopicRequest,
    AnswerUpdateFeatures,
    CreatedTopic,
    CreatePartitionsReceived,
    CreateTopicsReceived,
    DeletedTopic,
    DeleteTopicsReceived,
    TopicAnswer,
    TopicRequest,
    UpdateFeaturesReceived,
)


def refusal(request: ApiRequest, error: int) -> ApiAnswer:
    """The answer with this error for everything that the request asks for."""
    number = request.request
    match request:
        case AlterPartitionReceived():
            return AnswerAlterPartition(number, error)
        case ControlledShutdownReceived():
            return AnswerControlledShutdown(number, error)
        case AllocateProducerIdsReceived():
            return AnswerAllocateProducerIds(number, error)
        case AlterPartitionReassignmentsReceived():
            return AnswerAlterPartitionReassignments(number, error)
        case ListPartitionReassignmentsReceived():
            return AnswerListPartitionReassignments(number, error)
        case ElectLeadersReceived(partitions=partitions):
            answers = tuple(PartitionAnswer(*name, error) for name in partitions or ())
            return AnswerElectLeaders(number, error, answers)
        case AlterUserScramCredentialsReceived(deletions=deletions, upsertions=upsertions):
            users = {one.user for one in deletions} | {one.user for one in upsertions}
            refused = tuple(UserAnswer(user, error) for user in sorted(users))
            return AnswerAlterUserScramCredentials(number, refused)
        case _:
            return _topic_refusal(request, error)


def _topic_refusal(request: TopicRequest, error: int) -> AnswerTopicRequest:
    """Messages as in Kafka's handlers: absent, empty, or the text of the error."""
    number = request.request
    match request:
        case CreateTopicsReceived(topics=new):
            text = "" if error == NOT_CONTROLLER else None
            return AnswerCreateTopics(
                number, tuple(CreatedTopic(one.name, error, text) for one in new)
            )
        case CreatePartitionsReceived(topics=grown):
            names = dict.fromkeys(one.topic for one in grown)
            return AnswerCreatePartitions(number, tuple(TopicAnswer(name, error) for name in names))
        case DeleteTopicsReceived(topics=doomed):
            deleted = tuple(DeletedTopic(one.name, one.topic_id, error) for one in doomed)
            return AnswerDeleteTopics(number, error, deleted)
        case UpdateFeaturesReceived():
            text = NOT_CONTROLLER_TEXT if error == NOT_CONTROLLER else None
            return AnswerUpdateFeatures(number, error, text)
