"""Controller events that are handled together, and what one event does in which order."""

from controller.core import znodes
from controller.core.api_requests.alter_partition import AlterPartitionReceived
from tests.controller.core.denied_reads import ReadDenyingCluster
from tests.controller.core.endpoint import next_request, proposal
from tests.controller.core.procedures.elections.electing import rebalance
from tests.controller.core.procedures.reassignment.interrupting import (
    assert_nothing_is_left,
    cancel_all,
    interruptible,
    set_minimum,
    submit,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    T1,
    ask_for_isr,
    assignment,
)


def test_under_kafka_rules_a_completion_that_fails_does_not_affect_the_next() -> None:
    cluster = ReadDenyingCluster(1, 2, rules="kafka")
    cluster.start()
    cluster.create_topic("t", {0: [1], 1: [1]})
    submit(cluster, {T0: [2], T1: [2]})
    cluster.denied = (znodes.state_path(*T0),)
    wanted = [proposal(cluster, "t", number, isr=(1, 2)) for number in (0, 1)]
    epoch = cluster.broker_epoch(1)
    request = AlterPartitionReceived(next_request(cluster), 3, 1, epoch, wanted)
    seen = cluster.seen()
    cluster.happen(request, "api:1")
    assert [code for code, _ in seen.notices()] == ["procedure_failed"]
    assert assignment(cluster, T0) == "2,1 adding 2 removing 1"
    assert assignment(cluster, T1) == "2"


def test_record_is_repaired_before_a_waiting_rollback_goes_on() -> None:
    """The next controller needs the originals if this one exits during the rollback."""
    cluster = interruptible(4, 1, 2)
    set_minimum(cluster, 2)
    submit(cluster, {T0: [3, 4]})
    ask_for_isr(cluster, 1, 3)
    cancel_all(cluster)
    record, topic = znodes.reassignment_path(*T0), znodes.topic_path("t")
    cluster.put_quietly(record, b"garbage")
    set_minimum(cluster, 1)
    seen = cluster.seen()
    rebalance(cluster)
    assert [one for one in seen.written() if one in (record, topic)] == [record, topic, record]
    assert assignment(cluster) == "1,2"
    assert_nothing_is_left(cluster)
