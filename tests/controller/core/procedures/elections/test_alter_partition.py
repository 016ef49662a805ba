"""AlterPartition: rows CI-39 to CI-44, OB-13 of KB 17, and the checks of KB 11.2."""

from typing import Any

import msgspec
import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.api_requests.alter_partition import (
    AlterPartitionReceived,
    AlterPartitionResponse,
    ProposedState,
)
from controller.core.commands import ReadZnodes, WriteZnodes
from controller.core.procedures.elections.alter_partition import accepted_partitions
from tests.controller.core.cluster import Cluster, writes_state
from tests.controller.core.endpoint import (
    alter_partition,
    answers,
    controlled_shutdown,
    next_request,
    proposal,
)
from tests.controller.core.procedures.reassignment.reassigning import ask
from tests.controller.core.unreliable import Delivery


def cluster_with(*replicas: int, **settings: str) -> Cluster:
    """Brokers 1 to 3, and t-0 on `replicas`."""
    cluster = Cluster(1, 2, 3, **settings).start()
    cluster.create_topic("t", {0: replicas})
    return cluster


@pytest.mark.parametrize(
    ("protocol", "version"),
    [("2.7-IV0", 0), ("2.7-IV0", 1), ("3.9", 0), ("3.9", 1), ("3.9", 2), ("3.9", 3)],
)
def test_CI_39_unchanged_state_is_answered_without_a_write(protocol: str, version: int) -> None:
    """Topics have no ids at 2.7, and versions from 2 on name them by id only."""
    cluster = cluster_with(1, 2, inter_broker_protocol_version=protocol)
    by_id = version >= 2
    same = proposal(cluster, "t", 0, by_id=by_id)
    answer = alter_partition(cluster, 1, same, version=version)
    assert answer.error == codes.NONE
    [one] = answer.partitions
    assert (one.topic, one.topic_id is not None) == ("" if by_id else "t", by_id)
    assert (one.error, one.leader, one.leader_epoch, one.isr) == (codes.NONE, 1, 0, (1, 2))
    assert (one.recovery_state, one.partition_epoch) == (0, 0)
    assert cluster.state("t", 0) == "leader 1 e 0 isr [1,2] v 0 ce 1"


def test_CI_40_topic_id_is_kept_at_an_older_protocol_version() -> None:
    first = cluster_with(1, 2)
    older = Cluster(zookeeper=first.zookeeper, inter_broker_protocol_version="2.7", take_over=True)
    older.connect()
    answer = alter_partition(older, 1, proposal(older, "t", 0))
    assert [one.error for one in answer.partitions] == [codes.NONE]


def test_CI_41_repeated_change_is_written_once() -> None:
    cluster = cluster_with(2, 1)
    shrunk = proposal(cluster, "t", 0, isr=(2,))
    seen = cluster.seen()
    for partition_epoch in (0, 0, 1):
        changed = proposal(cluster, "t", 0, isr=(2,), partition_epoch=partition_epoch)
        [one] = alter_partition(cluster, 2, changed).partitions
        assert (one.error, one.partition_epoch, one.isr) == (codes.NONE, 1, (2,))
    assert shrunk.partition_epoch == 0
    assert len(seen.writes()) == 1
    assert cluster.state("t", 0) == "leader 2 e 0 isr [2] v 1 ce 1"


@pytest.mark.parametrize(
    ("version", "error"),
    [
        (0, codes.OPERATION_NOT_ATTEMPTED),
        (1, codes.OPERATION_NOT_ATTEMPTED),
        (2, codes.INELIGIBLE_REPLICA),
        (3, codes.INELIGIBLE_REPLICA),
    ],
)
def test_CI_42_stopped_broker_is_not_added_to_the_isr(version: int, error: int) -> None:
    cluster = cluster_with(1, 2)
    cluster.stop_broker(2)
    grown = proposal(cluster, "t", 0, isr=(1, 2), by_id=version >= 2)
    [one] = alter_partition(cluster, 1, grown, version=version).partitions
    assert one.error == error
    assert cluster.leadership("t", 0).isr == (1,)
    cluster.start_broker(2)
    [one] = alter_partition(cluster, 1, grown, version=version).partitions
    assert (one.error, one.isr) == (codes.NONE, (1, 2))


def test_CI_42_shutting_down_member_is_not_eligible() -> None:
    cluster = cluster_with(1, 2, 3)
    controlled_shutdown(cluster, 2)
    [one] = alter_partition(cluster, 1, proposal(cluster, "t", 0, isr=(1, 2))).partitions
    assert one.error == codes.INELIGIBLE_REPLICA


