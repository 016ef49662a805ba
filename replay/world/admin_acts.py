"""The steps of each act of an administrator: requests to ZooKeeper and to the controller.

An act is a generator. It yields a request and receives the reply. The znodes are those that Kafka's
tools and `refold reassign` write.
"""

from collections.abc import Generator
from typing import Final

import msgspec

from controller.core import znodes
from controller.core.api_requests import AdminRequest, ApiResponse
from controller.core.api_requests.elections import ElectLeadersReceived
from controller.core.api_requests.features import FeatureUpdate, UpdateFeaturesReceived
from controller.core.api_requests.reassignments import (
    AlterPartitionReassignmentsReceived,
    ListPartitionReassignmentsReceived,
    ListPartitionReassignmentsResponse,
    ReassignmentTarget,
)
from controller.core.api_requests.scram_credentials import (
    AlterUserScramCredentialsReceived,
    ScramDeletion,
    ScramUpsertion,
)
from controller.core.api_requests.topics import (
    NOT_GIVEN,
    CreatePartitionsReceived,
    CreateTopicsReceived,
    DeleteTopicsReceived,
    NewPartitions,
    NewTopic,
    TopicToDelete,
)
from controller.core.operations import NO_NODE, Create, CreateSequential, Delete, SetData
from controller.core.values import ANY_VERSION, Assignment
from controller.core.znodes.notifications import CONFIG_CHANGE_PREFIX, write_config_change
from controller.core.znodes.reassignment import (
    CANCEL_CONTENT,
    DELETION_PREFIX,
    FORCED_CANCEL_CONTENT,
    REQUEST_PREFIX,
    Entry,
    ReplicaDeletion,
    write_deletion,
    write_entries,
    write_request,
)
from controller.core.znodes.topics import TopicContent, write_topic
from replay.parsed_znodes import parsed_topic
from replay.world.draws import Draws
from replay.world.inputs import (
    MECHANISMS,
    UPGRADE_KINDS,
    AdminAct,
    AlterUserScramCredentials,
    CancelReassignment,
    ChangeBrokerConfig,
    ChangeTopicConfig,
    CreatePartitions,
    CreateTopic,
    DeleteControllerZnode,
    DeleteStrays,
    DeleteTopic,
    DeleteZnode,
    ElectLeaders,
    EndCancellation,
    Reassign,
    UpdateFeatures,
    WriteZnode,
)
from replay.world.requests import GetData, Reply, Request

TIMEOUT_MS: Final = 30_000
"""The time-out of a request, and how long the administrator waits for its response."""

_MECHANISMS: Final = {name: number for number, name in MECHANISMS.items()}
_UPGRADE_TYPES: Final = {kind: number for number, kind in UPGRADE_KINDS.items()}

Step = Request | AdminRequest
Steps = Generator[Step, Reply | ApiResponse, None]


def steps_of(act: AdminAct, draws: Draws) -> Steps:
    """The steps of an act."""
    match act:
        case CreateTopic():
            return _create_topic(act, draws)
        case DeleteTopic():
            return _delete_topic(act)
        case CreatePartitions():
            return _create_partitions(act)
        case ChangeTopicConfig(topic=topic, configs=configs):
            path = znodes.topic_config_path(topic)
            return _change_config(path, znodes.config_entity(path), configs)
        case ChangeBrokerConfig(broker=broker, configs=configs):
            path = znodes.broker_config_path(broker)
            return _change_config(path, znodes.config_entity(path), configs)
        case AlterUserScramCredentials():
            return _alter_credentials(act)
        case UpdateFeatures():
            return _update_features(act)
        case Reassign():
            return _reassign(act)
        case CancelReassignment():
            return _cancel(act)
        case EndCancellation():
            return _single_step(Delete(znodes.REASSIGN_CANCEL, ANY_VERSION))
        case DeleteStrays(broker=broker, partitions=partitions):
            deletion = write_deletion(ReplicaDeletion(broker, partitions))
            return _single_step(CreateSequential(DELETION_PREFIX, deletion))
        case ElectLeaders():
            return _elect(act)
        case DeleteControllerZnode():
            return _single_step(Delete(znodes.CONTROLLER, ANY_VERSION))
        case WriteZnode(path=path, data=data):
            return _write_znode(path, data.encode())
        case DeleteZnode(path=path):
            return _single_step(Delete(path, ANY_VERSION))


def _single_step(request: Step) -> Steps:
    yield request


def _write_znode(path: str, data: bytes) -> Steps:
    reply = yield SetData(path, data, ANY_VERSION)
    assert isinstance(reply, Reply)
    if reply.result.error == NO_NODE:
        yield Create(path, data)


def _change_config(path: str, entity: str, configs: dict[str, str]) -> Steps:
    yield from _write_znode(path, znodes.write_config(configs))
    yield CreateSequential(CONFIG_CHANGE_PREFIX, write_config_change(entity))


