"""The strategies make the same inputs for the same seed, and inputs of every kind."""

from collections.abc import Callable
from typing import get_args
from unittest.mock import patch

import pytest
from msgspec import structs

from controller.core.operations import Create
from replay.explore.coverage import ControllerAct, Coverage
from replay.explore.generators import crash_points, disturbance, pct, staleness, systematic
from replay.explore.generators.acts import ActMaker
from replay.explore.generators.attempt import Attempts, BudgetSpent, TracedRun
from replay.explore.generators.ending import with_refold_at_end
from replay.explore.generators.injection_points import InjectionPoint, injection_points_of
from replay.explore.generators.mix import random_mix
from replay.explore.generators.patterns import Patterns
from replay.explore.generators.scenarios import OLD_ZOOKEEPER, generic, random_scenario
from replay.explore.generators.strategies import STRATEGIES, ExplorationStart, do_job
from replay.explore.generators.variation import vary_times
from replay.explore.numbers import RandomNumbers
from replay.world.ensemble.protocol import ConnectRequest, Ping, RequestPacket
from replay.world.inputs import (
    NONE,
    CancelReassignment,
    CrashBroker,
    CrashController,
    Delay,
    DelayEphemeralDeletion,
    DeleteControllerZnode,
    ElectLeaders,
    ExpireSession,
    HoldLink,
    Input,
    LagZooKeeper,
    LoseReply,
    Reassign,
    StartController,
    StopBroker,
)
from replay.world.network import Delivery
from replay.world.requests import GetData


class RecordedAttempts(Attempts):
    """Keeps the inputs instead of running them."""

    def __init__(self, seed: int, traced: TracedRun) -> None:
        super().__init__(generic(), "test", seed, random_mix)
        self.made: list[list[Input]] = []
        self._traced = traced

    def run(self, inputs: object) -> None:
        self.made.append(list(inputs))  # type: ignore[call-overload]

    def trace(self, inputs: object) -> TracedRun:
        self.run(inputs)
        return self._traced


def _trace() -> TracedRun:
    deliveries = [
        Delivery(number, number * 1000, link, number, 0, b"")
        for number, link in enumerate(
            ("refold 100>zookeeper", "refold 100>broker 1", "broker 1>zookeeper"), 1
        )
    ]
    acts = {
        "refold 100": [
            ControllerAct(1, 10, "Startup: Create /controller"),
            ControllerAct(2, 11, "x: y"),
        ]
    }
    return TracedRun(deliveries, acts, {one.link: 50 for one in deliveries})


def _made(strategy: Callable[[Attempts, RandomNumbers], None], seed: int) -> list[list[Input]]:
    attempts = RecordedAttempts(seed, _trace())
    strategy(attempts, RandomNumbers(seed))
    return attempts.made


@pytest.mark.parametrize("name", STRATEGIES)
def test_same_seed_makes_the_same_inputs(name: str) -> None:
    assert _made(STRATEGIES[name], 3) == _made(STRATEGIES[name], 3)
    assert _made(STRATEGIES[name], 3) != _made(STRATEGIES[name], 4)


def test_random_scenarios_have_all_kinds_of_clusters() -> None:
    made = [random_scenario(RandomNumbers(seed)) for seed in range(300)]
    factors = {len(one) for each in made for topic in each.topics for one in topic.assignment}
    refolds = [one.configuration for each in made for one in each.controllers if one.runs]
    assert {one.zookeeper for one in made} == {"3.5", "3.9"}
    assert factors == {1, 2, 3, 4}
    assert {"2.4-IV0", "2.6-IV0", "2.7-IV2", "2.8-IV1", "3.9-IV0"} <= {one.protocol for one in made}
    assert {one.take_over for one in refolds} == {False, True}
    assert any(
        one.unclean_leader_election_enable
        and topic.configs == {"unclean.leader.election.enable": "false"}
        for each in made
        for one in (each.controllers[0].configuration,)
        for topic in each.topics
    )