def test_CI_43_sender_with_an_old_or_unknown_epoch_is_rejected() -> None:
    cluster = cluster_with(1, 2)
    same = proposal(cluster, "t", 0)
    epoch = cluster.broker_epoch(1)
    for broker, broker_epoch in ((1, epoch - 1), (1, epoch + 1), (99, 5)):
        answer = alter_partition(cluster, broker, same, broker_epoch=broker_epoch)
        assert answer == AlterPartitionResponse(answer.request, codes.STALE_BROKER_EPOCH)


def test_CI_43_unknown_topics_and_partitions_are_errors() -> None:
    cluster = cluster_with(1, 2)
    strange = "00112233445566778899aabbccddeeff"
    answer = alter_partition(
        cluster,
        1,
        proposal(cluster, "t", 0, topic=strange),
        proposal(cluster, "t", 0),
        proposal(cluster, "t", 0, partition=1),
    )
    assert [(one.partition, one.error) for one in answer.partitions] == [
        (0, codes.UNKNOWN_TOPIC_ID),
        (0, codes.NONE),
        (1, codes.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert answer.partitions[0].topic_id == bytes.fromhex(strange)
    unknown = proposal(cluster, "t", 0, by_id=False, topic="missing")
    [one] = alter_partition(cluster, 1, unknown, version=1).partitions
    assert (one.topic, one.error) == ("missing", codes.UNKNOWN_TOPIC_OR_PARTITION)


def with_differences(cluster: Cluster, changed: dict[str, Any]) -> ProposedState:
    """A proposal whose `leader_epoch` and `partition_epoch` are relative to the present ones."""
    now = proposal(cluster, "t", 0)
    epochs = {
        name: getattr(now, name) + changed[name]
        for name in ("leader_epoch", "partition_epoch")
        if name in changed
    }
    return proposal(cluster, "t", 0, **(changed | epochs))


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"isr": (1,), "partition_epoch": -1}, codes.INVALID_UPDATE_VERSION),
        ({"partition_epoch": +1}, codes.NOT_CONTROLLER),
        ({"leader_epoch": -1}, codes.FENCED_LEADER_EPOCH),
        ({"leader_epoch": +1}, codes.NOT_CONTROLLER),
        ({"recovery_state": 1}, codes.INVALID_REQUEST),
        ({"recovery_state": 1, "isr": (1,)}, codes.INVALID_REQUEST),
        ({"recovery_state": 1, "leader_epoch": -1}, codes.FENCED_LEADER_EPOCH),
        ({"recovery_state": 1, "partition_epoch": +1}, codes.NOT_CONTROLLER),
    ],
)
def test_CI_43_proposals_with_other_epochs_are_rejected(
    changed: dict[str, Any], error: int
) -> None:
    cluster = cluster_with(1, 2)
    # An election and an ISR change, so that lower epochs exist.
    cluster.stop_broker(2)
    cluster.start_broker(2)
    alter_partition(cluster, 1, proposal(cluster, "t", 0, isr=(1, 2)))
    before = cluster.state("t", 0)
    [one] = alter_partition(cluster, 1, with_differences(cluster, changed)).partitions
    assert (one.error, one.leader, one.isr) == (error, 0, ())
    assert cluster.state("t", 0) == before


def test_CI_43_unknown_recovery_state_fails_the_whole_request() -> None:
    cluster = cluster_with(1, 2)
    strange, shrunk = (
        proposal(cluster, "t", 0, recovery_state=25),
        proposal(cluster, "t", 0, isr=(1,)),
    )
    for proposals in ([strange], [shrunk, strange]):
        answer = alter_partition(cluster, 1, *proposals)
        assert (answer.error, answer.partitions) == (codes.UNKNOWN_SERVER_ERROR, ())
    assert cluster.leadership("t", 0).isr == (1, 2)


RECOVERING_STATE = "leader 1 e 3 isr [1] v 3 ce 1 recovering"


def led_uncleanly(rules: str = "refold") -> Cluster:
    """t-0 [1,2], led by broker 1, which is recovering. Broker 2 is alive."""
    cluster = Cluster(1, 2, rules=rules, unclean_leader_election_enable=True).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.stop_broker(1)
    cluster.stop_broker(2)
    cluster.start_broker(1)
    assert cluster.state("t", 0) == RECOVERING_STATE
    cluster.start_broker(2)
    return cluster


