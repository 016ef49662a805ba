"""Kafka's log lines about requests from leaders and brokers, and about failed log directories."""

from typing import Final

from controller.core import error_codes, znodes
from controller.core.api_requests.alter_partition import AlterPartitionReceived, ProposedState
from controller.core.api_requests.producer_ids import AllocateProducerIdsReceived
from controller.core.commands import Issued, Notice, ReadZnodes, WriteZnodes
from controller.core.errors import ZnodeError
from controller.core.events import ZnodesRead, ZnodesWritten
from controller.core.operations import BAD_VERSION, CONNECTION_LOSS, OK, Create, SetData
from controller.core.procedures.elections.alter_partition import judge
from controller.core.state import Partition
from controller.core.triggers import (
    ApiCall,
    LeaderAndIsrResponseReceived,
    LogDirEventNotification,
    Trigger,
)
from controller.core.values import RECOVERING, LeaderAndIsr
from replay.kafka_text.kafka_log import (
    CONTROLLER,
    STATE_CHANGE_ANSWER,
    KafkaLog,
    LogObserver,
    ZooKeeperOutcome,
)
from replay.kafka_text.scala_text import collection, immutable_set, leader_and_isr, mk_string
from replay.names import partition_name

_FIRST_BY_TOPIC_ID: Final = 2


class IsrChangeLines(LogObserver):
    """Logs which AlterPartition and AllocateProducerIds requests are rejected and why, and new
    blocks of producer ids."""

    def begins(self, trigger: Trigger) -> None:
        if not self.log.controller.is_active:
            return
        match trigger:
            case ApiCall(request=AlterPartitionReceived() as asked):
                self._judge_request(asked)
            case ApiCall(request=AllocateProducerIdsReceived() as asked):
                self._judge_allocation(asked)

    def _judge_allocation(self, request: AllocateProducerIdsReceived) -> None:
        broker = self.log.context.brokers.get(request.broker)
        ignoring = "Ignoring AllocateProducerIds due to"
        if broker is None:
            self.log.warn(CONTROLLER, f"{ignoring} unknown broker {request.broker}")
        elif broker.epoch != request.broker_epoch:
            text = f"stale broker epoch {request.broker_epoch} for broker {request.broker}"
            self.log.warn(CONTROLLER, f"{ignoring} {text}")

    def _judge_request(self, request: AlterPartitionReceived) -> None:
        broker = self.log.context.brokers.get(request.broker)
        ignoring = "Ignoring AlterPartition due to"
        if broker is None:
            self.log.info(CONTROLLER, f"{ignoring} unknown broker {request.broker}")
        elif broker.epoch != request.broker_epoch:
            self.log.info(
                CONTROLLER,
                f"{ignoring} stale broker epoch {request.broker_epoch} and local broker epoch "
                f"Some({broker.epoch}) for broker {request.broker}",
            )
        else:
            for one in request.partitions:
                partition = self._partition(request.version, one)
                if partition is not None:
                    self._judge(request, partition, one)

    def _partition(self, version: int, one: ProposedState) -> Partition | None:
        context = self.log.context
        if version >= _FIRST_BY_TOPIC_ID:
            topic = context.topics_by_id.get(bytes.fromhex(one.topic))
        else:
            topic = context.topics.get(one.topic)
        return topic.partitions.get(one.partition) if topic is not None else None

    def _judge(
        self, request: AlterPartitionReceived, partition: Partition, one: ProposedState
    ) -> None:
        proposed = LeaderAndIsr(
            request.broker, one.leader_epoch, one.isr, one.partition_epoch, 0, one.recovery_state
        )
        who = f"from node {request.broker} for {partition!r} because"
        spelt = leader_and_isr(proposed)
        match judge(self.log.controller, partition, proposed, request.version):
            case error_codes.INELIGIBLE_REPLICA | error_codes.OPERATION_NOT_ATTEMPTED:
                live = self.log.context.live_brokers
                ineligible = immutable_set(id for id in one.isr if id not in live)
                self.log.info(
                    CONTROLLER,
                    f"Rejecting AlterPartition request {who} it specified ineligible replicas "
                    f"{ineligible} in the new ISR {collection('List', one.isr)}.",
                )
            case error_codes.INVALID_REQUEST if one.recovery_state == RECOVERING:
                why = "the leader recovery state cannot change from RECOVERED to RECOVERING"
                if len(one.isr) > 1:
                    why = "leader is recovering and ISR is greater than 1"
                self.log.info(CONTROLLER, f"Rejecting AlterPartition {who} {why}: {spelt}")

    def on_outcome(self, issued: Issued, outcome: ZooKeeperOutcome) -> None:
        match self.log.trigger, issued.command, outcome:
            case ApiCall(request=AlterPartitionReceived()), WriteZnodes() as write, ZnodesWritten():
                if any(outcome.errors):
                    self._log_unwritten(write, outcome)
            case (
                ApiCall(request=AllocateProducerIdsReceived()),
                WriteZnodes(operations=[Create(data=data) | SetData(data=data)]),
                ZnodesWritten(errors=[error], versions=[version]),
            ) if error == OK:
                self._log_block(znodes.read_producer_ids(data), version)

    def _log_block(self, block: znodes.ProducerIds, version: int) -> None:
        self.log.info(
            CONTROLLER,
            f"Acquired new producerId block ProducerIdsBlock(assignedBrokerId={block.broker}, "
            f"firstProducerId={block.first}, size={block.last - block.first + 1}) by writing to Zk "
            f"with path version {version}",
        )

    def _log_unwritten(self, write: WriteZnodes, outcome: ZnodesWritten) -> None:
        written = write.operations[outcome.offset :]
        for operation, error in zip(written, outcome.errors, strict=False):
            name = znodes.partition_of_state(operation.path)
            if error != BAD_VERSION or not isinstance(operation, SetData) or name is None:
                continue
            state = znodes.read_state(operation.path, operation.data, operation.version)
            self.log.info(
                CONTROLLER,
                f"Failed to update ISR to {leader_and_isr(state)} for partition "
                f"{partition_name(*name)}, bad ZK version.",
            )


