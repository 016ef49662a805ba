"""Saved runs are run again; their logs are those of other commands."""

from pathlib import Path

import pytest

from replay.errors import ReplayError
from replay.explore.saved import SavedRun, save, saved_run
from replay.logs.open_log import open_log
from replay.what_if.changes import WhatIfChanges
from replay.what_if.continuing import what_if
from replay.what_if.incident import Incident, SavedBy
from replay.what_if.saved_run import incident_of
from replay.what_if.saved_run import save as save_continued
from replay.world.inputs import CrashBroker, SlowDisk
from replay.world.scenario import TopicSpec
from tests.races.catalogue import DEFECTS
from tests.replay.what_if.simulated import scenario

INPUTS = (
    CrashBroker(8_000, 2, False, 9_000),
    SlowDisk(9_000, "broker 3", 40, 5_000),
    CrashBroker(20_000, 1, False, None),
)


def saved(folder: Path, *inputs: object) -> SavedRun:
    begun = scenario(TopicSpec("t", ((1, 2), (2, 1))))
    run = saved_run(begun, inputs, seed=1, strategy="random", before=3)  # type: ignore[arg-type]
    save(run, folder)
    return run


def read(path: Path) -> Incident:
    with open_log(path) as log:
        return incident_of(str(path), log)


def test_saved_run_is_repeated_exactly(tmp_path: Path) -> None:
    run = saved(tmp_path / "run", *INPUTS)
    answer, continued = what_if(read(tmp_path / "run"), WhatIfChanges())
    assert continued.cluster.digest() == run.digest
    assert answer.effect == answer.fidelity.differences == []
    assert read(tmp_path / "run").not_repeated is None


def test_input_is_found_by_the_event_that_shows_it(tmp_path: Path) -> None:
    saved(tmp_path / "run", *INPUTS)
    incident = read(tmp_path / "run" / "run.json")
    (crash,) = [
        one for one in incident.causes if isinstance(one.what, CrashBroker) and one.what.broker == 1
    ]
    assert incident.times[crash.seq] > crash.at_ms + 5_000
    answer = what_if(incident, WhatIfChanges(drop=(crash.seq,)))[0]
    assert answer.control["t", 0].leader == 2
    assert answer.changed["t", 0].isr == (1, 2)


def test_continued_run_is_saved_and_continued_again(tmp_path: Path) -> None:
    saved(tmp_path / "run", *INPUTS)
    incident = read(tmp_path / "run")
    _, continued = what_if(incident, WhatIfChanges(crash=("broker=3@60",)))
    (log,) = save_continued(continued, incident, "run", tmp_path / "continued")
    _, again = what_if(read(log), WhatIfChanges())
    assert again.cluster.digest() == continued.cluster.digest()


def test_run_from_which_an_incident_was_made_is_not_run_again() -> None:
    folder = Path("tests/incidents/entry-seen-before-own-write")
    for path in (folder, folder / "run.json", folder / "log.tar.xz"):
        assert read(path).scenario is None


def test_log_without_a_failover_is_refused_by_its_name() -> None:
    path = Path("tests/incidents/failed-failover")
    with pytest.raises(ReplayError, match=f"^{path}: the log has no failover"):
        read(path)


def test_run_that_this_version_does_not_repeat_has_the_states_of_its_log(tmp_path: Path) -> None:
    scenario, inputs = DEFECTS["R4"].directed()  # type: ignore[misc]
    with DEFECTS["R4"].plant():
        run = saved_run(scenario, inputs, seed=1, strategy="directed", before=len(inputs))
        save(run, tmp_path / "run")
    incident = read(tmp_path / "run" / "refold-100-run-1")
    assert incident.not_repeated == SavedBy(run.version, run.core)
    answer = what_if(incident, WhatIfChanges())[0]
    assert answer.happened["payments", 0].isr == (1,)
    assert answer.control["payments", 0].isr == (1, 2)
    assert "payments-0" in {one.partition for one in answer.fidelity.differences}