def test_CI_44_isr_of_a_recovering_leader_grows_only_with_its_recovery() -> None:
    cluster = led_uncleanly()
    grown = {"isr": (1, 2)}
    [one] = alter_partition(cluster, 1, proposal(cluster, "t", 0, **grown)).partitions
    assert one.error == codes.INVALID_REQUEST
    recovered = proposal(cluster, "t", 0, recovery_state=0, **grown)
    [one] = alter_partition(cluster, 1, recovered).partitions
    assert (one.error, one.isr, one.recovery_state) == (codes.NONE, (1, 2), 0)


@pytest.mark.parametrize("rules", ["refold", "kafka"])
def test_CI_44_recovering_state_with_one_member_is_valid(rules: str) -> None:
    """Kafka's rules take it from any sender, which becomes leader."""
    cluster = led_uncleanly(rules=rules)
    [one] = alter_partition(cluster, 2, proposal(cluster, "t", 0, isr=(2,))).partitions
    assert one.error == (codes.INVALID_REQUEST if rules == "refold" else codes.NONE)
    by_kafka = "leader 2 e 3 isr [2] v 4 ce 1 recovering"
    assert cluster.state("t", 0) == (RECOVERING_STATE if rules == "refold" else by_kafka)


def test_CI_44_sender_with_an_old_or_unknown_epoch_is_rejected() -> None:
    cluster = led_uncleanly()
    grown = proposal(cluster, "t", 0, isr=(1, 2), recovery_state=0)
    for broker, broker_epoch in ((1, cluster.broker_epoch(1) - 1), (99, cluster.broker_epoch(1))):
        answer = alter_partition(cluster, broker, grown, broker_epoch=broker_epoch)
        assert answer == AlterPartitionResponse(answer.request, codes.STALE_BROKER_EPOCH)
    assert cluster.state("t", 0) == RECOVERING_STATE


@pytest.mark.parametrize("recovery_state", [0, 1], ids=["recovered", "recovering"])
@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"partition_epoch": -1}, codes.INVALID_UPDATE_VERSION),
        ({"partition_epoch": +1}, codes.NOT_CONTROLLER),
        ({"leader_epoch": -1}, codes.FENCED_LEADER_EPOCH),
        ({"leader_epoch": +1}, codes.NOT_CONTROLLER),
    ],
    ids=["v-1", "v+1", "e-1", "e+1"],
)
def test_CI_44_epochs_are_checked_before_the_recovery_state(
    changed: dict[str, Any], error: int, recovery_state: int
) -> None:
    cluster = led_uncleanly()
    wrong = with_differences(cluster, changed | {"isr": (1, 2), "recovery_state": recovery_state})
    [one] = alter_partition(cluster, 1, wrong).partitions
    assert (one.error, one.leader, one.isr) == (error, 0, ())
    assert cluster.state("t", 0) == RECOVERING_STATE


def test_OB_13_another_order_of_the_isr_is_written() -> None:
    cluster = cluster_with(1, 2, 3)
    [one] = alter_partition(cluster, 1, proposal(cluster, "t", 0, isr=(3, 2, 1))).partitions
    assert (one.error, one.partition_epoch) == (codes.NONE, 1)
    assert cluster.state("t", 0) == "leader 1 e 0 isr [3,2,1] v 1 ce 1"


# isr-by-leader ------------------------------------------------------------------------------------


both_rules = pytest.mark.parametrize("rules", ["refold", "kafka"])


@both_rules
@pytest.mark.parametrize(
    ("sender", "isr"), [(2, (1, 2)), (2, (1, 2, 3)), (1, (1, 2, 4)), (1, (2, 3)), (1, (1, 2, 1))]
)
@pytest.mark.deviates("isr-by-leader")
def test_OB_13_isr_from_another_broker_or_with_other_members_is_rejected(
    rules: str, sender: int, isr: tuple[int, ...]
) -> None:
    """By Kafka's rule the sender becomes leader, with the same leader epoch."""
    cluster = Cluster(1, 2, 3, 4, rules=rules).start()
    cluster.create_topic("t", {0: [1, 2, 3]})
    [one] = alter_partition(cluster, sender, proposal(cluster, "t", 0, isr=isr)).partitions
    members = ",".join(map(str, isr))
    changed = f"leader {sender} e 0 isr [{members}] v 1 ce 1"
    assert one.error == (codes.INVALID_REQUEST if rules == "refold" else codes.NONE)
    unchanged = "leader 1 e 0 isr [1,2,3] v 0 ce 1"
    assert cluster.state("t", 0) == (unchanged if rules == "refold" else changed)


