"""A tool adds partitions by writing a topic's znode at the moment at which the controller writes
it."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.commands import Issued, LeaderAndIsrRequest, ReadZnodes, SyncZnodes
from controller.core.operations import Check, Create, SetData
from controller.core.snapshot import load_snapshot, take_snapshot
from controller.core.values import Assignment
from controller.core.znodes import TopicContent
from tests.controller.core.cluster import Cluster
from tests.controller.core.procedures.reassignment.interrupting import (
    OtherControllersTerm,
    assert_nothing_is_left,
    cancel_all,
    identity,
    request,
    submit,
    submit_quietly,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    T1,
    Name,
    ask,
    assert_no_failures,
    assignment,
    cancel,
    catch_up,
    put_request,
    reassign,
    reassigning,
)
from tests.controller.core.procedures.topics.deleting import left_of, mark
from tests.controller.core.replaying import assert_replays
from tests.controller.core.unreliable import Delivery

PATH = znodes.topic_path("t")
T9 = ("t", 9)
both_rules = pytest.mark.parametrize("rules", ["refold", "kafka"])

Operation = Callable[[Cluster], object]


def brokers_with_topic(**settings: Any) -> Cluster:
    """t-0 and t-1 on [1,2] of brokers 1 to 4."""
    cluster = Cluster(1, 2, 3, 4, **settings).start()
    cluster.create_topic("t", {0: [1, 2], 1: [1, 2]})
    return cluster


def with_kip_236() -> Cluster:
    return brokers_with_topic(kip_236_enable=True)


def sets_topic(issued: Issued) -> bool:
    """Whether the controller is about to write the znode of t, or to check its version."""
    operations = getattr(issued.command, "operations", ())
    return any(isinstance(one, SetData | Check) and one.path == PATH for one in operations)


def creates_parent(issued: Issued) -> bool:
    """Whether the controller is about to create the parent of t's records."""
    operations = getattr(issued.command, "operations", ())
    parent = znodes.reassignments_path("t")
    return any(isinstance(one, Create) and one.path == parent for one in operations)


def add_partition(cluster: Cluster, number: int = 9, *, with_id: bool = True) -> None:
    """A tool reads the znode of t and writes it with one more partition on [3,4]. The controller
    does not react yet."""
    content = cluster.topic("t")
    assignments = content.assignments | {number: Assignment((3, 4))}
    topic_id = content.topic_id if with_id else None
    cluster.put_quietly(PATH, znodes.write_topic(TopicContent(assignments, topic_id)))


def disturbed(cluster: Cluster, operation: Operation, *, with_id: bool = True) -> None:
    """The operation; a tool adds a partition just before its first write or check of the topic."""
    added: list[int] = []

    def add() -> None:
        added.append(9)
        add_partition(cluster, with_id=with_id)

    cluster.once(sets_topic, add)
    operation(cluster)
    assert added, "the controller has not written the topic"


def assert_led(cluster: Cluster, number: int) -> None:
    """The partition is in the znode, and has a leader and a full ISR."""
    assert assignment(cluster, ("t", number)) == "3,4"
    assert cluster.leadership("t", number).isr == (3, 4)
    assert cluster.partition("t", number).leader == 3


def assert_added(cluster: Cluster, number: int = 9) -> None:
    """As `assert_led`, and no procedure has failed."""
    assert_led(cluster, number)
    assert_no_failures(cluster)


# added-partitions-kept --------------------------------------------------------------------------


@both_rules
@pytest.mark.deviates("added-partitions-kept")
def test_partition_added_when_a_reassignment_begins_is_kept(rules: str) -> None:
    cluster = brokers_with_topic(rules=rules)
    disturbed(cluster, lambda cluster: reassign(cluster, 3, 4))
    assert assignment(cluster) == "3,4,1,2 adding 3,4 removing 1,2"
    if rules == "refold":
        assert_added(cluster)
    else:
        assert set(cluster.topic("t").assignments) == {0, 1}


@both_rules
def test_partition_added_when_a_reassignment_completes_is_kept(rules: str) -> None:
    cluster = brokers_with_topic(rules=rules)
    reassign(cluster, 3, 4)
    disturbed(cluster, lambda cluster: catch_up(cluster, 3, 4))
    assert assignment(cluster) == "3,4"
    assert (9 in cluster.topic("t").assignments) is (rules == "refold")
    assert reassigning(cluster) == []


@both_rules
def test_partition_added_when_a_topic_gets_its_id_is_kept(rules: str) -> None:
    cluster = Cluster(1, 2, 3, 4, rules=rules).start()
    disturbed(cluster, lambda cluster: cluster.create_topic("t", {0: [1, 2]}))
    content = cluster.topic("t")
    assert content.topic_id is not None
    assert content.topic_id == cluster.fold.controller.context.topics["t"].id
    if rules == "refold":
        assert_added(cluster)
    else:
        assert set(content.assignments) == {0}