class LogDirLines(LogObserver):
    """Logs the log directories that failed, and the replicas in them."""

    def __init__(self, log: KafkaLog) -> None:
        super().__init__(log)
        self._offline_before: dict[Partition, None] = {}

    def begins(self, trigger: Trigger) -> None:
        if isinstance(trigger, LeaderAndIsrResponseReceived):
            broker = trigger.response.broker
            self._offline_before = dict(self.log.context.offline_dirs.get(broker, {}))

    def on_outcome(self, issued: Issued, outcome: ZooKeeperOutcome) -> None:
        match self.log.trigger, issued.command, outcome:
            case LogDirEventNotification(), ReadZnodes(paths=paths), ZnodesRead():
                if CONNECTION_LOSS not in outcome.errors and paths[0].startswith(
                    znodes.LOG_DIR_EVENTS
                ):
                    self._log_events(paths, outcome)

    def _log_events(self, paths: tuple[str, ...], outcome: ZnodesRead) -> None:
        brokers: dict[int, None] = {}
        for path, error, data in zip(paths, outcome.errors, outcome.data, strict=False):
            try:
                if error == OK:
                    brokers[znodes.read_log_dir_event(path, data)] = None
            except ZnodeError:
                continue
        text = f"Handling log directory failure for brokers {mk_string(brokers)}"
        self.log.info(CONTROLLER, text)

    def issues(self, issued: Issued) -> None:
        match issued.command, self.log.trigger:
            case Notice(code="replicas_in_failed_log_dir"), LeaderAndIsrResponseReceived(
                response=answer
            ):
                broker = answer.broker
                now = self.log.context.offline_dirs.get(broker, {})
                new = [repr(one) for one in now if one not in self._offline_before]
                text = f"Mark replicas {mk_string(new)} on broker {broker} as offline"
                self.log.info(STATE_CHANGE_ANSWER, text)
