"""The scenario and the inputs that continue an incident."""

from pathlib import Path

import pytest

from controller.core import znodes
from replay.what_if.causes import (
    BrokerRegistered,
    BrokerUnregistered,
    ControllerGone,
    ExternalCause,
)
from replay.what_if.changes import WhatIfChanges, apply_changes
from replay.what_if.starting import (
    REGISTERS_AFTER_MS,
    START_MS,
    Continuation,
    continuation_after,
    inputs_of,
)
from replay.world.inputs import (
    CrashBroker,
    DeleteControllerZnode,
    ExpireSession,
    FailLogDirectory,
    KillController,
    StopBroker,
)
from tests.replay.what_if.simulated import incident_at

INCIDENTS = Path(__file__).parents[2] / "incidents"


def continuation(name: str, seq: int, changes: WhatIfChanges | None = None) -> Continuation:
    incident = incident_at(INCIDENTS / name)
    changed = apply_changes(incident, changes or WhatIfChanges())
    return continuation_after(incident, seq, changed.causes, changed.settings, incident.end_ms)


def test_scenario_has_the_states_of_the_moment() -> None:
    found = continuation("broker-crash", 81).scenario
    state = found.znodes[znodes.state_path("orders", 1)]
    assert znodes.read_state("", state.encode(), 0).leader == 3
    assert found.active_ms > START_MS
    assert [one.id for one in found.brokers] == [1, 2, 3]


def test_broker_that_is_down_does_not_run_and_starts_at_its_time() -> None:
    down = continuation("broker-crash", 81)
    assert down.down == (2,)
    (crash,) = inputs_of(down, down.causes)
    assert isinstance(crash, CrashBroker)
    assert (crash.broker, crash.at_ms) == (2, 0)
    (back,) = down.causes
    registers_ms = back.at_ms + down.shift_ms
    assert crash.restart_after_ms == registers_ms - 1_000


def test_failed_broker_crashes_and_its_session_ends_when_it_ended() -> None:
    alive = continuation("broker-crash", 66)
    crash, expire = (one for one in inputs_of(alive, alive.causes))
    assert isinstance(crash, CrashBroker)
    assert isinstance(expire, ExpireSession)
    gone = next(one for one in alive.causes if isinstance(one.what, BrokerUnregistered))
    assert expire.at_ms == gone.at_ms + alive.shift_ms
    assert crash.at_ms < expire.at_ms


def test_end_of_a_broker_that_is_down_and_start_of_one_that_runs_do_nothing() -> None:
    alive = continuation("broker-crash", 66)
    end, start = (
        ExternalCause(900, 90_000, BrokerUnregistered(2, 900, 90_000)),
        ExternalCause(800, 80_000, BrokerRegistered(1)),
    )
    assert inputs_of(alive, [start]) == ()
    assert len(inputs_of(alive, [end, end])) == 2


def test_shutdown_in_progress_goes_on() -> None:
    incident = incident_at(INCIDENTS / "controlled-shutdown")
    (gone,) = [one for one in incident.causes if isinstance(one.what, BrokerUnregistered)]
    found = continuation("controlled-shutdown", gone.seq)
    assert [one.broker for one in found.stopping] == [1]
    (stop,) = [one for one in inputs_of(found, ()) if isinstance(one, StopBroker)]
    assert stop.at_ms + stop.lasts_ms == gone.what.gone_ms + found.shift_ms


def test_controlled_shutdown_takes_as_long_as_in_the_log() -> None:
    begun = continuation("controlled-shutdown", incident_at(INCIDENTS / "broker-crash").first_seq)
    gone = ExternalCause(70, 5_000, BrokerUnregistered(1, 72, 7_000, is_controlled=True))
    back = ExternalCause(90, 20_000, BrokerRegistered(1))
    (stop,) = inputs_of(begun, [gone, back])
    assert stop == StopBroker(5_000 + begun.shift_ms, 1, restart_after_ms=12_000, lasts_ms=2_000)


def test_stock_controller_is_absent_for_as_long_as_in_the_log() -> None:
    begun = continuation("broker-crash", incident_at(INCIDENTS / "broker-crash").first_seq)
    gone = ExternalCause(70, 5_000, ControllerGone("refold 1", absent_ms=3_000))
    kill, _ = inputs_of(begun, [gone])
    assert isinstance(kill, KillController)
    assert kill.restart_after_ms == 3_000


def test_stock_controller_whose_session_expired_has_failed_before() -> None:
    begun = continuation("broker-crash", incident_at(INCIDENTS / "broker-crash").first_seq)
    gone = ExternalCause(70, 9_000, ControllerGone("refold 1", absent_ms=500, failed_ms=6_000))
    kill, expire = inputs_of(begun, [gone])
    assert isinstance(kill, KillController)
    assert isinstance(expire, ExpireSession)
    assert kill.at_ms == expire.at_ms - 6_000
    assert kill.restart_after_ms == 6_500


def test_stock_controller_whose_znode_was_deleted_is_absent_as_in_the_log() -> None:
    begun = continuation("broker-crash", incident_at(INCIDENTS / "broker-crash").first_seq)
    gone = ExternalCause(70, 9_000, ControllerGone("refold 1", absent_ms=500, is_deletion=True))
    kill, delete = inputs_of(begun, [gone])
    assert isinstance(kill, KillController)
    assert kill.restart_after_ms == 500
    assert delete == DeleteControllerZnode(kill.at_ms)


@pytest.mark.parametrize("earlier", [1, 0])
def test_broker_starts_as_long_after_the_end_of_its_shutdown_as_in_the_log(earlier: int) -> None:
    incident = incident_at(INCIDENTS / "controlled-shutdown")
    (gone,) = [one for one in incident.causes if isinstance(one.what, BrokerUnregistered)]
    (back,) = [one for one in incident.causes if isinstance(one.what, BrokerRegistered)][-1:]
    assert isinstance(gone.what, BrokerUnregistered)
    found = continuation("controlled-shutdown", gone.seq - earlier)
    (stop,) = [one for one in inputs_of(found, found.causes) if isinstance(one, StopBroker)]
    down_ms = back.at_ms - gone.what.gone_ms
    assert stop.restart_after_ms == down_ms - REGISTERS_AFTER_MS


def test_failed_log_directory_has_failed_at_the_start() -> None:
    incident = incident_at(INCIDENTS / "log-dir")
    (failed,) = [one for one in incident.causes if isinstance(one.what, FailLogDirectory)]
    found = continuation("log-dir", failed.seq)
    assert [one.broker for one in found.failed] == [getattr(failed.what, "broker", None)]


def test_configuration_of_a_topic_is_merged() -> None:
    changes = WhatIfChanges(set=("orders:min.insync.replicas=2",))
    found = continuation("unclean-election", 60, changes).scenario
    config = found.znodes[znodes.topic_config_path("orders")].encode()
    assert znodes.read_config("", config)["min.insync.replicas"] == "2"