def test_random_scenarios_depend_on_the_seed_only() -> None:
    assert random_scenario(RandomNumbers(3)) == random_scenario(RandomNumbers(3))
    assert len({repr(random_scenario(RandomNumbers(seed))) for seed in range(20)}) == 20


def test_mix_makes_inputs_of_every_kind() -> None:
    scenario = generic()
    made = {
        type(one).__name__
        for seed in range(300)
        for one in random_mix(scenario, RandomNumbers(seed))
    }
    assert made == {one.__name__ for one in get_args(Input)}


def test_mix_is_in_the_order_of_times_and_within_the_active_part() -> None:
    scenario = generic()
    for seed in range(50):
        times = [one.at_ms for one in random_mix(scenario, RandomNumbers(seed))]
        assert times == sorted(times)
        assert max(times) < scenario.active_ms


def test_pct_delays_only_messages_of_controllers_and_zookeeper() -> None:
    sent = {"refold 100>zookeeper": 5, "broker 1>broker 2": 1000, "producer 0>broker 1": 1000}
    found = [one for seed in range(50) for one in pct.change_points(sent, RandomNumbers(seed))]
    assert {one.link for one in found if isinstance(one, Delay)} == {"refold 100>zookeeper"}


def test_staleness_lags_at_moments_of_reads() -> None:
    made = _made(staleness.staleness, 1)[1:]
    lags = [one for inputs in made for one in inputs if isinstance(one, LagZooKeeper)]
    assert len(lags) >= staleness.RUNS


def test_crash_points_crash_at_each_kind_of_act() -> None:
    made = _made(crash_points.crash_points, 1)[crash_points.BASES :]
    crashes = [inputs[0] for inputs in made]
    assert all(isinstance(one, CrashController) for one in crashes)
    assert {one.act for one in crashes if isinstance(one, CrashController)} == {1, 2}


def test_crash_points_that_the_fewest_runs_have_are_tried_first() -> None:
    often = [ControllerAct(number, 5_000, f"often {number}") for number in range(40)]
    rare = [ControllerAct(number, 6_000, f"rare {number}") for number in range(12)]
    acts = [{"refold 100": often}, {"refold 100": [*often, *rare]}, {"refold 100": often}]
    runs: list[tuple[list[Input], dict[str, list[ControllerAct]]]] = [([], one) for one in acts]
    for seed in range(10):
        found = [one.act.point for one in crash_points.choose_acts(runs, RandomNumbers(seed))]
        assert len(set(found)) == crash_points.RUNS
        assert all(one.startswith("rare") for one in found[: len(rare)])


def test_disturbances_are_around_acts_of_controllers() -> None:
    trace = TracedRun(
        [], {"refold 100": [ControllerAct(1, 11_000, "Startup: Create /controller")]}, {}
    )
    attempts = RecordedAttempts(1, trace)
    disturbance.disturb(attempts, RandomNumbers(1))
    base, made = attempts.made[0], attempts.made[disturbance.BASES :]
    assert len(made) == disturbance.RUNS
    added = [[one for one in inputs if one not in base] for inputs in made]
    around = [any(10_000 < one.at_ms < 12_500 for one in inputs) for inputs in added]
    assert all(around)


def test_disturbances_vary_the_run_that_reached_something_new() -> None:
    crash = CrashBroker(5_000, 1)

    class Reaching(RecordedAttempts):
        """Each run with one more crash of broker 1 reaches another kind of act."""

        def trace(self, inputs: object) -> TracedRun:
            self.run(inputs)
            crashes = sum(isinstance(one, CrashBroker) for one in self.made[-1])
            return TracedRun(
                [], {"refold 100": [ControllerAct(1, 5_000, f"act {crashes * '!'}")]}, {}
            )

    attempts = Reaching(1, _trace())
    attempts.inputs = lambda numbers: [crash]  # type: ignore[method-assign]
    for seed in range(3):
        disturbance.disturb(attempts, RandomNumbers(seed))
    most = max(sum(isinstance(one, CrashBroker) for one in each) for each in attempts.made)
    assert most >= 4


