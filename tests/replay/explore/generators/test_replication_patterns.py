"""Patterns of replication, and of requests that several processes serve at once."""

from controller.core.protocol_versions import LATEST
from replay.explore.generators.patterns import Patterns
from replay.explore.generators.scenarios import BEFORE_2_7, LAG_TIME, generic, random_scenario
from replay.explore.numbers import RandomNumbers
from replay.world.inputs import (
    AllocateProducerIds,
    CancelReassignment,
    CrashBroker,
    EndCancellation,
    FailLogDirectory,
    HoldLink,
    KillController,
    Reassign,
    StopBroker,
)
from replay.world.processes import ZOOKEEPER


def test_late_shrink_delays_the_leaders_request_beyond_its_end() -> None:
    found = 0
    for seed in range(1_000):
        match Patterns(generic(), RandomNumbers(seed)).make(13_000):
            case [HoldLink(receiver=leader) as lags, HoldLink(receiver=controller) as held, *_]:
                is_late = controller.startswith("refold") and held.sender == leader
                found += is_late and lags.ms > 10_000 and held.at_ms > lags.at_ms + 9_000
    assert found > 3


def test_change_during_an_election_delays_answers_of_zookeeper() -> None:
    def count(protocol: str) -> int:
        found = 0
        for seed in range(1_000):
            match Patterns(generic(protocol=protocol), RandomNumbers(seed)).make(6_000):
                case [StopBroker() as returns, StopBroker() | Reassign() as elects, *held]:
                    answers = [one for one in held if isinstance(one, HoldLink)]
                    is_late = all(one.sender == ZOOKEEPER for one in answers)
                    found += bool(answers) and is_late and elects.at_ms > returns.at_ms + 1_500
        return found

    assert count(BEFORE_2_7) > 2 * count(LATEST) > 2


def test_several_logs_of_one_broker_fail_one_after_the_other() -> None:
    found = 0
    for seed in range(600):
        made = Patterns(generic(), RandomNumbers(seed)).make(6_000)
        failed = [one for one in made if isinstance(one, FailLogDirectory)]
        apart_ms = failed[-1].at_ms - failed[0].at_ms if failed else 0
        found += len({one.broker for one in failed}) == 1 and apart_ms > 400
    assert found > 3


def test_kept_cancellation_ends_after_the_controller_has_lost_the_role() -> None:
    found = 0
    for seed in range(600):
        match Patterns(generic(), RandomNumbers(seed)).make(6_000):
            case [
                Reassign() as asked,
                lost,
                CancelReassignment() as cancel,
                EndCancellation() as end,
            ]:
                found += asked.at_ms <= lost.at_ms < cancel.at_ms < end.at_ms
    assert found > 3


def test_broker_writes_a_block_of_producer_ids_while_an_answer_is_late() -> None:
    found = 0
    for seed in range(1_000):
        made = Patterns(generic(), RandomNumbers(seed)).make(6_000)
        asked = [one for one in made if isinstance(one, AllocateProducerIds)]
        held = [one for one in made if isinstance(one, HoldLink) and one.sender == ZOOKEEPER]
        if [one.route for one in asked] == ["api", "znode"] and held:
            found += asked[1].at_ms <= held[0].at_ms + held[0].ms
    assert found > 3


def test_lag_time_is_often_below_the_session_timeout() -> None:
    drawn = [random_scenario(RandomNumbers(seed)).broker_settings[LAG_TIME] for seed in range(100)]
    assert min(map(drawn.count, ("4000", "10000"))) > 20


def test_leader_restarts_while_all_controllers_are_killed() -> None:
    found = 0
    for seed in range(600):
        match Patterns(generic(), RandomNumbers(seed)).make(6_000):
            case [KillController() as killed, KillController(), CrashBroker() as crash, _]:
                restarted_ms = crash.at_ms + (crash.restart_after_ms or 0)
                found += crash.loses_unflushed and restarted_ms < killed.at_ms + 3_000
    assert found > 3
