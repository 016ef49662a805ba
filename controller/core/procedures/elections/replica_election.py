"""Requested elections (KafkaController.processReplicaLeaderElection, KB 3.9)."""

from collections.abc import Iterable

from controller.core import error_codes, znodes
from controller.core.api_requests.elections import ElectLeadersReceived, ElectLeadersResponse
from controller.core.api_requests.partition_result import PartitionResult
from controller.core.commands import Reason
from controller.core.controller import Controller
from controller.core.deviations import LEADERLESS_REPORTED
from controller.core.election import PREFERRED, UNCLEAN, needs_election
from controller.core.errors import ProcedureError, ZnodeError
from controller.core.operations import NO_NODE, OK, Delete
from controller.core.pauses import pause, slices
from controller.core.procedures.admin.waiting_requests import respond_when_propagated, send_response
from controller.core.procedures.elections.leadership import Results
from controller.core.procedures.elections.partition_state_machine import change_partitions
from controller.core.state import ControllerContext, Partition, sorted_partitions
from controller.core.state_machines import PartitionState
from controller.core.values import ANY_VERSION
from controller.core.zookeeper_io import read_stats, read_znodes, write

_PATH = znodes.PREFERRED_ELECTION
_RULE = "preferred replica election"
_STRATEGIES = {"preferred": PREFERRED, "unclean": UNCLEAN}

Name = tuple[str, int]


# Admin tools ------------------------------------------------------------------------------------


async def process_elect_leaders(controller: Controller, request: ElectLeadersReceived) -> None:
    """Elect for the partitions that need it, and answer for each partition."""
    context, rule = controller.context, request.rule
    names = (
        _partitions_with_leadership(context)
        if request.partitions is None
        else list(dict.fromkeys(request.partitions))
    )
    verdicts = {name: _judge(controller, name, request.election) for name in names}
    needing = [one for one in verdicts.values() if isinstance(one, Partition)]
    strategy = _STRATEGIES[request.election]
    results: Results = {}
    for number, part in enumerate(slices(controller, sorted_partitions(needing))):
        if number:
            await pause(controller)
        results |= await change_partitions(controller, part, PartitionState.ONLINE, rule, strategy)
    answered = [_result(one, results, request.election) for one in verdicts.values()]
    if request.partitions is None:
        answered = [one for one in answered if one.error != error_codes.ELECTION_NOT_NEEDED]
    answer = ElectLeadersResponse(request.request, error_codes.NONE, tuple(answered))
    if any(not one.error for one in answered):
        respond_when_propagated(controller, answer, rule)
    else:
        send_response(controller, answer, rule)


def _partitions_with_leadership(context: ControllerContext) -> list[Name]:
    """The partitions that brokers know: Kafka takes all of a broker's metadata (KB 11.5)."""
    staying = (one for one in context.partitions() if not context.is_queued(one))
    return [one.key for one in sorted_partitions(staying) if one.leadership is not None]


def _judge(controller: Controller, name: Name, election: str) -> Partition | PartitionResult:
    """The partition if it needs this election, else the response (KB 3.9 steps 4 and 5)."""
    context = controller.context
    partition = context.find(*name)
    if partition is None or not partition.is_assigned:
        error, text = error_codes.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist."
    elif context.is_queued(partition):
        error, text = error_codes.INVALID_TOPIC_EXCEPTION, "The topic is being deleted"
    elif partition.leadership is None:
        error, text = _without_leadership(controller, partition, election), "It never had a leader."
    elif needs_election(context, partition, election):
        return partition
    else:
        error, text = error_codes.ELECTION_NOT_NEEDED, ""
    return PartitionResult(*name, error, text)


def _without_leadership(controller: Controller, partition: Partition, election: str) -> int:
    """Kafka's whole event fails on such a partition; see LEADERLESS_REPORTED."""
    if not LEADERLESS_REPORTED.applies(controller.configuration):
        raise ProcedureError(f"{partition} has no leadership: the election fails")
    controller.observer.deviates(LEADERLESS_REPORTED, repr(partition))
    return _unavailable(election)


def _unavailable(election: str) -> int:
    if election == "preferred":
        return error_codes.PREFERRED_LEADER_NOT_AVAILABLE
    return error_codes.ELIGIBLE_LEADERS_NOT_AVAILABLE


def _result(
    verdict: Partition | PartitionResult, results: Results, election: str
) -> PartitionResult:
    """Kafka's message (PartitionStateMachine.logFailedStateChange); the notice has the reason."""
    if isinstance(verdict, PartitionResult):
        return verdict
    if verdict in results:
        return PartitionResult(*verdict.key, error_codes.NONE)
    strategy = _STRATEGIES[election].kafka_name
    text = f"Failed to elect leader for partition {verdict} under strategy {strategy}"
    return PartitionResult(*verdict.key, _unavailable(election), text)


# The znode --------------------------------------------------------------------------------------


async def process_election_znode(controller: Controller) -> None:
    """/admin/preferred_replica_election was created or deleted; watches for the next one."""
    stats = await read_stats(controller, [_PATH], _RULE, watch=True)
    if stats.errors[0] == OK:
        await resume_election(controller)


async def resume_election(controller: Controller) -> None:
    """Elect for the partitions of the znode, then delete it, whatever the result.

    KB 3.9, 3.9.1; at failover KB 6.2 step 13, where Kafka requests the deletion whether or not the
    znode exists. The deletion fires the watch, after which the controller reads the next request.
    """
    names = await _read_election_request(controller)
    verdicts = {name: _judge(controller, name, "preferred") for name in names}
    for (topic, number), verdict in verdicts.items():
        if isinstance(verdict, PartitionResult) and verdict.message:
            text = f"no preferred election: {verdict.message}"
            controller.notice("warning", "election_refused", f"{topic}-{number}", text)
    needing = [one for one in verdicts.values() if isinstance(one, Partition)]
    await elect_preferred(controller, needing, _RULE)
    [error] = (await write(controller, [Delete(_PATH, ANY_VERSION)], Reason(_RULE))).errors
    if error not in (OK, NO_NODE):
        text = (
            f"the znode cannot be deleted (ZooKeeper code {error}): delete the znode, then request "
            "the election again"
        )
        controller.notice("error", "request_stays", _PATH, text)


async def _read_election_request(controller: Controller) -> list[Name]:
    """The partitions in the znode; none if it does not exist."""
    found = await read_znodes(controller, [_PATH], _RULE)
    if found.errors[0] != OK:
        return []
    try:
        return list(dict.fromkeys(znodes.read_preferred_election(found.data[0])))
    except ZnodeError as unreadable:
        # The daemon drops it. When a stock controller's decisions are derived, its behaviour
        # counts.
        if controller.configuration.is_broker and znodes.fails_elections(found.data[0]):
            raise ProcedureError(f"{unreadable}; a stock controller fails on it") from None
        controller.notice("error", "unreadable_znode", _PATH, f"{unreadable}; dropped")
        return []


async def elect_preferred(
    controller: Controller, partitions: Iterable[Partition], rule: str
) -> None:
    """Make the preferred replica of each partition its leader, if it is online and in sync."""
    for number, part in enumerate(slices(controller, sorted_partitions(partitions))):
        if number:
            await pause(controller)
        await change_partitions(controller, part, PartitionState.ONLINE, rule, PREFERRED)