def test_moments_are_acts_of_controllers_and_writes_and_sessions_of_brokers() -> None:
    register = RequestPacket(1, Create("/brokers/ids/2", b"", ephemeral=True))
    deliveries = [
        Delivery(1, 4_000_000, "broker 2>zookeeper", 1, 0, ConnectRequest(0, 6_000, 0, b"")),
        Delivery(2, 4_001_000, "broker 2>zookeeper", 2, 0, register),
        Delivery(
            3, 4_002_000, "broker 2>zookeeper", 3, 0, RequestPacket(2, GetData("/brokers/ids/2"))
        ),
        Delivery(4, 4_003_000, "broker 2>zookeeper", 4, 0, RequestPacket(3, Ping())),
        Delivery(5, 4_004_000, "zookeeper>refold 100", 5, 0, bytes(4) + b"\xff" * 4),
        Delivery(6, 4_005_000, "zookeeper>refold 100", 6, 0, bytes(8)),
    ]
    acts = {"refold 100": [ControllerAct(1, 50, "a: b"), ControllerAct(2, 4_010, "a: b")]}
    assert injection_points_of(acts, deliveries) == {
        "a: b": [InjectionPoint("refold 100", 4_010, "a: b")],
        "broker: session": [InjectionPoint("broker 2", 4_000, "broker: session")],
        "broker: Create /brokers/ids/N": [
            InjectionPoint("broker 2", 4_001, "broker: Create /brokers/ids/N")
        ],
        "watch event": [InjectionPoint("refold 100", 4_004, "watch event")],
    }


def test_patterns_depose_controllers_and_lose_sessions_and_replies_around_a_moment() -> None:
    made = [
        one for seed in range(60) for one in Patterns(generic(), RandomNumbers(seed)).make(6_000)
    ]
    kinds = {type(one).__name__ for one in made}
    assert kinds > {"DeleteControllerZnode", "ExpireSession", "LoseReply", "LagZooKeeper"}
    near = [one for one in made if 4_000 <= one.at_ms < 20_000]
    assert len(near) > 0.9 * len(made)


def test_mixes_lose_writes_before_and_after_they_are_carried_out() -> None:
    made = [one for seed in range(1_000) for one in random_mix(generic(), RandomNumbers(seed))]
    lost = [one.is_carried_out for one in made if isinstance(one, LoseReply)]
    assert lost.count(False) > 100
    assert lost.count(True) > 100


def test_pattern_of_late_requests_holds_what_a_broker_sends_until_it_has_restarted() -> None:
    made = [Patterns(generic(), RandomNumbers(seed)).make(6_000) for seed in range(300)]
    late = [
        each
        for each in made
        if isinstance(each[0], HoldLink)
        and each[0].sender.startswith("broker")
        and each[0].receiver == "refold 100"
        and isinstance(each[-1], ExpireSession)
    ]
    assert late
    for each in late:
        [crash] = [one for one in each if isinstance(one, CrashBroker)]
        held = [one for one in each if isinstance(one, HoldLink)]
        assert {one.receiver for one in held} == {"refold 100", "refold 101"}
        assert {one.sender for one in held} == {f"broker {crash.broker}"}
        assert all(one.at_ms + one.ms > crash.at_ms + 1_000 for one in held)


def test_pattern_of_a_late_write_deposes_the_controller_while_its_writes_are_held() -> None:
    found = 0
    for seed in range(1_000):
        match Patterns(generic(), RandomNumbers(seed)).make(6_000):
            case [
                Reassign() as asked,
                HoldLink(accepts=True) as late,
                HoldLink(receiver="zookeeper") as held,
                DeleteControllerZnode() as lost,
            ]:
                is_early = asked.at_ms <= held.at_ms <= late.at_ms + late.ms < lost.at_ms
                found += is_early and lost.at_ms < held.at_ms + held.ms
    assert found > 3