def _create_topic(act: CreateTopic, draws: Draws) -> Steps:
    """AdminZkClient.createTopicWithAssignment writes the configuration first."""
    if act.route == "api":
        numbered = list(enumerate(act.assignment))
        configs: list[tuple[str, str | None]] = list(act.configs.items())
        topic = NewTopic(act.topic, NOT_GIVEN, NOT_GIVEN, numbered, configs)
        yield CreateTopicsReceived(0, 7, TIMEOUT_MS, False, [topic])
        return
    config_path = znodes.topic_config_path(act.topic)
    yield from _change_config(config_path, f"topics/{act.topic}", act.configs)
    content = TopicContent(
        {number: Assignment(replicas) for number, replicas in enumerate(act.assignment)},
        draws.topic_id() if act.route == "znode_with_id" else None,
    )
    yield Create(znodes.topic_path(act.topic), write_topic(content))


def _delete_topic(act: DeleteTopic) -> Steps:
    if act.route == "api":
        yield DeleteTopicsReceived(0, 5, TIMEOUT_MS, [TopicToDelete(act.topic, None)])
    else:
        yield Create(znodes.delete_topic_path(act.topic), b"")


def _create_partitions(act: CreatePartitions) -> Steps:
    """AdminZkClient.addPartitions reads the topic and writes it again, without its version."""
    path = znodes.topic_path(act.topic)
    reply = yield GetData(path)
    assert isinstance(reply, Reply)
    content = parsed_topic(act.topic, reply.result.data)
    if content is None:
        return
    first = len(content.assignments)
    if act.route == "api":
        new = NewPartitions(act.topic, first + len(act.added), list(act.added))
        yield CreatePartitionsReceived(0, 3, TIMEOUT_MS, False, [new])
        return
    added = {number: Assignment(one) for number, one in enumerate(act.added, first)}
    topic_id = content.topic_id if act.route == "znode" else None
    changed = TopicContent({**content.assignments, **added}, topic_id)
    yield SetData(path, write_topic(changed), ANY_VERSION)


def _alter_credentials(act: AlterUserScramCredentials) -> Steps:
    deletions, upsertions = [], []
    for one in act.changes:
        mechanism = _MECHANISMS[one.mechanism]
        if one.credential is None:
            deletions.append(ScramDeletion(one.user, mechanism))
        else:
            upsertion = ScramUpsertion(one.user, mechanism, one.iterations, one.credential)
            upsertions.append(upsertion)
    yield AlterUserScramCredentialsReceived(0, 0, deletions, upsertions)


def _update_features(act: UpdateFeatures) -> Steps:
    updates = [
        FeatureUpdate(one.feature, one.level, _UPGRADE_TYPES[one.kind]) for one in act.changes
    ]
    yield UpdateFeaturesReceived(0, 1, TIMEOUT_MS, act.validate_only, updates)


def _reassign(act: Reassign) -> Steps:
    if act.route == "api":
        targets = [
            ReassignmentTarget(one.topic, one.partition, one.replicas) for one in act.targets
        ]
        yield AlterPartitionReassignmentsReceived(0, 0, targets)
        return
    replicas = {(one.topic, one.partition): one.replicas for one in act.targets}
    if act.route in ("request", "legacy_request"):
        data = write_request(replicas, legacy=act.route == "legacy_request")
        yield CreateSequential(REQUEST_PREFIX, data)
        return
    is_extra = act.route == "extra"
    path = znodes.REASSIGN_PARTITIONS_EXTRA if is_extra else znodes.REASSIGN_PARTITIONS
    yield from _write_znode(
        path, write_entries({name: Entry(one) for name, one in replicas.items()})
    )


def _cancel(act: CancelReassignment) -> Steps:
    if act.route == "znode":
        content = FORCED_CANCEL_CONTENT if act.force else CANCEL_CONTENT
        yield Create(znodes.REASSIGN_CANCEL, content)
        return
    names = list(act.partitions)
    if not names:
        listed = yield ListPartitionReassignmentsReceived(0, 0, None)
        assert isinstance(listed, ListPartitionReassignmentsResponse)
        names = [(one.topic, one.partition) for one in listed.partitions]
    if names:
        cancelled = [ReassignmentTarget(*name, None) for name in names]
        yield AlterPartitionReassignmentsReceived(0, 0, cancelled)


def _elect(act: ElectLeaders) -> Steps:
    if act.route == "api":
        names = list(act.partitions) or None
        yield ElectLeadersReceived(0, 2, act.election, names, TIMEOUT_MS)
        return
    partitions = [{"topic": topic, "partition": number} for topic, number in act.partitions]
    content = msgspec.json.encode({"version": 1, "partitions": partitions})
    yield Create(znodes.PREFERRED_ELECTION, content)