@both_rules
@pytest.mark.deviates("isr-by-leader")
def test_R18_removed_replica_is_not_added_to_the_isr(rules: str) -> None:
    """After a late fetch the leader requests it, with the old epochs or the present ones."""
    cluster = Cluster(1, 2, 3, rules=rules).start()
    cluster.create_topic("t", {0: [1, 2]})
    late = proposal(cluster, "t", 0, isr=(1, 2))
    ask(cluster, (("t", 0), (1, 3)))
    for_isr = proposal(cluster, "t", 0, isr=(1, 2, 3))
    alter_partition(cluster, 1, for_isr)
    assert cluster.leadership("t", 0).isr == (1, 3)
    [one] = alter_partition(cluster, 1, late).partitions
    assert one.error == codes.FENCED_LEADER_EPOCH
    with_it = proposal(cluster, "t", 0, isr=(1, 3, 2))
    [one] = alter_partition(cluster, 1, with_it).partitions
    assert one.error == (codes.INVALID_REQUEST if rules == "refold" else codes.NONE)
    assert cluster.leadership("t", 0).isr == ((1, 3) if rules == "refold" else (1, 3, 2))


@both_rules
def test_foreign_member_of_a_stored_isr_can_be_dropped(rules: str) -> None:
    """A stock controller has accepted it. Repeated, the ISR is confirmed; then the leader drops
    the member."""
    cluster = Cluster(1, 2, 3, rules="kafka").start()
    cluster.create_topic("t", {0: [1, 2]})
    alter_partition(cluster, 1, proposal(cluster, "t", 0, isr=(1, 2, 3)))
    cluster.shut_down()
    later = Cluster(zookeeper=cluster.zookeeper, rules=rules).start()
    for isr in ((1, 2, 3), (1, 2)):
        [one] = alter_partition(later, 1, proposal(later, "t", 0, isr=isr)).partitions
        assert (one.error, one.isr) == (codes.NONE, isr)


@both_rules
def test_older_partition_epoch_is_an_invalid_update_version(rules: str) -> None:
    """Also with foreign members: the leader waits for the state that it has not received yet."""
    cluster = Cluster(1, 2, 3, rules=rules).start()
    cluster.create_topic("t", {0: [1, 2]})
    old = proposal(cluster, "t", 0, isr=(1, 3))
    alter_partition(cluster, 1, proposal(cluster, "t", 0, isr=(1,)))
    [one] = alter_partition(cluster, 1, old).partitions
    assert one.error == codes.INVALID_UPDATE_VERSION


# Requests and answers -----------------------------------------------------------------------------


def test_named_partitions_are_sent_to_all_brokers_without_leader_and_isr() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2], 1: [2, 1]})
    seen = cluster.seen()
    alter_partition(
        cluster,
        1,
        proposal(cluster, "t", 0, isr=(1,)),
        proposal(cluster, "t", 1, leader_epoch=5),
    )
    assert seen.kinds(1) == seen.kinds(2) == ["UpdateMetadata"]
    [request] = {one.partitions for one in seen.broker_requests()}
    assert [one.partition for one in request] == [0, 1]


@pytest.mark.parametrize("version", [2, 3])
def test_recovery_state_of_an_unknown_topic_id_is_not_checked(version: int) -> None:
    cluster = cluster_with(1, 2)
    unknown = ProposedState("0f" * 16, 0, 0, (1,), 7, 0)
    [one] = alter_partition(cluster, 1, unknown, version=version).partitions
    assert one.error == codes.UNKNOWN_TOPIC_ID
    named = msgspec.structs.replace(unknown, topic="unknown")
    assert alter_partition(cluster, 1, named, version=1).error == codes.UNKNOWN_SERVER_ERROR


def test_another_version_in_zookeeper_is_an_invalid_update_version() -> None:
    cluster = cluster_with(1, 2)
    cluster.once(writes_state("t", 0), lambda: cluster.set_isr("t", 0, (2, 1)))
    [one] = alter_partition(cluster, 1, proposal(cluster, "t", 0, isr=(1,))).partitions
    assert one.error == codes.INVALID_UPDATE_VERSION


