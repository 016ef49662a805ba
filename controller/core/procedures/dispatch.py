"""Calls the procedure of each controller event, joins events that are handled together, and handles
errors (KB 3.1).
"""

from typing import Final, assert_never

from controller.core import topic_names
from controller.core.api_requests.topics import CreateTopicsReceived
from controller.core.controller import Controller
from controller.core.deviations import CREATIONS_TOGETHER, REASSIGNMENTS_TOGETHER
from controller.core.errors import ControllerMovedError
from controller.core.failures import report_error
from controller.core.procedures.admin.acls import process_acl_changes
from controller.core.procedures.admin.mutation_quotas import follow_mutation_quotas
from controller.core.procedures.api_calls import process_request
from controller.core.procedures.dynamic_configuration import process_config_changes
from controller.core.procedures.elections.partition_state_machine import retry_offline_partitions
from controller.core.procedures.elections.rebalance import process_rebalance
from controller.core.procedures.elections.replica_election import process_election_znode
from controller.core.procedures.reassignment.cancellation import process_cancel, retry_rollbacks
from controller.core.procedures.reassignment.initiation import (
    process_reassignment_znode,
    process_state_changes,
)
from controller.core.procedures.reassignment.kip236_requests import (
    process_requests,
)
from controller.core.procedures.reassignment.reassign_partitions_extra import process_extra
from controller.core.procedures.reassignment.replica_deletion import (
    process_deletions,
    report_unconfirmed,
)
from controller.core.procedures.reassignment_znodes.cancel_znode import retry_waiting_rollbacks
from controller.core.procedures.reassignment_znodes.records import repair_records
from controller.core.procedures.role import controller_election
from controller.core.procedures.role.following import follow
from controller.core.procedures.topics.deletion import (
    is_of_an_earlier_term,
    process_stop_replica_response,
    process_topic_deletion,
)
from controller.core.procedures.znode_changes.broker_change import (
    process_broker_change,
    process_broker_modification,
)
from controller.core.procedures.znode_changes.isr_change import process_isr_changes
from controller.core.procedures.znode_changes.log_dirs import (
    process_leader_and_isr_response,
    process_log_dir_events,
)
from controller.core.procedures.znode_changes.topic_change import (
    process_partition_modifications,
    process_topic_change,
)
from controller.core.triggers import (
    AclChange,
    ApiCall,
    AutoPreferredReplicaLeaderElection,
    BrokerChange,
    BrokerModifications,
    ConfigChange,
    ControllerChange,
    Expire,
    ExtraReassignments,
    Follow,
    HandBack,
    IsrChangeNotification,
    LeaderAndIsrResponseReceived,
    LogDirEventNotification,
    PartitionModifications,
    PartitionReassignmentIsrChange,
    ReassignmentCancel,
    ReassignmentRequests,
    Reelect,
    ReplicaDeletions,
    ReplicaLeaderElection,
    Startup,
    TopicChange,
    TopicDeletion,
    TopicDeletionStopReplicaResponseReceived,
    TopicUncleanLeaderElectionEnable,
    Trigger,
    UncleanLeaderElectionEnable,
    UnconfirmedDeletions,
    ZkPartitionReassignment,
)

_UNCLEAN_ENABLED = "unclean leader election was enabled"


async def process(controller: Controller, trigger: Trigger) -> None:
    """Handle one controller event from start to end (KafkaController.process, KB 3.1.5).

    After a fencing error, the daemon reads /controller. Any other error is reported and drops the
    rest of the event.
    """
    try:
        await _run_procedure(controller, trigger)
    except ControllerMovedError:
        await controller_election.maybe_resign(controller, fenced=True)
    except Exception as error:
        report_error(controller, "procedure_failed", type(trigger).__name__, error)