def test_brokers_are_not_sent_a_topic_id_that_is_not_stored() -> None:
    """The next controller would draw another id, and brokers would reject its requests."""
    cluster = Cluster(1, 2, 3, 4).start()
    stored: list[bytes | None] = []
    adds = iter([True])

    def before(issued: Issued) -> None:
        if sets_topic(issued) and next(adds, False):
            add_partition(cluster)
        if isinstance(issued.command, LeaderAndIsrRequest):
            stored.append(cluster.topic("t").topic_id)

    cluster.before = before
    cluster.create_topic("t", {0: [1, 2]})
    assert stored
    assert None not in stored


@pytest.mark.parametrize("kip_236_enable", [False, True])
def test_partitions_that_the_controller_knows_do_not_delay_its_writes(kip_236_enable: bool) -> None:
    cluster = brokers_with_topic(kip_236_enable=kip_236_enable)
    add_partition(cluster)
    cluster.run()
    seen = cluster.seen()
    ask(cluster, (T0, [3, 4]), (T1, [3, 4]))
    begun = 2 if kip_236_enable else 1
    assert seen.written().count(PATH) == begun
    for name in (T0, T1):
        catch_up(cluster, 3, 4, name=name)
    assert seen.written().count(PATH) == begun + 2
    # This reassignment begins and completes before the controller reads the znode again.
    reassign(cluster, 3)
    assert assignment(cluster) == "3"
    assert seen.written().count(PATH) == begun + 4


@both_rules
def test_added_partition_is_created_before_the_assignment_is_written(rules: str) -> None:
    """A new controller that reads the znode finds a partition that has a state."""
    cluster = brokers_with_topic(rules=rules)
    seen = cluster.seen()
    disturbed(cluster, lambda cluster: reassign(cluster, 3, 4))
    state = znodes.state_path(*T9)
    written = [one for one in seen.written() if one in (PATH, state)]
    assert written == ([PATH, state, PATH] if rules == "refold" else [PATH])


BEGINNINGS: dict[str, Operation] = {
    "API": lambda cluster: ask(cluster, (T0, [3, 4]), (T1, [3, 4])),
    "request": lambda cluster: request(cluster, {T0: [3, 4], T1: [3, 4]}),
    "entries": lambda cluster: submit(cluster, {T0: [3, 4], T1: [3, 4]}),
}


@pytest.mark.parametrize("begin", BEGINNINGS.values(), ids=BEGINNINGS)
@pytest.mark.deviates("added-partitions-kept")
def test_partition_added_when_recorded_reassignments_begin_is_kept(begin: Operation) -> None:
    """Of two moves of a topic, the first is refused, and the tool's write increases the version to
    that which the second expects."""
    cluster = with_kip_236()
    disturbed(cluster, begin)
    for name in (T0, T1):
        assert assignment(cluster, name) == "3,4,1,2 adding 3,4 removing 1,2"
    assert_added(cluster)
    assert identity(cluster, T0) != identity(cluster, T1)


def test_partition_added_when_targets_are_replaced_is_kept() -> None:
    cluster = with_kip_236()
    request(cluster, {T0: [3], T1: [3]})
    disturbed(cluster, lambda cluster: request(cluster, {T0: [4], T1: [4]}))
    for name in (T0, T1):
        assert assignment(cluster, name) == "4,1,2 adding 4 removing 1,2"
    assert_added(cluster)


def test_targets_of_one_topic_are_replaced_although_record_versions_are_unknown() -> None:
    cluster = with_kip_236()
    request(cluster, {T0: [3], T1: [3]})
    request(cluster, {T0: [4], T1: [4]})
    for name in (T0, T1):
        assert assignment(cluster, name) == "4,1,2 adding 4 removing 1,2"
    assert_no_failures(cluster)


def test_partition_added_when_a_rollback_stores_the_originals_is_kept() -> None:
    cluster = with_kip_236()
    submit(cluster, {T0: [3, 4]})
    disturbed(cluster, cancel_all)
    assert assignment(cluster) == "1,2"
    assert_added(cluster)


@pytest.mark.parametrize("kip_236_enable", [False, True])
def test_partition_added_when_a_reassignment_is_cancelled_is_kept(kip_236_enable: bool) -> None:
    cluster = brokers_with_topic(kip_236_enable=kip_236_enable)
    reassign(cluster, 3, 4)
    disturbed(cluster, cancel)
    assert assignment(cluster) == "1,2"
    assert_added(cluster)


