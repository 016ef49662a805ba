"""Requests whose procedure ends with an error (KB 1.3.5)."""

from collections.abc import Callable

import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from tests.controller.core.cluster import Cluster, reads
from tests.controller.core.denied_reads import ReadDenyingCluster
from tests.controller.core.endpoint import alter_partition, controlled_shutdown, proposal
from tests.controller.core.procedures.topics.topic_requests import create, errors, grow, new_topic

REQUESTS: dict[str, Callable[[Cluster], object]] = {
    "AlterPartition": lambda cluster: alter_partition(
        cluster, 1, proposal(cluster, "t", 0, isr=(1,))
    ),
    "ControlledShutdown": lambda cluster: controlled_shutdown(cluster, 1),
    "CreatePartitions": lambda cluster: grow(cluster, "t", 2),
}


@pytest.mark.parametrize("rules", ["refold", "kafka"])
@pytest.mark.parametrize("name", REQUESTS)
def test_fenced_request_makes_the_controller_look_for_another_one(name: str, rules: str) -> None:
    """Kafka's controller does not look after AlterPartition and ControlledShutdown."""
    cluster = Cluster(1, 2, rules=rules).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.put_quietly(znodes.CONTROLLER_EPOCH, b"7")
    seen = cluster.seen()
    REQUESTS[name](cluster)
    issued = [one for _, commands in seen.history for one in commands]
    looks = any(map(reads(znodes.CONTROLLER), issued))
    assert looks == (rules == "refold" or name == "CreatePartitions")


def test_request_that_fails_is_answered_with_an_error_and_reported() -> None:
    cluster = ReadDenyingCluster(1)
    cluster.start()
    cluster.denied = (znodes.TOPICS,)
    seen = cluster.seen()
    assert errors(create(cluster, new_topic("t", 1, 1))) == [codes.UNKNOWN_SERVER_ERROR]
    [(code, _)] = seen.notices()
    assert code == "request_failed"
    [text] = seen.texts()
    assert text.startswith(f"{znodes.TOPICS} cannot be read (NoAuth)")
