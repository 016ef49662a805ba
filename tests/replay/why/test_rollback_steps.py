"""Steps of a rollback that need no command."""

import pytest

from controller.core import znodes
from controller.core.commands import (
    CommandId,
    Issued,
    Reason,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
    WriteZnodes,
)
from controller.core.operations import SetData
from controller.core.state import Topic
from controller.core.values import ANY_VERSION, NO_LEADER, Assignment, LeaderAndIsr
from controller.core.znodes import TopicContent
from replay.why.rollback_steps import RollbackSteps

ORIGINALS, BEFORE = (2, 1, 3), Assignment((4, 5, 3, 2, 1), (4, 5), (2, 1))
LEADERLESS = LeaderAndIsr(NO_LEADER, 3, (2,), 5, 1)


@pytest.mark.parametrize(
    ("leadership", "text"),
    [
        (None, "the partition has no state to write"),
        (
            LEADERLESS,
            "no leader can be elected, and the state stays: no leader, epoch 3, ISR 2",
        ),
    ],
)
def test_step_2_without_a_write_says_what_state_the_partition_has(
    leadership: LeaderAndIsr | None, text: str
) -> None:
    partition = Topic("t").partition(0)
    partition.leadership = leadership
    texts: dict[int, str] = {}

    def on_step(step: int, what: str, command: str, is_empty: bool) -> None:
        texts[step] = what

    steps = RollbackSteps(partition, ORIGINALS, BEFORE, on_step)
    content = znodes.write_topic(TopicContent({0: Assignment(ORIGINALS)}))
    write = WriteZnodes((SetData(znodes.topic_path("t"), content, ANY_VERSION),), None)
    steps.issues(Issued(CommandId(1, 0), 1, write, Reason("rollback: store the originals")))
    metadata = UpdateMetadataPartition("t", None, 0, LEADERLESS, ORIGINALS, ())
    steps.sends([UpdateMetadataRequest(2, 1, 6, 1000, 1, (metadata,), ())])
    assert texts[2] == text
    assert steps.is_over