def test_partition_added_when_a_stock_controllers_move_is_adopted_is_kept() -> None:
    cluster = with_kip_236()

    def adopt(cluster: Cluster) -> None:
        with OtherControllersTerm(cluster):
            submit_quietly(cluster, {T0: [3, 4]})
            content = cluster.topic("t")
            moving = content.assignments | {0: Assignment((3, 4, 1, 2), (3, 4), (1, 2))}
            data = znodes.write_topic(TopicContent(moving, content.topic_id))
            cluster.put_quietly(PATH, data)

    disturbed(cluster, adopt)
    assert_added(cluster)
    catch_up(cluster, 3, 4)
    assert assignment(cluster) == "3,4"
    assert_nothing_is_left(cluster)


def test_partition_added_when_a_failover_completes_a_reassignment_is_kept() -> None:
    cluster = brokers_with_topic()
    reassign(cluster, 3, 4)

    def fail_over(cluster: Cluster) -> None:
        with OtherControllersTerm(cluster):
            cluster.set_isr("t", 0, [1, 2, 3, 4])

    disturbed(cluster, fail_over)
    assert assignment(cluster) == "3,4"
    assert_added(cluster)


def test_partition_added_by_a_tool_without_topic_ids_is_kept_and_the_id_restored() -> None:
    cluster = brokers_with_topic()
    topic_id = cluster.topic("t").topic_id
    seen = cluster.seen()
    disturbed(cluster, lambda cluster: reassign(cluster, 3, 4), with_id=False)
    assert_added(cluster)
    assert cluster.topic("t").topic_id == topic_id
    assert len(seen.texts_of("topic_id_restored")) == 1


def test_partition_added_when_the_topic_id_is_restored_is_kept() -> None:
    cluster = brokers_with_topic()
    topic_id = cluster.topic("t").topic_id

    def add_without_id(cluster: Cluster) -> None:
        add_partition(cluster, 2, with_id=False)
        cluster.run()

    disturbed(cluster, add_without_id)
    assert cluster.topic("t").topic_id == topic_id
    for number in (2, 9):
        assert_added(cluster, number)


def test_added_partition_that_the_controller_has_not_seen_yet_is_kept() -> None:
    """The watch has fired, and the controller begins a reassignment first."""
    cluster = brokers_with_topic()
    add_partition(cluster)
    seen = cluster.seen()
    put_request(cluster, {T0: [3, 4]})
    assert assignment(cluster) == "3,4,1,2 adding 3,4 removing 1,2"
    assert_added(cluster)
    assert seen.notices() == []


def test_partition_added_twice_in_succession_is_kept() -> None:
    cluster = brokers_with_topic()
    numbers = iter((8, 9))

    def add(issued: Issued) -> None:
        if sets_topic(issued) and (number := next(numbers, None)):
            add_partition(cluster, number)

    cluster.before = add
    reassign(cluster, 3, 4)
    assert assignment(cluster) == "3,4,1,2 adding 3,4 removing 1,2"
    for number in (8, 9):
        assert_added(cluster, number)


def test_topic_that_is_being_deleted_gains_no_partition_by_a_second_write() -> None:
    cluster = brokers_with_topic()
    cluster.stop_broker(2)
    mark(cluster, "t")

    def add(cluster: Cluster) -> None:
        add_partition(cluster, 8)
        cluster.run()

    seen = cluster.seen()
    disturbed(cluster, add)
    assert set(cluster.topic("t").assignments) == {0, 1}
    [refused] = seen.texts_of("partitions_refused")
    assert refused.endswith("t-8, t-9")
    assert_no_failures(cluster)
    cluster.start_broker(2)
    assert left_of(cluster, "t") == []


def test_unreadable_content_written_meanwhile_is_replaced_by_the_known_assignments() -> None:
    cluster = brokers_with_topic()
    cluster.once(sets_topic, lambda: cluster.put_quietly(PATH, b"garbage"))
    reassign(cluster, 3, 4)
    assert assignment(cluster) == "3,4,1,2 adding 3,4 removing 1,2"
    assert set(cluster.topic("t").assignments) == {0, 1}


def test_topic_deleted_by_hand_meanwhile_fails_the_reassignment() -> None:
    cluster = brokers_with_topic()
    seen = cluster.seen()
    cluster.once(sets_topic, lambda: cluster.remove_quietly(PATH))
    assert reassign(cluster, 3, 4) == codes.UNKNOWN_SERVER_ERROR
    assert cluster.data(PATH) is None
    assert ("reassignment_failed", "t-0") in seen.notices()


