"""Kafka's log lines about a batch of broker requests (ControllerBrokerRequestBatch)."""

from collections.abc import Sequence
from typing import Final

from controller.core.commands import (
    BrokerRequest,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from replay.kafka_text.kafka_log import STATE_CHANGE, LogObserver
from replay.kafka_text.scala_text import mutable_set

_FIRST_MIXED_STOP_REPLICA: Final = 3


class RequestLines(LogObserver):
    """Logs every batch; like Kafka, UpdateMetadata once for all brokers. Unlike Kafka, it does not
    log UpdateMetadata that is sent to no broker."""

    def sends(self, requests: Sequence[BrokerRequest], rule: str) -> None:
        updated = [one for one in requests if isinstance(one, UpdateMetadataRequest)]
        for request in requests:
            match request:
                case LeaderAndIsrRequest():
                    self._log_leader_and_isr(request)
                case UpdateMetadataRequest() if request is updated[0]:
                    brokers = mutable_set(one.broker for one in updated)
                    self.log.info(
                        STATE_CHANGE,
                        f"Sending UpdateMetadata request to brokers {brokers} "
                        f"for {len(request.partitions)} partitions",
                    )
                case StopReplicaRequest():
                    self._log_stop_replica(request)

    def _log_leader_and_isr(self, request: LeaderAndIsrRequest) -> None:
        leaders = sum(one.leadership.leader == request.broker for one in request.partitions)
        self.log.info(
            STATE_CHANGE,
            f"Sending LeaderAndIsr request to broker {request.broker} with {leaders} become-leader "
            f"and {len(request.partitions) - leaders} become-follower partitions",
        )

    def _log_stop_replica(self, request: StopReplicaRequest) -> None:
        kind = ""
        if request.version < _FIRST_MIXED_STOP_REPLICA:
            kind = f" (delete = {str(request.partitions[0].delete).lower()})"
        self.log.info(
            STATE_CHANGE,
            f"Sending StopReplica request{kind} for {len(request.partitions)} replicas "
            f"to broker {request.broker}",
        )
