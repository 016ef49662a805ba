"""Possible triggers of a decision if no log records the trigger."""

from collections.abc import Iterable

import pytest
from msgspec import structs

from controller.core.api_requests.controlled_shutdown import ControlledShutdownReceived
from controller.core.api_requests.elections import ElectLeadersReceived
from controller.core.configuration import Configuration
from controller.core.state import ControllerContext
from controller.core.triggers import ApiCall, AutoPreferredReplicaLeaderElection
from controller.core.values import Assignment, LeaderAndIsr
from replay.agreement.trace.inferred_triggers import possible_triggers
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


def test_broker_that_soon_closes_its_session_requested_a_controlled_shutdown() -> None:
    found = causes(state(1, 1, 2, 3), state(2, 2, 3), closing=(1, 3))
    assert found == [shutdown(1)]


def test_broker_that_still_leads_a_partition_repeats_its_controlled_shutdown() -> None:
    made = context(state(1, 1, 2))
    made.shutting_down[1] = None
    found = possible_triggers(made, SETTINGS, [T0], state(2, 2), iter([1]), (), has_requests=False)
    assert next(found) == shutdown(1)


def test_isr_in_zookeeper_is_used_before_the_controller_has_read_it() -> None:
    assert causes(state(2, 2), state(2, 2), closing=(1,), isr=(2, 1)) == [shutdown(1)]
    assert causes(state(2, 2), state(2, 2), closing=(1,), isr=(2, 3)) == []


@pytest.mark.parametrize(
    ("written", "live", "closing"),
    [
        # The broker stays in sync; was not in sync; is dead; no session ends soon; the ISR is
        # unchanged.
        (state(1, 1, 2), (1, 2, 3), (2,)),
        (state(1, 1), (1, 2, 3), (7,)),
        (state(1, 1, 3), (1, 3), (2,)),
        (state(1, 1, 3), (1, 2, 3), ()),
        (state(2, 1, 2, 3), (1, 2, 3), (1,)),
    ],
)
def test_broker_that_does_not_leave_the_isr_requested_no_shutdown(
    written: LeaderAndIsr, live: tuple[int, ...], closing: tuple[int, ...]
) -> None:
    assert causes(state(1, 1, 2, 3), written, *live, closing=closing) == []


def test_preferred_replica_in_sync_is_elected_by_timer_or_by_request() -> None:
    assert causes(state(2, 1, 2), state(1, 1, 2)) == [REBALANCE, PREFERRED]
    assert causes(state(2, 1, 2), state(1, 1), closing=(2,)) == [shutdown(2), REBALANCE, PREFERRED]


def test_preferred_replica_is_elected_by_request_if_a_partition_has_no_replicas() -> None:
    """The automatic rebalance of a stock controller fails then."""
    made = context(state(2, 1, 2))
    made.topic("t").partition(1).is_listed = True
    found = possible_triggers(
        made, SETTINGS, [T0], state(1, 1, 2), iter(()), (), has_requests=False
    )
    assert list(found) == [PREFERRED]


def test_preferred_replica_in_the_written_isr_is_elected() -> None:
    """Below 2.7 leaders write the ISR to ZooKeeper, and the controller reads it later."""
    assert causes(state(2, 2), state(1, 1, 2)) == [REBALANCE, PREFERRED]


def test_new_leader_that_is_not_preferred_has_no_trigger() -> None:
    assert causes(state(2, 1, 2, 3), state(3, 1, 2, 3)) == []


def test_states_written_together_were_requested_together() -> None:
    """The rebalance goes broker by broker, so writes for two preferred replicas need a request."""
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

    def request(*numbers: int) -> ApiCall:
        names = [("t", number) for number in numbers]
        return ApiCall(ElectLeadersReceived(0, 1, "preferred", names))

    assert found(0, 1) == [REBALANCE, request(0, 1)]
    assert found(0, 2) == [request(0, 2)]
    assert found(0, 1, 2) == [request(0, 1, 2)]
    # t-1 would be rebalanced as well, but was not.
    assert found(0) == [request(0)]
    # The rebalance of broker 1 comes before that of broker 3.
    assert found(2) == [request(2)]
    # The log has no request.
    assert found(0, 2, has_requests=True) == [REBALANCE]


@pytest.mark.parametrize(("others", "causes"), [(8, [REBALANCE, PREFERRED]), (9, [PREFERRED])])
def test_broker_below_the_imbalance_limit_is_not_rebalanced(
    others: int, causes: list[object]
) -> None:
    """Up to a tenth is tolerated (leader.imbalance.per.broker.percentage)."""
    made = context(state(2, 1, 2))
    for number in range(1, 1 + others):
        partition = made.topic("t").partition(number)
        partition.assignment = Assignment((1, 2))
        partition.leadership = state(1, 1, 2)
    written = state(1, 1, 2)
    found = possible_triggers(made, SETTINGS, [T0], written, iter(()), (), has_requests=False)
    assert [*found] == causes


@pytest.mark.parametrize("has_requests", [False, True])
def test_no_rebalance_if_it_is_disabled(has_requests: bool) -> None:
    made, written = context(state(2, 1, 2)), state(1, 1, 2)
    never = structs.replace(SETTINGS, auto_leader_rebalance_enable=False)
    found = possible_triggers(made, never, [T0], written, iter(()), (), has_requests=has_requests)
    assert [*found] == [PREFERRED][has_requests:]


@pytest.mark.parametrize(
    ("now", "live"), [(state(1, 1, 2), (1, 2)), (state(2, 2, 3), (1, 2, 3)), (state(2, 1, 2), (2,))]
)
def test_preferred_replica_that_leads_or_cannot_lead_has_no_trigger(
    now: LeaderAndIsr, live: tuple[int, ...]
) -> None:
    assert causes(now, now, *live) == []


def test_partition_without_a_leader_has_an_unclean_election_as_trigger() -> None:
    assert causes(state(-1, 1), state(2, 2), 2, 3) == [UNCLEAN]


def test_requests_are_not_inferred_if_a_log_has_them() -> None:
    """The timer of the rebalance is not recorded in a log either."""
    now, written = state(2, 1, 2), state(1, 1)
    assert causes(now, written, closing=(2,), has_requests=True) == [REBALANCE]
    assert causes(state(-1, 1), state(2, 2), 2, 3, has_requests=True) == []


def test_unknown_partition_or_one_without_a_state_has_no_trigger() -> None:
    assert causes(None, state(1, 1)) == []
    found = possible_triggers(
        context(state(1, 1)), SETTINGS, [("u", 0)], state(1, 1), iter(()), (), has_requests=False
    )
    assert list(found) == []
