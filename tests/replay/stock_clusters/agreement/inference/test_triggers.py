"""What may have led to a decision where no log tells of it."""

from collections.abc import Iterable

import pytest
from msgspec import structs

from controller.core.api_requests.controlled_shutdown import ControlledShutdownReceived
from controller.core.api_requests.elections import ElectLeadersReceived
from controller.core.configuration import Configuration
from controller.core.state import ControllerContext
from controller.core.triggers import ApiCall, AutoPreferredReplicaLeaderElection
from controller.core.values import Assignment, LeaderAndIsr
from replay.stock_clusters.agreement.inference.triggers import possible_triggers
from tests.controller.core.driving import broker

SETTINGS = Configuration(broker_id=0, rules="kafka")
T0 = ("t", 0)
REBALANCE = AutoPreferredReplicaLeaderElection()
PREFERRED = ApiCall(ElectLeadersReceived(0, 1, "preferred", [T0]))
UNCLEAN = ApiCall(ElectLeadersReceived(0, 1, "unclean", [T0]))


def shutdown(id: int) -> ApiCall:
    return ApiCall(ControlledShutdownReceived(0, 0, id, -1))


def state(leader: int, *isr: int) -> LeaderAndIsr:
    return LeaderAndIsr(leader, 4, isr, 5, 1)


def context(now: LeaderAndIsr | None, *live: int) -> ControllerContext:
    """t-0 on [1,2,3]."""
    made = ControllerContext("PLAINTEXT")
    for id in live or (1, 2, 3):
        made.brokers[id] = broker(id)
    partition = made.topic("t").partition(0)
    partition.assignment = Assignment((1, 2, 3))
    partition.leadership = now
    return made


def causes(
    now: LeaderAndIsr | None,
    written: LeaderAndIsr,
    *live: int,
    closing: Iterable[int] = (),
    isr: tuple[int, ...] = (),
    has_requests: bool = False,
) -> list[object]:
    found = possible_triggers(
        context(now, *live), SETTINGS, [T0], written, iter(closing), isr, has_requests=has_requests
    )
    return list(found)


def test_broker_that_ends_by_itself_soon_asked_to_shut_down() -> None:
    found = causes(state(1, 1, 2, 3), state(2, 2, 3), closing=(1, 3))
    assert found == [shutdown(1)]


def test_broker_that_still_leads_something_asks_again_to_shut_down() -> None:
    made = context(state(1, 1, 2))
    made.shutting_down[1] = None
    found = possible_triggers(made, SETTINGS, [T0], state(2, 2), iter([1]), (), has_requests=False)
    assert next(found) == shutdown(1)


def test_what_stands_in_zookeeper_counts_where_the_controller_has_not_heard_of_it() -> None:
    assert causes(state(2, 2), state(2, 2), closing=(1,), isr=(2, 1)) == [shutdown(1)]
    assert causes(state(2, 2), state(2, 2), closing=(1,), isr=(2, 3)) == []


@pytest.mark.parametrize(
    ("written", "live", "closing"),
    [
        # It stays in sync; it was not; it is dead; nobody ends soon; the ISR is as it was.
        (state(1, 1, 2), (1, 2, 3), (2,)),
        (state(1, 1), (1, 2, 3), (7,)),
        (state(1, 1, 3), (1, 3), (2,)),
        (state(1, 1, 3), (1, 2, 3), ()),
        (state(2, 1, 2, 3), (1, 2, 3), (1,)),
    ],
)
def test_others_did_not(
    written: LeaderAndIsr, live: tuple[int, ...], closing: tuple[int, ...]
) -> None:
    assert causes(state(1, 1, 2, 3), written, *live, closing=closing) == []


def test_preferred_replica_in_sync_may_take_over_by_time_or_by_request() -> None:
    assert causes(state(2, 1, 2), state(1, 1, 2)) == [REBALANCE, PREFERRED]
    assert causes(state(2, 1, 2), state(1, 1), closing=(2,)) == [shutdown(2), REBALANCE, PREFERRED]