@pytest.mark.parametrize("lost", [Delivery.REPLY_LOST, Delivery.REQUEST_LOST])
def test_partition_added_after_a_lost_reply_is_kept(lost: Delivery) -> None:
    cluster = brokers_with_topic()
    cluster.lose(sets_topic, lost)
    settles = lambda issued: isinstance(issued.command, SyncZnodes)  # noqa: E731
    cluster.once(settles, lambda: add_partition(cluster))
    reassign(cluster, 3, 4)
    assert assignment(cluster) == "3,4,1,2 adding 3,4 removing 1,2"
    assert_added(cluster)


@pytest.mark.parametrize("lost", [Delivery.REPLY_LOST, Delivery.REQUEST_LOST])
def test_partition_added_after_the_lost_reply_to_a_recorded_move_is_kept(lost: Delivery) -> None:
    cluster = with_kip_236()
    cluster.lose(sets_topic, lost)
    reads = lambda issued: issued.command == ReadZnodes((PATH,), watch=True)  # noqa: E731
    cluster.once(reads, lambda: add_partition(cluster))
    ask(cluster, (T0, [3, 4]), (T1, [3, 4]))
    for name in (T0, T1):
        assert assignment(cluster, name) == "3,4,1,2 adding 3,4 removing 1,2"
    assert_added(cluster)


@pytest.mark.parametrize("lost", [Delivery.REPLY_LOST, Delivery.REQUEST_LOST])
def test_partition_added_before_a_recorded_move_is_written_is_kept(lost: Delivery) -> None:
    """The reply to the creation of the record's parent is lost, which gives the tool time."""
    cluster = with_kip_236()
    topic_id = cluster.topic("t").topic_id
    cluster.lose(creates_parent, lost)
    settles = lambda issued: isinstance(issued.command, SyncZnodes)  # noqa: E731
    cluster.once(settles, lambda: add_partition(cluster, with_id=False))
    request(cluster, {T0: [3, 4]})
    assert assignment(cluster) == "3,4,1,2 adding 3,4 removing 1,2"
    assert_added(cluster)
    assert cluster.topic("t").topic_id == topic_id


def test_version_of_the_topic_is_in_the_snapshot() -> None:
    cluster = brokers_with_topic()
    configuration = cluster.fold.controller.configuration
    cluster.fold = load_snapshot(take_snapshot(cluster.fold), configuration)
    disturbed(cluster, lambda cluster: reassign(cluster, 3, 4))
    assert_added(cluster)


def test_log_from_before_the_deviation_is_folded_without_versions() -> None:
    cluster = brokers_with_topic(checks_topic_versions=False)
    disturbed(cluster, lambda cluster: reassign(cluster, 3, 4))
    assert set(cluster.topic("t").assignments) == {0, 1}


# Any order --------------------------------------------------------------------------------------


class DisturbedCluster(Cluster):
    """A tool adds partitions to t, and replies are lost, just before the commands of these
    numbers."""

    def __init__(self, adds: set[int], lost: dict[int, Delivery]) -> None:
        super().__init__(1, 2, 3, 4, kip_236_enable=True)
        self.added: list[int] = []
        self._adds = adds
        self._lost = lost
        self._number = 0

    def disturb(self) -> None:
        """From now on."""
        self.before = self._before
        self.delivery = lambda issued: self._lost.get(self._number, Delivery.ANSWERED)

    def settle(self) -> None:
        """Nothing more happens; the controller ends what it does."""
        self.before = lambda issued: None
        self.delivery = lambda issued: Delivery.ANSWERED
        self.run()

    def _before(self, issued: Issued) -> None:
        self._number += 1
        if self._number in self._adds:
            self.added.append(10 + len(self.added))
            add_partition(self, self.added[-1], with_id=self._number % 2 == 0)


def complete(cluster: Cluster, name: Name) -> None:
    """All of 3 and 4 get into the ISR."""
    while missing := [one for one in (3, 4) if one not in cluster.leadership(*name).isr]:
        catch_up(cluster, missing[0], name=name)


@given(
    begin=st.sampled_from(list(BEGINNINGS.values())),
    cancels=st.booleans(),
    adds=st.sets(st.integers(1, 60), max_size=4),
    lost=st.dictionaries(st.integers(1, 60), st.sampled_from(list(Delivery)), max_size=2),
)
@settings(max_examples=80)
def test_added_partitions_are_kept_in_any_order(
    begin: Operation, cancels: bool, adds: set[int], lost: dict[int, Delivery]
) -> None:
    cluster = DisturbedCluster(adds, lost)
    cluster.start()
    cluster.create_topic("t", {0: [1, 2], 1: [1, 2]})
    cluster.disturb()
    begin(cluster)
    if cancels:
        ask(cluster, (T0, None))
    cluster.settle()
    for name in reassigning(cluster):
        complete(cluster, name)
    assert reassigning(cluster) == []
    for number in cluster.added:
        assert_led(cluster, number)
    assert_replays(cluster)
