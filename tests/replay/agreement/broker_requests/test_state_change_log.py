"""Lines of state-change.log are parsed into requests."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.agreement.broker_requests.sent_request import (
    SentPartition,
    SentRequest,
    agrees,
    sent_request_of,
)
from replay.agreement.broker_requests.state_change_log import StateChangeRequests
from replay.stock_clusters.broker_logs.lines import LogLine
from replay.stock_clusters.broker_logs.state_change_log import state_change_logged
from replay.stock_clusters.imported_log.events import StateChangeLogged
from tests.replay.agreement.broker_requests.samples import (
    LEADER_AND_ISR,
    STOP,
    UPDATE,
    in_log,
)

KINDS = (
    *("leader_and_isr", "leader_and_isr_partition", "update_metadata"),
    *("stop_replica", "stop_replica_partition"),
    *("response", "partition_state", "replica_state", "other"),
)
LED = (
    "Sending become-leader LeaderAndIsr request LeaderAndIsrPartitionState(topicName='t-x',"
    " partitionIndex=0, controllerEpoch=3, leader=1, leaderEpoch=4, isr=[1, 2], partitionEpoch=7,"
    " replicas=[1, 2, 3], addingReplicas=[3], removingReplicas=[], isNew=false,"
    " leaderRecoveryState=0) to broker 1 for partition t-x-0"
)
LED_SUM = (
    "Sending LeaderAndIsr request to broker 1 with 1 become-leader and 0 become-follower partitions"
)
STOPPED = (
    "Sending StopReplica request StopReplicaPartitionState(partitionIndex={0}, leaderEpoch=4,"
    " deletePartition={1}) to broker 1 for partition t-x-{0}"
)
STOPPED_SUM = "Sending StopReplica request {}for {} replicas to broker 1"
KNOWN_SUM = "Sending UpdateMetadata request to brokers HashSet({}) for 1 partitions"


def line(text: str, controller: int = 9) -> StateChangeLogged:
    logged = state_change_logged(LogLine(0, f"[Controller id={controller} epoch=3] {text}"))
    assert logged is not None
    return logged


def sent(*texts: str, malformed: int = 0) -> list[SentRequest]:
    reader = StateChangeRequests()
    requests = [one for seq, text in enumerate(texts) for one in reader.add(line(text), seq)]
    assert reader.malformed.total() == malformed
    return requests


def test_leader_and_isr_equals_the_folds_request() -> None:
    (request,) = sent(LED, "Received response x for request LEADER_AND_ISR", LED_SUM)
    assert request == in_log(sent_request_of(LEADER_AND_ISR, 2))


def test_partition_epoch_is_read_by_its_name_before_kafka_3_2() -> None:
    old = LED.replace("partitionEpoch", "zkVersion").replace(", leaderRecoveryState=0", "")
    (request,) = sent(old, LED_SUM)
    assert request.partitions is not None
    assert request.partitions[0].partition_epoch == 7
    assert agrees(sent_request_of(LEADER_AND_ISR, 1), request)


def test_stop_replica_equals_the_folds_request() -> None:
    (request,) = sent(STOPPED.format(0, "true"), STOPPED_SUM.format("", 1))
    assert request == in_log(sent_request_of(STOP, 1))


def test_deletion_is_a_separate_request_before_version_3() -> None:
    partitions = [STOPPED.format(0, "false"), STOPPED.format(1, "true"), STOPPED.format(2, "false")]
    deleting, stopping = sent(
        *partitions,
        STOPPED_SUM.format("(delete = true) ", 1),
        STOPPED_SUM.format("(delete = false) ", 2),
    )
    assert deleting.partitions == (SentPartition("t-x", 1, leader_epoch=4, delete=True),)
    assert stopping.partitions is not None
    assert [one.name for one in stopping.partitions] == ["t-x-0", "t-x-2"]


def test_update_metadata_is_one_request_to_each_broker() -> None:
    one, other = sent(KNOWN_SUM.format("4, 1"))
    assert one == in_log(sent_request_of(UPDATE, 0))
    assert (other.broker, other.size, other.partitions) == (4, 1, None)
    assert sent(KNOWN_SUM.format("")) == []


def test_log_at_info_has_only_the_numbers_of_partitions() -> None:
    led, stopped = sent(LED_SUM, STOPPED_SUM.format("", 4))
    assert (led.size, led.leading, led.partitions) == (1, 1, None)
    assert (stopped.size, stopped.leading, stopped.partitions) == (4, None, None)


def test_partition_lines_without_a_total_are_no_request() -> None:
    assert sent(LED, STOPPED.format(0, "true")) == []


def test_lines_of_two_controllers_are_not_joined() -> None:
    reader = StateChangeRequests()
    reader.add(line(LED, controller=8), 1)
    (request,) = reader.add(line(LED_SUM, controller=9), 2)
    assert (request.controller, request.partitions) == (9, None)


@pytest.mark.parametrize(
    "texts", [(LED, LED, LED_SUM), (LED, LED_SUM.replace("0 become-f", "1 become-f"))]
)
def test_total_that_does_not_fit_its_lines_is_kept_without_partitions(
    texts: tuple[str, ...],
) -> None:
    *_, request = sent(LED, LED_SUM, *texts)
    assert request.lines == sum(one == LED for one in texts)
    assert request.partitions is None


@pytest.mark.parametrize(
    ("before", "lines"),
    [((KNOWN_SUM.format(1),), 1), (("Changed state of replica 1",), 1), ((), None)],
)
def test_missing_line_is_possible_only_at_the_beginning_of_the_log(
    before: tuple[str, ...], lines: int | None
) -> None:
    *_, request = sent(*before, LED, LED_SUM.replace("1 become-leader", "2 become-leader"))
    assert (request.lines, request.size) == (lines, 2)


@pytest.mark.parametrize(
    "text",
    [
        LED.replace("t-x-0", ""),
        LED.replace("leaderEpoch=4", "leaderEpoch=x"),
        LED.replace("partitionIndex=0, ", ""),
        LED_SUM.replace("become-leader", "leader"),
        KNOWN_SUM.format(1).replace("partitions", ""),
    ],
)
def test_line_that_kafka_does_not_write_is_counted(text: str) -> None:
    assert sent(text, malformed=1) == []


@given(
    st.lists(
        st.builds(
            StateChangeLogged,
            st.integers(0, 2),
            st.just(3),
            st.sampled_from(KINDS),
            st.lists(st.integers(0, 2), max_size=2),
            st.sampled_from((LED, LED_SUM, STOPPED.format(0, "true"), STOPPED_SUM.format("", 1)))
            | st.text(),
        )
    )
)
def test_arbitrary_lines_cause_no_traceback(lines: list[StateChangeLogged]) -> None:
    reader = StateChangeRequests()
    for seq, one in enumerate(lines):
        reader.add(one, seq)