def test_pattern_of_two_writers_uses_both_znodes_at_almost_the_same_time() -> None:
    found = []
    for seed in range(3_000):
        made = Patterns(generic(), RandomNumbers(seed)).make(6_000)
        moves = [one for one in made if isinstance(one, Reassign)]
        if [one.route for one in moves] == ["extra", "znode"]:
            found.append(moves[1].at_ms - moves[0].at_ms)
    assert any(0 < one < 20 for one in found)


def _names(one: Reassign) -> list[tuple[str, int]]:
    return [(target.topic, target.partition) for target in one.targets]


def test_pattern_of_a_replaced_entry_writes_the_partitions_again_after_the_cancellation() -> None:
    found = 0
    for seed in range(300):
        made = Patterns(generic(), RandomNumbers(seed)).make(6_000)
        match [one for one in made if isinstance(one, Reassign | CancelReassignment)]:
            case [Reassign() as first, CancelReassignment() as cancel, Reassign() as again]:
                is_same = first.route == again.route == "znode" and _names(first) == _names(again)
                found += is_same and first.at_ms < cancel.at_ms < again.at_ms < 8_000
    assert found > 3


def test_pattern_of_a_shutdown_of_a_follower_holds_its_leaders_proposal() -> None:
    found = 0
    for seed in range(300):
        made = Patterns(generic(), RandomNumbers(seed)).make(6_000)
        holds = [one for one in made if isinstance(one, HoldLink) and one.receiver != "zookeeper"]
        match [one for one in made if isinstance(one, Reassign | StopBroker)]:
            case [Reassign() | StopBroker(), StopBroker() as stop] if stop.closes_after_ms:
                found += any(
                    one.sender.startswith("broker") and stop.at_ms < one.at_ms + one.ms
                    for one in holds
                )
    assert found > 3


def test_pattern_of_repeated_acts_is_frequent_where_watches_fire_once() -> None:
    def count(zookeeper: str) -> int:
        makers = [
            Patterns(generic(zookeeper=zookeeper), RandomNumbers(seed)) for seed in range(300)
        ]
        made = [each.make(6_000) for each in makers]
        return sum(
            len(each) > 1
            and all(isinstance(one, ElectLeaders) and one.route == "znode" for one in each)
            for each in made
        )

    assert count(OLD_ZOOKEEPER) > 2 * count("3.9") > 0


def test_pattern_of_a_rollback_deposes_the_controller_soon_after_the_cancellation() -> None:
    found = []
    for seed in range(300):
        made = Patterns(generic(), RandomNumbers(seed)).make(6_000)
        cancelled = [one.at_ms for one in made if isinstance(one, CancelReassignment)]
        deposed = [one.at_ms for one in made if isinstance(one, DeleteControllerZnode)]
        found += [after - before for before in cancelled for after in deposed]
    assert len([one for one in found if 0 < one < 60]) > 3


@pytest.mark.parametrize("successor", ["stock 1", NONE])
def test_refold_often_gets_the_role_back_at_the_end(successor: str) -> None:
    scenario, crash = generic(), CrashController(0, "refold 100", 3, successor=successor)
    ends = [with_refold_at_end(scenario, [crash], RandomNumbers(seed)) for seed in range(100)]
    changed = [one for one in ends if one != [crash]]
    assert 60 < len(changed) < 100
    assert all(any(isinstance(each, StartController) for each in one) for one in changed)
    stops = [each.broker for one in changed for each in one if isinstance(each, StopBroker)]
    assert set(stops) == ({1} if successor == "stock 1" else set())


def test_end_is_unchanged_if_no_refold_loses_the_role_permanently() -> None:
    crash = CrashController(0, "refold 100", 3, successor="refold 101")
    assert all(
        with_refold_at_end(generic(), [crash], RandomNumbers(seed)) == [crash] for seed in range(20)
    )