def test_isr_that_was_written_counts() -> None:
    """Below 2.7 leaders write it, and the controller hears of it later."""
    assert causes(state(2, 2), state(1, 1, 2)) == [REBALANCE, PREFERRED]


def test_another_one_that_leads_is_no_election_of_preferred_ones() -> None:
    assert causes(state(2, 1, 2, 3), state(3, 1, 2, 3)) == []


def test_what_was_written_together_was_asked_for_together() -> None:
    """Leaders are rebalanced broker by broker: of another preferred replica it was a request."""
    made = context(state(2, 1, 2))
    for number, preferred in ((1, 1), (2, 3)):
        partition = made.topic("t").partition(number)
        partition.assignment = Assignment((preferred, 2))
        partition.leadership = state(2, 2, preferred)

    def found(*numbers: int, has_requests: bool = False) -> list[object]:
        names = [("t", number) for number in numbers]
        written = state(3, 3, 2) if numbers == (2,) else state(1, 1, 2)
        return [
            *possible_triggers(
                made, SETTINGS, names, written, iter(()), (), has_requests=has_requests
            )
        ]

    def asked(*numbers: int) -> ApiCall:
        names = [("t", number) for number in numbers]
        return ApiCall(ElectLeadersReceived(0, 1, "preferred", names))

    assert found(0, 1) == [REBALANCE, asked(0, 1)]
    assert found(0, 2) == [asked(0, 2)]
    assert found(0, 1, 2) == [asked(0, 1, 2)]
    # One that would be rebalanced, too, was left out.
    assert found(0) == [asked(0)]
    # It is broker 1's turn before 3's.
    assert found(2) == [asked(2)]
    # The log has no request.
    assert found(0, 2, has_requests=True) == [REBALANCE]


@pytest.mark.parametrize(("others", "causes"), [(8, [REBALANCE, PREFERRED]), (9, [PREFERRED])])
def test_broker_that_leads_nearly_all_that_it_should_is_not_rebalanced(
    others: int, causes: list[object]
) -> None:
    """Up to a tenth is nothing (leader.imbalance.per.broker.percentage)."""
    made = context(state(2, 1, 2))
    for number in range(1, 1 + others):
        partition = made.topic("t").partition(number)
        partition.assignment = Assignment((1, 2))
        partition.leadership = state(1, 1, 2)
    written = state(1, 1, 2)
    found = possible_triggers(made, SETTINGS, [T0], written, iter(()), (), has_requests=False)
    assert [*found] == causes


@pytest.mark.parametrize("has_requests", [False, True])
def test_nothing_is_rebalanced_where_the_setting_says_so(has_requests: bool) -> None:
    made, written = context(state(2, 1, 2)), state(1, 1, 2)
    never = structs.replace(SETTINGS, auto_leader_rebalance_enable=False)
    found = possible_triggers(made, never, [T0], written, iter(()), (), has_requests=has_requests)
    assert [*found] == [PREFERRED][has_requests:]


@pytest.mark.parametrize(
    ("now", "live"), [(state(1, 1, 2), (1, 2)), (state(2, 2, 3), (1, 2, 3)), (state(2, 1, 2), (2,))]
)
def test_one_that_leads_or_is_not_in_sync_or_dead_does_not(
    now: LeaderAndIsr, live: tuple[int, ...]
) -> None:
    assert causes(now, now, *live) == []


def test_partition_without_a_leader_may_get_one_by_request() -> None:
    assert causes(state(-1, 1), state(2, 2), 2, 3) == [UNCLEAN]


def test_requests_are_not_supposed_where_a_log_has_them() -> None:
    """A timer leaves nothing there either."""
    now, written = state(2, 1, 2), state(1, 1)
    assert causes(now, written, closing=(2,), has_requests=True) == [REBALANCE]
    assert causes(state(-1, 1), state(2, 2), 2, 3, has_requests=True) == []


def test_partition_that_is_not_known_or_has_no_state_has_no_cause() -> None:
    assert causes(None, state(1, 1)) == []
    found = possible_triggers(
        context(state(1, 1)), SETTINGS, [("u", 0)], state(1, 1), iter(()), (), has_requests=False
    )
    assert list(found) == []