async def _run_procedure(controller: Controller, trigger: Trigger) -> None:
    match trigger:
        case Startup():
            await controller_election.start_up(controller)
        case ControllerChange():
            await controller_election.process_controller_change(controller)
        case Reelect():
            await controller_election.reelect(controller)
        case Expire():
            controller_election.resign(controller, "the ZooKeeper session is over")
        case HandBack(reason=reason):
            await controller_election.hand_back(controller, reason)
        case Follow():
            await follow(controller)
        case ApiCall() as call:
            await process_request(controller, call)
        case _ if not controller.is_active:
            pass
        case BrokerChange():
            await process_broker_change(controller)
        case BrokerModifications(broker=broker):
            await process_broker_modification(controller, broker)
        case TopicChange():
            await process_topic_change(controller)
        case PartitionModifications(topic=topic):
            await process_partition_modifications(controller, topic)
        case IsrChangeNotification():
            await process_isr_changes(controller)
        case LogDirEventNotification():
            await process_log_dir_events(controller)
        case LeaderAndIsrResponseReceived(response=answer, asked=asked):
            await process_leader_and_isr_response(controller, answer, asked)
        case TopicDeletion():
            await process_topic_deletion(controller)
        case TopicDeletionStopReplicaResponseReceived(response=answer, asked=asked, epoch=epoch):
            if not is_of_an_earlier_term(controller, epoch):
                await process_stop_replica_response(controller, answer, asked)
        case ZkPartitionReassignment(created=created):
            await process_reassignment_znode(controller, created=created)
        case ReassignmentCancel() as cancel:
            await process_cancel(controller, cancel)
        case ReplicaDeletions():
            await process_deletions(controller)
        case UnconfirmedDeletions():
            report_unconfirmed(controller)
        case ExtraReassignments():
            await process_extra(controller)
        case ReassignmentRequests():
            await process_requests(controller)
        case PartitionReassignmentIsrChange() as change:
            await process_state_changes(controller, change.names)
        case ReplicaLeaderElection():
            await process_election_znode(controller)
        case AutoPreferredReplicaLeaderElection():
            await process_rebalance(controller)
            # These events find changes that no other event would find for a long time.
            await repair_records(controller)
            await retry_rollbacks(controller)
        case ConfigChange():
            await _process_config_changes(controller)
        case AclChange():
            await process_acl_changes(controller)
        case UncleanLeaderElectionEnable():
            await retry_offline_partitions(controller, _UNCLEAN_ENABLED)
        case TopicUncleanLeaderElectionEnable(topic=topic):
            await _retry_offline_partitions_of(controller, topic)
        case unknown:
            assert_never(unknown)


async def _process_config_changes(controller: Controller) -> None:
    entities = await process_config_changes(controller)
    if entities is not None:
        await follow_mutation_quotas(controller, entities)
        # Another min.insync.replicas may be enough for rollbacks that wait.
        retry_waiting_rollbacks(controller)


async def _retry_offline_partitions_of(controller: Controller, topic: str) -> None:
    partitions = [one for one in controller.context.partitions() if one.topic.name == topic]
    await retry_offline_partitions(controller, _UNCLEAN_ENABLED, partitions)


# Events that are handled together ----------------------------------------------------------------

_TOPICS_MAX: Final = 1_000
"""The number of topics from which on no further request is added."""


def with_following(controller: Controller, trigger: Trigger) -> Trigger:
    """The controller event, with those that directly follow it and can be handled in one go."""
    match trigger:
        case ApiCall(request=CreateTopicsReceived() as first):
            if CREATIONS_TOGETHER.applies(controller.configuration):
                together = _creations(controller, first)
                if together:
                    controller.observer.deviates(CREATIONS_TOGETHER, "")
                return ApiCall(first, together)
        case PartitionReassignmentIsrChange() as change:
            if REASSIGNMENTS_TOGETHER.applies(controller.configuration):
                following = _isr_changes(controller)
                if following:
                    controller.observer.deviates(REASSIGNMENTS_TOGETHER, "")
                names = (*change.together, *following)
                return PartitionReassignmentIsrChange(change.topic, change.partition, names)
    return trigger


def _creations(controller: Controller, first: CreateTopicsReceived) -> list[CreateTopicsReceived]:
    """The requests for topics that follow, up to the first with a name that another request has, or
    that collides with one."""
    triggers, together, names = (
        controller.triggers,
        list[CreateTopicsReceived](),
        _unified_names(first),
    )
    while triggers and len(names) < _TOPICS_MAX:
        asked = _creation(triggers[0])
        if asked is None or not names.keys().isdisjoint(_unified_names(asked)):
            break
        together.append(asked)
        names |= _unified_names(asked)
        triggers.popleft()
    return together


def _creation(trigger: Trigger) -> CreateTopicsReceived | None:
    match trigger:
        case ApiCall(request=CreateTopicsReceived() as asked):
            return asked
        case _:
            return None


def _unified_names(request: CreateTopicsReceived) -> dict[str, None]:
    """The topic names of a request, each in the common form of colliding names."""
    return dict.fromkeys(topic_names.unify_collision_chars(one.name) for one in request.topics)


def _isr_changes(controller: Controller) -> tuple[tuple[str, int], ...]:
    triggers, names = controller.triggers, list[tuple[str, int]]()
    while triggers and isinstance(triggers[0], PartitionReassignmentIsrChange):
        change = triggers.popleft()
        assert isinstance(change, PartitionReassignmentIsrChange)
        names += change.names
    return tuple(names)