def test_deleted_state_is_an_unknown_server_error_of_the_partition() -> None:
    cluster = cluster_with(1, 2)
    path = znodes.state_path("t", 0)
    cluster.once(writes_state("t", 0), lambda: cluster.remove_quietly(path))
    answer = alter_partition(cluster, 1, proposal(cluster, "t", 0, isr=(1,)))
    assert answer.error == codes.NONE
    assert [one.error for one in answer.partitions] == [codes.UNKNOWN_SERVER_ERROR]
    assert (cluster.version(path), cluster.partition("t", 0).leadership.isr) == (None, (1, 2))


def test_unknown_topic_ids_are_answered_each() -> None:
    cluster = cluster_with(1, 2)
    unknown = proposal(cluster, "t", 0, topic="0f" * 16)
    answer = alter_partition(cluster, 1, unknown, unknown)
    assert [one.error for one in answer.partitions] == [codes.UNKNOWN_TOPIC_ID] * 2


def test_fenced_write_is_an_unknown_server_error() -> None:
    cluster = cluster_with(1, 2)
    cluster.once(writes_state("t", 0), lambda: cluster.seize_role(2))
    answer = alter_partition(cluster, 1, proposal(cluster, "t", 0, isr=(1,)))
    assert answer.error == codes.UNKNOWN_SERVER_ERROR


def test_standby_answers_not_controller() -> None:
    cluster = Cluster(1, 2)
    cluster.take_role(1)
    cluster.connect()
    request = AlterPartitionReceived(1, 3, 1, cluster.broker_epoch(1), [])
    cluster.happen(request, "api:1")
    assert answers(cluster) == [AlterPartitionResponse(1, codes.NOT_CONTROLLER)]


def test_queued_requests_are_answered_once_when_the_session_ends() -> None:
    cluster = cluster_with(1, 2)
    first, second = (
        AlterPartitionReceived(
            next_request(cluster) + number,
            3,
            1,
            cluster.broker_epoch(1),
            [proposal(cluster, "t", 0, isr=(1,))],
        )
        for number in (0, 1)
    )
    cluster.lose(lambda issued: isinstance(issued.command, WriteZnodes), Delivery.SESSION_OVER)
    cluster.happen_next(first, "api:1")
    cluster.happen_next(second, "api:2")
    cluster.run()
    assert [(one.request, one.error) for one in answers(cluster)] == [
        (first.request, codes.NOT_CONTROLLER),
        (second.request, codes.NOT_CONTROLLER),
    ]


def test_partition_named_twice_is_answered_once() -> None:
    cluster = cluster_with(1, 2)
    first, last = proposal(cluster, "t", 0, leader_epoch=9), proposal(cluster, "t", 0)
    answer = alter_partition(cluster, 1, first, last)
    assert [(one.partition, one.error) for one in answer.partitions] == [(0, codes.NONE)]


def test_partition_that_never_had_a_leader_is_unknown() -> None:
    cluster = cluster_with(4)
    same = ProposedState(cluster.topic("t").topic_id.hex(), 0, 0, (4,), 0, 0)
    [one] = alter_partition(cluster, 1, same).partitions
    assert one.error == codes.UNKNOWN_TOPIC_OR_PARTITION


def test_rejected_proposal_does_not_lead_to_a_check_of_the_reassignment() -> None:
    cluster = cluster_with(1, 2)
    ask(cluster, (("t", 0), (1, 3)))
    seen = cluster.seen()
    old = proposal(cluster, "t", 0, isr=(1, 2, 3), leader_epoch=0)
    [one] = alter_partition(cluster, 1, old).partitions
    assert one.error == codes.FENCED_LEADER_EPOCH
    assert [one for one in seen.commands if isinstance(one, ReadZnodes)] == []


def test_accepted_partitions_are_those_that_a_request_would_write() -> None:
    cluster = cluster_with(1, 2)
    cluster.create_topic("u", {0: [1, 2]})
    proposals = [
        proposal(cluster, "t", 0, isr=(1,)),
        proposal(cluster, "u", 0),
        proposal(cluster, "u", 0, topic="0f" * 16),
    ]
    request = AlterPartitionReceived(1, 3, 1, cluster.broker_epoch(1), proposals)
    controller, seen = cluster.fold.controller, cluster.seen()
    assert accepted_partitions(controller, request) == {("t", 0)}
    assert (
        accepted_partitions(controller, msgspec.structs.replace(request, broker_epoch=0)) == set()
    )
    assert (seen.commands, cluster.leadership("t", 0).isr) == ([], (1, 2))
    cluster.seize_role(2)
    cluster.run()
    assert accepted_partitions(controller, request) == set()
