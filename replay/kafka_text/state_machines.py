"""The log lines of Kafka's two state machines (ZkPartitionStateMachine, ZkReplicaStateMachine)."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from controller.core import znodes
from controller.core.commands import BrokerRequest, Choice, Issued, WriteZnodes
from controller.core.election import (
    CONTROLLED_SHUTDOWN,
    OFFLINE,
    PREFERRED,
    REASSIGNMENT,
    UNCLEAN,
)
from controller.core.events import ZnodesWritten
from controller.core.operations import BAD_VERSION, FENCED, Create
from controller.core.state import Partition
from controller.core.state_machines import (
    PREVIOUS_PARTITION_STATES,
    PREVIOUS_REPLICA_STATES,
    PartitionState,
    ReplicaState,
)
from controller.core.triggers import Trigger
from controller.core.values import LeaderAndIsr
from replay.kafka_text.kafka_log import (
    BATCH,
    PARTITIONS,
    REPLICAS,
    STATE_CHANGE,
    KafkaLog,
    Logger,
    LogObserver,
    ZooKeeperOutcome,
)
from replay.kafka_text.scala_text import (
    PARTITION_STATES,
    REPLICA_STATES,
    collection,
    immutable_set,
    leader_and_isr,
    leader_isr_and_epoch,
    mk_string,
    replica,
)

_STRATEGIES: Final = {
    one.name: one.kafka_name
    for one in (OFFLINE, UNCLEAN, PREFERRED, REASSIGNMENT, CONTROLLED_SHUTDOWN)
}
_NO_PREFIX: Final = Logger(PARTITIONS.name, "")
_NOT_ELECTED: Final = ("no_leader_created", "no_leader_elected")
_FAILED: Final = "kafka.common.StateChangeFailedException"
_ILLEGAL: Final = "java.lang.IllegalStateException"


class _Election(NamedTuple):
    """Partitions that go online, each with its previous state and leadership."""

    strategy: str
    before: list[tuple[Partition, PartitionState, LeaderAndIsr | None]]


class _ReplicaMove(NamedTuple):
    """Replicas on one broker that change their state, each with its previous state and the previous
    leadership of its partition."""

    broker: int
    target: ReplicaState
    before: list[tuple[Partition, ReplicaState, LeaderAndIsr | None]]


class StateMachineLines(LogObserver):
    """Logs each step when it is done: before its requests, or before the next broker's replicas."""

    _step: _Election | _ReplicaMove | None = None

    def __init__(self, log: KafkaLog) -> None:
        super().__init__(log)
        self._not_elected: dict[Partition, str] = {}

    def fails(
        self, partition: Partition, code: str, text: str, election: Choice | None = None
    ) -> None:
        if code in _NOT_ELECTED:
            self._not_elected[partition] = text if election is None else ""

    def begins(self, trigger: Trigger) -> None:
        self._step = None

    def moves_partitions(
        self, partitions: Sequence[Partition], target: PartitionState, rule: str, strategy: str
    ) -> None:
        valid = []
        for one in partitions:
            if one.state in PREVIOUS_PARTITION_STATES[target]:
                valid.append(one)
            else:
                self._fail_partition(one, one.state, target, _illegal_partition(one, target))
        if target is PartitionState.NEW:
            self._log_new(valid)
        elif target is PartitionState.ONLINE:
            self._not_elected = {}
            spelt = _STRATEGIES.get(strategy, _STRATEGIES[REASSIGNMENT.name])
            self._step = _Election(spelt, [(one, one.state, one.leadership) for one in valid])

    def moves_replicas(
        self, broker: int, partitions: Sequence[Partition], target: ReplicaState, rule: str
    ) -> None:
        self._finish()
        before = []
        for one in partitions:
            state = one.replica_states.get(broker, ReplicaState.NON_EXISTENT)
            if state in PREVIOUS_REPLICA_STATES[target]:
                before.append((one, state, one.leadership))
            else:
                why = _illegal_replica(one, broker, state, target)
                self._fail_replica(one, broker, state, target, why)
        self._step = _ReplicaMove(broker, target, before)

    def sends(self, requests: Sequence[BrokerRequest], rule: str) -> None:
        self._finish()

    def on_outcome(self, issued: Issued, outcome: ZooKeeperOutcome) -> None:
        if not isinstance(outcome, ZnodesWritten) or not isinstance(issued.command, WriteZnodes):
            return
        if FENCED in outcome.errors:
            self._log_moved(issued.command)
        elif isinstance(self._step, _Election) and BAD_VERSION in outcome.errors:
            self._log_retry(self._step, issued.command, outcome)

    def _finish(self) -> None:
        match self._step:
            case _Election() as election:
                self._log_elected(election)
            case _ReplicaMove(target=ReplicaState.OFFLINE) as move:
                self._log_offline(move)
            case _ReplicaMove(target=ReplicaState.NEW) as move:
                self._log_new_replicas(move)
        self._step = None

    # Partitions

    def _log_new(self, partitions: list[Partition]) -> None:
        for one in partitions:
            self.log.info(
                STATE_CHANGE,
                f"Changed partition {one!r} state from {PARTITION_STATES[one.state]} to "
                f"NewPartition with assigned replicas {mk_string(one.replicas)}",
            )

    def _log_elected(self, election: _Election) -> None:
        """Log new partitions first, then elections; within both, failed ones first."""
        for is_new in (True, False):
            group = [one for one in election.before if (one[1] is PartitionState.NEW) is is_new]
            failed = [one for one in group if one[0].leadership is one[2]]
            for partition, state, _ in failed:
                why = self._why_leaderless(partition, state, election.strategy)
                self._fail_partition(partition, state, PartitionState.ONLINE, why)
            for partition, state, before in group:
                leadership = partition.leadership
                if leadership is not None and leadership is not before:
                    self.log.info(
                        STATE_CHANGE,
                        f"Changed partition {partition!r} from {PARTITION_STATES[state]} to "
                        f"OnlinePartition with state {leader_and_isr(leadership)}",
                    )

    def _why_leaderless(self, partition: Partition, state: PartitionState, strategy: str) -> str:
        context = self.log.context
        why = self._not_elected.get(partition, "")
        if state is PartitionState.NEW and not any(
            context.is_online(one, partition) for one in partition.replicas
        ):
            return (
                f"{_FAILED}: Controller {self.log.id} epoch {context.epoch} encountered error "
                f"during state change of partition {partition!r} from New to Online, assigned "
                f"replicas are [{mk_string(partition.replicas)}], live brokers are "
                f"[{immutable_set(sorted(context.live_brokers))}]. No assigned replica is alive."
            )
        why = why or f"Failed to elect leader for partition {partition!r} under strategy {strategy}"
        return f"{_FAILED}: {why}"

    def _fail_partition(
        self, partition: Partition, state: PartitionState, target: PartitionState, why: str
    ) -> None:
        self.log.error(
            STATE_CHANGE,
            f"Controller {self.log.id} epoch {self.log.context.epoch} failed to change state for "
            f"partition {partition!r} from {PARTITION_STATES[state]} to "
            f"{PARTITION_STATES[target]}",
            why,
        )

    def _log_retry(self, step: _Election, command: WriteZnodes, outcome: ZnodesWritten) -> None:
        paths = [one.path for one in command.operations[outcome.offset :]]
        again = [
            "-".join(map(str, name))
            for path, error in zip(paths, outcome.errors, strict=False)
            if error == BAD_VERSION and (name := znodes.partition_of_state(path)) is not None
        ]
        self.log.info(
            _NO_PREFIX,
            f"Retrying leader election with strategy {step.strategy} for partitions "
            f"{collection('List', again)}",
        )

    # Replicas

    def _log_offline(self, move: _ReplicaMove) -> None:
        for partition, state, before in move.before:
            leadership = partition.leadership
            if leadership is None:
                text = f"Leader not yet assigned for partition {partition!r}."
                self.log.info(BATCH, f"{text} Skip sending UpdateMetadataRequest.")
            elif leadership is not before:
                self.log.info(
                    STATE_CHANGE,
                    f"Partition {partition!r} state changed to {leader_isr_and_epoch(leadership)} "
                    f"after removing replica {move.broker} from the ISR as part of transition to "
                    "OfflineReplica",
                )
            elif not self.log.context.is_queued(partition):
                why = (
                    f"{_FAILED}: Failed to change state of replica {move.broker} for partition "
                    f"{partition!r} since the leader and isr path in zookeeper is empty"
                )
                self._fail_replica(partition, move.broker, state, ReplicaState.OFFLINE, why)

    def _log_new_replicas(self, move: _ReplicaMove) -> None:
        """A leader cannot become a new replica. Kafka logs the target as OfflineReplica."""
        for partition, state, _ in move.before:
            if partition.replica_states.get(move.broker) is not ReplicaState.NEW:
                why = (
                    f"{_FAILED}: Replica {move.broker} for partition {partition!r} cannot be moved "
                    "to NewReplica state as it is being requested to become leader"
                )
                self._fail_replica(partition, move.broker, state, ReplicaState.OFFLINE, why)

    def _fail_replica(
        self,
        partition: Partition,
        broker: int,
        state: ReplicaState,
        target: ReplicaState,
        why: str,
    ) -> None:
        self.log.error(
            STATE_CHANGE,
            f"Controller {self.log.id} epoch {self.log.context.epoch} initiated state change of "
            f"replica {broker} for partition {partition!r} from {REPLICA_STATES[state]} to "
            f"{REPLICA_STATES[target]} failed",
            why,
        )

    # Both

    def _log_moved(self, write: WriteZnodes) -> None:
        """A write was fenced during a step: log that and drop the step."""
        step, self._step = self._step, None
        if step is None:
            return
        exception = controller_moved(self.log.context.epoch_version)
        if any(isinstance(one, Create) for one in write.operations):
            self.log.error(
                PARTITIONS,
                "Controller moved to another broker when trying to create the topic partition "
                "state znode",
                exception,
            )
        source, what, state = PARTITIONS, "partitions", "OnlinePartition"
        if isinstance(step, _ReplicaMove):
            source, what, state = REPLICAS, "replicas", REPLICA_STATES[step.target]
        self.log.error(
            source,
            f"Controller moved to another broker when moving some {what} to {state} state",
            exception,
        )


def controller_moved(epoch_version: int) -> str:
    """The exception that Kafka raises for a fenced write."""
    return (
        "org.apache.kafka.common.errors.ControllerMovedException: Controller epoch zkVersion check "
        f"fails. Expected zkVersion = {epoch_version}"
    )


def _illegal_partition(partition: Partition, target: PartitionState) -> str:
    previous = mk_string(PARTITION_STATES[one] for one in PREVIOUS_PARTITION_STATES[target])
    return (
        f"{_ILLEGAL}: Partition {partition!r} should be in one of {previous} states before moving "
        f"to {PARTITION_STATES[target]} state. Instead it is in "
        f"{PARTITION_STATES[partition.state]} state"
    )


def _illegal_replica(
    partition: Partition, broker: int, state: ReplicaState, target: ReplicaState
) -> str:
    previous = mk_string(REPLICA_STATES[one] for one in PREVIOUS_REPLICA_STATES[target])
    return (
        f"{_ILLEGAL}: Replica {replica(*partition.key, broker)} should be in the {previous} states "
        f"before moving to {REPLICA_STATES[target]} state. Instead it is in "
        f"{REPLICA_STATES[state]} state"
    )
