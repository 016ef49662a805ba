"""Take-overs of the controller role from both sides, in logs of the daemon and imported logs."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from controller.core import znodes
from controller.core.values import ANY_VERSION
from replay.errors import ReplayError
from replay.logs.open_log import open_log
from replay.times import nanoseconds_of
from replay.why.explain import explain_terms
from replay.why.explanations.explanation import Explanation
from replay.why.runs import all_parts_of, logs_of, open_runs
from replay.why.subject import Subject
from replay.world.requests import Create, Delete
from tests.controller.core.cluster import Cluster
from tests.replay.recorded_log import write_log
from tests.replay.why.asked import asked, plain

LogOf = Callable[[str], Path]
IncidentOf = Callable[[str], Path]


def without_command(text: str) -> str:
    """A text with N in place of events and commands."""
    return re.sub(r"command \d+\.\d+", "command N", plain(text))


def ask(folder: Path, term: int | None, at: str | None = None) -> Explanation:
    """The answer from all logs in a folder."""
    wall_ns = nanoseconds_of(at) if at is not None else None
    with open_runs(logs_of([str(folder)])) as several:
        return explain_terms(*all_parts_of(several, wall_ns), Subject(term=term))


# A daemon ----------------------------------------------------------------------------------------


def test_take_over_from_a_stock_controller_names_it_and_the_write(incident: IncidentOf) -> None:
    log = incident("failover")
    write = (
        "command N, which deleted /controller of broker 3, created it again and set "
        "/controller_epoch to 4"
    )
    replaced = f" Broker 1000 replaced broker 3 (term 3) with {write}."
    assert replaced in without_command(asked(log, term=4).answer)
    assert without_command(asked(log, term=3).answer) == (
        "Term 3 was that of broker 3, which does not write these logs. Broker 1000 took over with "
        f"term 4 at event N, by {write}."
    )
    with pytest.raises(ReplayError, match=r"no term 2 .*; this log has 3,4"):
        asked(log, term=2)


def test_ended_term_has_the_controllers_before_and_after(incident: IncidentOf) -> None:
    log = incident("session-expiry")
    answer = without_command(asked(log, term=2).answer)
    assert " Broker 1000 replaced broker 2 (term 1) with command N, which deleted" in answer
    assert " Broker 1000 took over with term 4 at event N, after term 3 of broker 2, by" in answer


def test_daemon_that_lost_the_role_names_the_controller_that_it_found(tmp_path: Path) -> None:
    cluster = Cluster(1, 2).start()
    cluster.seize_role(2)
    cluster.run()
    answer = asked(write_log(tmp_path / "log", cluster), term=1)
    assert "another controller was found" in answer.answer
    assert answer.answer.endswith(" Broker 2 had taken over; this log does not have its term.")


def test_daemon_that_lost_the_role_in_a_migration_names_the_kraft_controller(
    tmp_path: Path,
) -> None:
    cluster = Cluster(1, 2).start()
    kraft = b'{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":5}'
    cluster.ask(Delete(znodes.CONTROLLER, ANY_VERSION))
    cluster.ask(Create(znodes.CONTROLLER, kraft))
    cluster.run()
    answer = asked(write_log(tmp_path / "log", cluster), term=1).answer
    assert answer.endswith(
        " KRaft controller 3000 had taken over; this log does not have its term."
    )


def test_term_that_a_crash_of_the_daemon_ended_is_not_said_to_last(tmp_path: Path) -> None:
    """Logs of simulated runs are closed at a crash."""
    log = write_log(tmp_path / "log", Cluster(1, 2).start())
    with open_log(log) as opened:
        last = opened.reader.last_seq
    answer = asked(log, term=1).answer
    assert answer.startswith("Broker 1000 became controller of term 1 at event ")
    assert f" The log ends at event {last} (" in answer
    assert answer.endswith("), during this term, and does not show how the term ended.")
    before = asked(log, last - 1, term=1).answer
    assert before.startswith("Broker 1000 has been controller of term 1 since event ")


# Stock controllers --------------------------------------------------------------------------------


def test_term_of_an_imported_log_has_both_neighbours(log_of: LogOf) -> None:
    assert plain(asked(log_of("zk-session-expiry-1"), term=3).answer) == (
        "Term 3 of broker 1 ended at event N: its ZooKeeper session expired. It had begun at event "
        "N. Broker 1 replaced broker 4 (term 2) with the write that created /controller and set "
        "/controller_epoch to 3. Broker 4 took over with term 4 at event N, by the write that "
        "created /controller and set /controller_epoch to 4."
    )


@pytest.fixture
def folder(tmp_path: Path, log_of: LogOf) -> Path:
    """The terms 1 to 4 of stock controllers, imported; and term 5 of a daemon."""
    imported = log_of("zk-session-expiry-1")
    (tmp_path / "imported").symlink_to(imported)
    cluster = Cluster(1, 2)
    cluster.now_ms = nanoseconds_of("2026-11-21T01:00:00") // 1_000_000
    cluster.ask(Create(znodes.CONTROLLER_EPOCH, b"4"))
    with open_log(imported) as opened:
        cluster_id = opened.reader.header.cluster_id
    write_log(tmp_path / "run-1", cluster.start(), cluster_id=cluster_id)
    return tmp_path


def test_terms_of_runs_and_of_stock_controllers_are_explained_together(folder: Path) -> None:
    write = "the write that created /controller and set /controller_epoch to 4"
    assert plain(ask(folder, 4).answer).startswith(
        "Broker 4 became controller of term 4 at event N of imported; term 3 of broker 1 had ended "
    )
    assert f" Broker 4 replaced broker 1 (term 3) with {write}." in plain(ask(folder, 4).answer)
    assert without_command(ask(folder, 4).answer).endswith(
        " Broker 1000 took over with term 5 at event N of run-1, by command N, which created "
        "/controller and set /controller_epoch to 5."
    )
    replaced = " Broker 1000 replaced broker 4 (term 4) with command N"
    assert replaced in without_command(ask(folder, 5).answer)
    assert plain(ask(folder, None).answer).startswith(
        "Broker 1000 has been controller of term 5 since event N of run-1"
    )
    with pytest.raises(ReplayError, match=r"no term 6 .*; this log has 1,2,3,4,5"):
        ask(folder, 6)


def test_terms_are_explained_up_to_a_time(folder: Path) -> None:
    answer = ask(folder, None, "2026-11-21T00:25:25")
    role = "Broker 4 has been controller of term 4 since event N of imp"
    assert plain(answer.answer).startswith(role)
