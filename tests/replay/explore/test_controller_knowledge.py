"""The invariants judge a controller by what was delivered to it, not by its own state."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from controller.core import znodes
from controller.core.api_requests.controlled_shutdown import ControlledShutdownReceived
from controller.core.commands import (
    Command,
    CommandId,
    Issued,
    LeaderAndIsrRequest,
    ReadChildren,
    ReadStats,
    ReadZnodes,
    Reason,
)
from controller.core.error_codes import KAFKA_STORAGE_ERROR
from controller.core.events import BrokerResponded, ChildrenRead, Event, Recorded, ZnodesRead
from controller.core.operations import NO_NODE, OK
from controller.core.procedures.reassignment_znodes.cancel_znode import read_cancel
from controller.core.values import Assignment
from replay.explore.controller_knowledge import ControllerKnowledge
from replay.explore.generators.scenarios import generic
from replay.explore.invariants.invariant import Invariant
from replay.explore.invariants.known_cluster import LeaderCandidates
from replay.explore.run import run
from replay.world.inputs import (
    CancelReassignment,
    CrashBroker,
    ExpireSession,
    HoldLink,
    Input,
    Reassign,
    SlowDisk,
    StopBroker,
    Target,
)
from tests.races.planting import Replacement, planted
from tests.replay.explore.invariants.facts import ID, NAME, History, leader_and_isr

REFOLD = "refold 100"
_READ = (
    b'{"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
    b'"endpoints":["PLAINTEXT://h:9092"],"version":5}'
)


class _Own:
    """The state of a controller that knows nothing. `standby`: of one that follows the cluster
    before its term."""

    def __init__(self, *, standby: bool) -> None:
        self.standby = standby

    def is_standby(self, process: str) -> bool:
        return self.standby

    def broker_epoch_known_to(self, process: str, broker: int) -> int | None:
        return 7

    def live_brokers_of(self, process: str) -> list[int]:
        return [7]

    def candidates_of(self, process: str, name: Any) -> LeaderCandidates:
        return LeaderCandidates((), (7,), (7,))

    def cancel_known_to(self, process: str) -> int:
        return 7


class _Controller:
    """A controller, as the monitor sees it."""

    def __init__(self, *, standby: bool = False) -> None:
        self.known = History(Invariant).known
        self.delivered = ControllerKnowledge(self.known, _Own(standby=standby))
        self.delivered.inform_invariants()
        self._number = 0

    def asks(self, command: Command, answers: Sequence[Any]) -> None:
        """The controller asks, and receives answers. `answers` take the id of the command."""
        id = self.issues(command)
        for answer in answers:
            self.records(answer(id))

    def issues(self, command: Command) -> CommandId:
        self._number += 1
        id = CommandId(self._number, 0)
        self.records(ChildrenRead(CommandId(0, 0), OK, []), Issued(id, 1, command, Reason("test")))
        return id

    def records(self, event: Event, *issued: Issued) -> None:
        self.delivered.folded(REFOLD, Recorded(1, 0, 0, 1, "test", event), list(issued))

    def reads_brokers(self, **czxids: int) -> None:
        """The controller reads the registrations of broker1, broker2, ..."""
        brokers = {name.removeprefix("broker"): czxid for name, czxid in czxids.items()}
        self.asks(
            ReadChildren(znodes.BROKER_IDS, True),
            [lambda id: ChildrenRead(id, OK, list(brokers))],
        )
        if brokers:
            paths = tuple(f"{znodes.BROKER_IDS}/{one}" for one in brokers)
            self.asks(
                ReadZnodes(paths, True), [lambda id: _znodes_read(id, list(brokers.values()), 0)]
            )

    def reads_cancel(self, czxid: int) -> None:
        """The controller reads /admin/reassign_cancel; 0: the znode does not exist."""
        error = OK if czxid else NO_NODE
        for kind in (ReadStats, ReadZnodes):
            self.asks(
                kind((znodes.REASSIGN_CANCEL,)), [lambda id: _znodes_read(id, [czxid], error)]
            )


def _znodes_read(id: CommandId, czxids: list[int], error: int) -> ZnodesRead:
    count = len(czxids)
    zeros = [0] * count
    return ZnodesRead(id, 0, [error] * count, [_READ] * count, zeros, czxids, zeros, zeros)


def test_own_state_counts_until_the_registrations_were_read() -> None:
    controller = _Controller()
    assert controller.known.live_brokers_of(REFOLD) == [7]
    controller.reads_brokers(broker1=11, broker2=12)
    assert controller.known.live_brokers_of(REFOLD) == [1, 2]
    assert controller.known.broker_epoch_known_to(REFOLD, 2) == 12
    controller.delivered.ends(REFOLD)
    assert controller.known.live_brokers_of(REFOLD) == [7]


def test_both_answers_count_until_all_events_are_handled() -> None:
    controller = _Controller()
    known = controller.known
    controller.reads_brokers(broker1=11, broker2=12)
    controller.delivered.handled(REFOLD)
    controller.reads_brokers(broker2=22, broker3=13)
    assert sorted(known.live_brokers_of(REFOLD) or ()) == [1, 2, 3]
    assert known.surely_live_of(REFOLD) == []
    assert known.latest_live_of(REFOLD) == [2, 3]
    assert known.broker_epoch_known_to(REFOLD, 2) == 12
    controller.delivered.handled(REFOLD)
    assert known.live_brokers_of(REFOLD) == known.surely_live_of(REFOLD) == [2, 3]
    assert known.broker_epoch_known_to(REFOLD, 2) == 22
    assert known.broker_epoch_known_to(REFOLD, 1) is None


@pytest.mark.parametrize("is_standby", [False, True])
def test_broker_that_a_standby_knew_before_its_term_may_have_been_restarted(
    is_standby: bool,
) -> None:
    """The standby compares the registrations of its term with those that it has read before. Any
    other controller knows none at the beginning of its term."""
    controller = _Controller(standby=is_standby)
    known = controller.known
    controller.reads_brokers(broker1=11, broker2=12)
    controller.delivered.term_begins(REFOLD)
    assert known.live_brokers_of(REFOLD) == [7]
    controller.reads_brokers(broker1=21, broker2=12)
    assert known.surely_live_of(REFOLD) == ([2] if is_standby else [1, 2])
    assert known.broker_epoch_known_to(REFOLD, 1) == (11 if is_standby else 21)
    controller.delivered.handled(REFOLD)
    assert known.surely_live_of(REFOLD) == [1, 2]


def test_standby_compares_with_each_registration_that_it_has_read_last() -> None:
    """The standby reads a changed registration again, together with other znodes."""
    controller = _Controller(standby=True)
    known = controller.known
    controller.asks(
        ReadChildren(znodes.BROKER_IDS, True), [lambda id: ChildrenRead(id, OK, ["1", "2", "3"])]
    )
    first = (znodes.CONTROLLER, *(znodes.broker_path(one) for one in (1, 2, 3)))
    controller.asks(ReadZnodes(first, True), [lambda id: _znodes_read(id, [5, 11, 12, 13], 0)])
    changed = ReadZnodes((znodes.broker_path(2),), True)
    controller.asks(changed, [lambda id: _znodes_read(id, [22], 0)])
    controller.asks(
        ReadChildren(znodes.BROKER_IDS, True), [lambda id: ChildrenRead(id, OK, ["1", "2"])]
    )
    controller.delivered.term_begins(REFOLD)
    controller.reads_brokers(broker1=11, broker2=32)
    assert known.broker_epoch_known_to(REFOLD, 2) == 22
    assert (known.live_brokers_of(REFOLD), known.surely_live_of(REFOLD)) == ([1, 2], [1])
    controller.delivered.handled(REFOLD)
    assert known.surely_live_of(REFOLD) == [1, 2]


def test_broker_that_asks_to_shut_down_may_be_live_and_one_whose_request_was_granted_is_not() -> (
    None
):
    controller = _Controller()
    controller.reads_brokers(broker1=11, broker2=12)
    known = controller.known
    known.open_requests[REFOLD, 1] = ControlledShutdownReceived(1, 3, 1, 11)
    assert (known.live_brokers_of(REFOLD), known.surely_live_of(REFOLD)) == ([1, 2], [2])
    known.open_requests.clear()
    known.granted[REFOLD] = {1: 11}
    assert (known.live_brokers_of(REFOLD), known.surely_live_of(REFOLD)) == ([2], [2])


def test_stat_alone_announces_no_cancellation() -> None:
    controller = _Controller()
    assert controller.known.cancel_known_to(REFOLD) == 7
    controller.reads_cancel(0)
    assert controller.known.cancel_known_to(REFOLD) == 0
    controller.asks(ReadStats((znodes.REASSIGN_CANCEL,)), [lambda id: _znodes_read(id, [31], OK)])
    assert controller.known.cancel_known_to(REFOLD) == 0
    controller.reads_cancel(31)
    assert controller.known.cancel_known_to(REFOLD) == 31


def test_replica_in_a_failed_log_directory_is_not_online() -> None:
    controller = _Controller()
    known = controller.known
    controller.reads_brokers(broker1=11, broker2=12)
    request = leader_and_isr(2, 1, 4).request
    assert isinstance(request, LeaderAndIsrRequest)
    for errors, online, surely in (
        ([(ID.hex(), 0, KAFKA_STORAGE_ERROR)], (1,), (1,)),
        ([], (1, 2), (1, 2)),
    ):
        before = known.candidates_of(REFOLD, NAME)
        controller.asks(request, [lambda id, e=errors: BrokerResponded(id, 2, 12, 0, e)])
        now = known.candidates_of(REFOLD, NAME)
        assert before is not None
        assert now is not None
        assert (now.online, now.surely_online) == ((1, 2), (1,)), "it may not know that yet"
        controller.delivered.handled(REFOLD)
        now = known.candidates_of(REFOLD, NAME)
        assert now is not None
        assert (now.online, now.surely_online) == (online, surely)


def test_response_of_the_last_term_may_count_in_the_next_one() -> None:
    """The controller may have handled it before it resigned, or not until it was elected again."""
    controller = _Controller()
    controller.reads_brokers(broker1=11, broker2=12)
    request = leader_and_isr(2, 1, 4).request
    failed = [(ID.hex(), 0, KAFKA_STORAGE_ERROR)]
    controller.asks(request, [lambda id: BrokerResponded(id, 2, 12, 0, failed)])
    controller.delivered.term_begins(REFOLD)
    controller.reads_brokers(broker1=11, broker2=12)
    controller.delivered.handled(REFOLD)
    now = controller.known.candidates_of(REFOLD, NAME)
    assert now is not None
    assert (now.online, now.surely_online) == ((1, 2), (1,))
    controller.asks(request, [lambda id: BrokerResponded(id, 2, 12, 0, failed)])
    controller.delivered.handled(REFOLD)
    now = controller.known.candidates_of(REFOLD, NAME)
    assert now is not None
    assert (now.online, now.surely_online) == ((1,), (1,))


def test_orders_are_those_of_the_znodes_and_of_the_requested_targets() -> None:
    controller = _Controller()
    known = controller.known
    controller.reads_brokers(broker1=11)
    known.topics["orders"].assignments[0] = Assignment((3, 1, 2), (3,), (1,))
    known.requests_of(NAME).add((4, 2))
    found = known.candidates_of(REFOLD, NAME)
    assert found is not None
    # The requested target drops broker 3, and not the original broker 1.
    assert found.orders == ((3, 1, 2), (3, 2), (1, 2), (4, 2, 1), (1, 2))


# Controllers whose own state is wrong ---------------------------------------------------------


def _ignores_a_cancellation(original: Any) -> Any:
    async def process_cancel(controller: Any, trigger: Any) -> None:
        await read_cancel(controller)

    return process_cancel


def _knows_no_cancellation(original: Any) -> Any:
    async def current_cancel(controller: Any) -> int:
        return 0

    return current_cancel


def _keeps_broker_epochs(original: Any) -> Any:
    async def read_brokers(controller: Any, rule: str) -> Any:
        known = controller.context.brokers
        return [
            replace(one, epoch=known[one.id].epoch) if one.id in known else one
            for one in await original(controller, rule)
        ]

    return read_brokers


_CANCELLED: tuple[Input, ...] = (
    HoldLink(6_000, "broker 4", "broker 1", 2_000),
    Reassign(6_000, (Target("orders", 0, (1, 2, 4)),), "znode"),
    CancelReassignment(6_500, (), "znode"),
)
# The controller sees only that broker 2 has registered again, and then its earlier request arrives.
_LATE: tuple[Input, ...] = (
    SlowDisk(6_900, REFOLD, 1_900, 3_000),
    HoldLink(7_000, "broker 2", REFOLD, 9_000, accepts=True),
    StopBroker(7_000, 2, restart_after_ms=0),
    CrashBroker(7_003, 2, restart_after_ms=0),
    ExpireSession(7_004, "broker 2"),
)


@pytest.mark.parametrize(
    ("replacements", "inputs", "invariant"),
    [
        (
            (
                Replacement(
                    "controller.core.procedures.reassignment.cancellation:process_cancel",
                    _ignores_a_cancellation,
                ),
                Replacement(
                    "controller.core.procedures.reassignment_znodes.cancel_znode:current_cancel",
                    _knows_no_cancellation,
                ),
            ),
            _CANCELLED,
            "nothing-completes-while-cancelled",
        ),
        (
            (
                Replacement(
                    "controller.core.procedures.brokers.registrations:read_brokers",
                    _keeps_broker_epochs,
                ),
            ),
            _LATE,
            "earlier-runs-refused",
        ),
    ],
    ids=["cancellation", "broker epoch"],
)
def test_controller_with_a_wrong_state_does_not_excuse_itself(
    replacements: Sequence[Replacement], inputs: Sequence[Input], invariant: str
) -> None:
    scenario = generic(standby=(False,))
    assert run(scenario, inputs).violation is None
    with planted(replacements):
        found = run(scenario, inputs).violation
    assert found is not None
    assert found.invariant == invariant
