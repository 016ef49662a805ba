"""A leader's request is adapted to the epochs that the version has sent to it."""

import pytest

from controller.core.api_requests.alter_partition import (
    AlteredPartition,
    AlterPartitionReceived,
    AlterPartitionResponse,
    ProposedState,
)
from controller.core.error_codes import NONE, STALE_BROKER_EPOCH, UNKNOWN_SERVER_ERROR
from controller.core.state import ControllerContext
from controller.core.values import Assignment, Broker, LeaderAndIsr
from replay.diff.version.adapted_requests import adapt_request
from replay.diff.version.recorded_history import accepted_proposals

OLD, NOW = 3, 5
"""Leader epochs."""


def asked() -> AlterPartitionReceived:
    proposed = ProposedState("t", 0, OLD, (1,), 1, 0)
    return AlterPartitionReceived(7, 1, 1, 10, [proposed])


def context() -> ControllerContext:
    found = ControllerContext("PLAINTEXT")
    found.brokers[1] = Broker(1, 10, ())
    partition = found.topic("t").partition(0)
    partition.assignment = Assignment((1, 2))
    partition.leadership = LeaderAndIsr(1, NOW, (1, 2), 4, 1)
    return found


@pytest.mark.parametrize(
    ("error", "leader_epoch"),
    [
        (NONE, NOW),
        # The controller could not answer, but the request was that of the leader.
        (UNKNOWN_SERVER_ERROR, NOW),
        (STALE_BROKER_EPOCH, OLD),
    ],
)
def test_request_with_an_old_broker_epoch_is_not_adapted(error: int, leader_epoch: int) -> None:
    altered = () if error else (AlteredPartition("t", None, 0, NONE),)
    accepted = accepted_proposals(AlterPartitionResponse(7, error, altered))
    [adapted] = adapt_request(asked(), context(), accepted).requests
    assert adapted.partitions[0].leader_epoch == leader_epoch
