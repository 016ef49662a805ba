"""Brokers whose log directories fail, in a simulated cluster."""

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.commands import BrokerRequest, LeaderAndIsrRequest
from controller.core.events import BrokerResponded
from controller.core.operations import CreateSequential
from tests.controller.core.cluster import Cluster

Errors = list[tuple[str, int, int]]


def announce(cluster: Cluster, content: bytes) -> None:
    """A broker announces failed log directories."""
    path = f"{znodes.LOG_DIR_EVENTS}/log_dir_event_"
    cluster.ask(CreateSequential(path, content))
    cluster.run()


def failed_directory(
    cluster: Cluster, failed: tuple[str, int], *others: tuple[str, int, int]
) -> BrokerResponded:
    """The response of a slow broker to the LeaderAndIsr that the last announcement caused: a
    storage error for a partition, and `others`."""
    [asked] = [
        one
        for one in cluster.commands()
        if one.reason.rule == "log directory failure"
        and isinstance(one.command, LeaderAndIsrRequest)
    ]
    broker = asked.command.broker
    topic_id = cluster.topic(failed[0]).topic_id.hex()
    errors = [(topic_id, failed[1], codes.KAFKA_STORAGE_ERROR), *others]
    return BrokerResponded(asked.id, broker, cluster.broker_epoch(broker), 0, errors)


def storage_errors(cluster: Cluster, broker: int, *failed: tuple[str, int]) -> None:
    """The broker answers with storage errors for these partitions from now on."""
    by_id = cluster.fold.controller.protocol.leader_and_isr >= 5

    def errors(request: BrokerRequest) -> Errors:
        if not isinstance(request, LeaderAndIsrRequest) or request.broker != broker:
            return []
        return [
            (
                one.topic_id.hex() if by_id and one.topic_id else one.topic,
                one.partition,
                codes.KAFKA_STORAGE_ERROR,
            )
            for one in request.partitions
            if (one.topic, one.partition) in failed
        ]

    cluster.broker_errors = errors