def test_variation_keeps_all_inputs_in_order() -> None:
    inputs = [CrashBroker(1_000, 1), CrashBroker(1_500, 2), CrashBroker(9_000, 3)]
    orders = set()
    for seed in range(40):
        made = vary_times(inputs, RandomNumbers(seed))
        assert [one.at_ms for one in made] == sorted(one.at_ms for one in made)
        orders.add(tuple(one.broker for one in made if isinstance(one, CrashBroker)))
    assert (1, 2, 3) in orders
    assert (2, 1, 3) in orders


def test_varied_inputs_of_a_scenario_stay_in_its_active_part() -> None:
    scenario, latest_ms = structs.replace(generic(), active_ms=6_000), 0

    def keep(attempts: Attempts, numbers: RandomNumbers) -> None:
        nonlocal latest_ms
        for _ in range(40):
            latest_ms = max(latest_ms, *(one.at_ms for one in attempts.inputs(numbers)))

    start = ExplorationStart(scenario, (CrashBroker(1_000, 1), CrashBroker(5_990, 2)), ("kept",))
    with patch.dict(STRATEGIES, kept=keep):
        do_job(start, 1, 0, lambda coverage: True)
    assert latest_ms == 5_999


def test_unfinished_reassignment_is_changed_while_a_new_replica_does_not_catch_up() -> None:
    changed = 0
    for seed in range(100):
        made = ActMaker(generic(), RandomNumbers(seed)).unfinished(6_000)
        late, first = made[0], made[1]
        assert isinstance(first, Reassign)
        assert late.at_ms <= first.at_ms
        if isinstance(late, CrashBroker):
            broker, ms = late.broker, late.restart_after_ms
        else:
            assert isinstance(late, HoldLink)
            broker, ms = int(late.sender.removeprefix("broker ")), late.ms
        assert broker in first.targets[0].replicas
        assert not any(isinstance(one, ExpireSession) and one.at_ms <= 6_000 for one in made)
        changed += any(
            isinstance(one, Reassign | CancelReassignment)
            and first.at_ms < one.at_ms < late.at_ms + (ms or 0)
            for one in made
        )
    assert changed > 40


def test_pattern_of_sessions_often_loses_the_reply_in_a_session_that_ends_soon() -> None:
    found = 0
    for seed in range(1_000):
        made = Patterns(generic(), RandomNumbers(seed)).make(6_000)
        ends = [one for one in made if isinstance(one, ExpireSession)]
        lost = [one for one in made if isinstance(one, LoseReply) and one.is_carried_out]
        late = [one for one in made if isinstance(one, DelayEphemeralDeletion)]
        found += len(ends) == 2 and bool(lost) and bool(late) and late[0].at_ms > ends[0].at_ms
    assert found > 15


def test_systematic_search_reverses_races_of_its_base_run() -> None:
    trace = TracedRun(
        [
            Delivery(1, 5_000_000, "broker 1>refold 100", 7, 0, "one"),
            Delivery(2, 5_001_500, "zookeeper>refold 100", 9, 0, "two"),
        ],
        {},
        {},
    )
    attempts = RecordedAttempts(1, trace)
    attempts.inputs = lambda numbers: [CrashBroker(5_000, 1)]  # type: ignore[method-assign]
    systematic.systematic(attempts, RandomNumbers(1))
    # The reversal has the same trace in this test, so it is not taken further.
    assert attempts.made == [
        [CrashBroker(5_000, 1)],
        [CrashBroker(5_000, 1), Delay(0, "broker 1>refold 100", 7, 2)],
    ]


def test_job_ends_when_the_budget_is_spent() -> None:
    runs: list[Coverage] = []

    def on_run(coverage: Coverage) -> bool:
        runs.append(coverage)
        return False

    with pytest.raises(BudgetSpent):
        do_job(ExplorationStart(strategies=("random",)), 1, 0, on_run)
    assert len(runs) == 1
