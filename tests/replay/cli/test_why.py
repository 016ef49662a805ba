"""`refold why`, `inspect`, `events` and `decisions` from the command line."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from replay.cli.main import app
from tests.controller.core.cluster import Cluster, writes
from tests.controller.core.procedures.reassignment.interrupting import (
    cancel_all,
    interruptible,
    submit,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    cluster_of,
    reassign,
)
from tests.replay.recorded_log import write_log
from tests.replay.why.runs import kill_before, next_run, stock_term, store

ROOT = Path(__file__).parents[3]
LogOf = Callable[[str], Path]


def refold(*arguments: str | Path | int) -> Result:
    return CliRunner().invoke(app, [str(one) for one in arguments])


def lines(result: Result) -> list[str]:
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout.splitlines()


# why ----------------------------------------------------------------------------------------------


def test_first_line_is_the_answer_followed_by_the_causes(log: Path) -> None:
    first, blank, newest, *more = lines(refold("why", log, "--partition", "t-0"))
    assert first.startswith("t-0 has been offline since event ")
    assert blank == ""
    number = newest.split()[0]
    assert number.isdecimal()
    assert any("because of event" in one for one in more)
    assert any("passed over: 1 is not online, 2 is not in sync" in one for one in more)


def test_unhealthy_lists_root_causes_with_their_partitions(log: Path) -> None:
    first, blank, cause, affected, *_ = lines(refold("why", log, "--unhealthy"))
    assert "not well: " in first
    assert blank == ""
    assert cause.startswith("broker 1 is not registered")
    assert affected.strip().startswith("affects: t-0")


def test_limit_restricts_the_number_of_causes(log: Path) -> None:
    shown = lines(refold("why", log, "--partition", "t-0", "--limit", 1))
    assert shown[-1].endswith("others; --limit 0 shows all")
    everything = lines(refold("why", log, "--partition", "t-0", "--limit", 0))
    assert len(everything) > len(shown)
    assert "--limit" not in everything[-1]


def test_why_prints_json(log: Path) -> None:
    [line] = lines(refold("why", log, "--partition", "t-0", "--json"))
    found = json.loads(line)
    assert set(found) == {
        "question",
        "answer",
        "seq",
        "unhealthy",
        "time",
        "chain",
        "notes",
        "moves",
        "log",
    }
    failed = next(one for one in found["chain"] if one["kind"] == "no_leader")
    assert failed["passed_over"][0] == {"broker": 1, "why": "not online"}


def test_referenced_command_is_in_the_log(log: Path) -> None:
    """A reader can look up what the answer refers to."""
    [line] = lines(refold("why", log, "--partition", "t-0", "--json"))
    written = next(one for one in json.loads(line)["chain"] if one["command"])
    cause, ordinal = written["command"].split(".")
    [shown] = lines(
        refold("log", "show", log, "--from", cause, "--to", cause, "--commands", "--json")
    )
    command = json.loads(shown)["commands"][int(ordinal)]
    assert command["reason"]["rule"] == written["rule"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--partition", "t-9"), "no partition t-9 at event"),
        (("--partition", "x-0"), "no topic x at event"),
        (("--reassignment", "t-7"), "topic t has 0"),
        (("--topic", "x"), "topics: t"),
    ],
)
def test_unknown_subject_is_an_error(log: Path, arguments: tuple[str, str], text: str) -> None:
    result = refold("why", log, *arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert text in result.stderr


def test_topic_that_the_log_does_not_name_is_an_error_that_says_what_to_do(log: Path) -> None:
    result = refold("why", log, "--topic", "x")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "refold why: no topic x at event 59; topics: t. No earlier event of the log names this "
        "topic: correct the name\n"
    )


def test_later_moment_is_recommended_only_before_the_last_event(log: Path) -> None:
    result = refold("why", log, "--partition", "t-9", "--at", 58)
    assert result.stderr.endswith(
        "; topic t has 0. No earlier event of the log names this partition: correct the name, or "
        "give a later moment with --at\n"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("--partition", "t"),
        ("--partition", "-0"),
        ("--topic", "t", "--term", "1"),
        ("--broker", "1", "--topic", "t"),
        ("--unhealthy", "--topic", "t"),
        ("--at", "yesterday"),
        ("--term", "0"),
    ],
)
@pytest.mark.parametrize("is_existing", [True, False])
def test_invalid_arguments_are_rejected(
    log: Path, arguments: tuple[str, ...], is_existing: bool
) -> None:
    result = refold("why", log if is_existing else log / "no", *arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.stderr


def test_missing_log_is_an_error(tmp_path: Path) -> None:
    for command in ("why", "inspect", "events", "decisions"):
        result = refold(command, tmp_path / "no")
        assert result.exit_code == 2
        assert result.stderr.startswith(f"refold {command}: ")


@pytest.mark.sampled
@pytest.mark.parametrize("command", ["why", "inspect", "events", "decisions"])
def test_packed_logs_incidents_and_recordings_are_accepted(command: str, tmp_path: Path) -> None:
    incident = ROOT / "tests" / "incidents" / "topics"
    assert lines(refold(command, incident)) == lines(refold(command, incident / "log.tar.xz"))
    packed = ROOT / "tests" / "recordings" / "topics-1.tar.xz"
    found = lines(refold(command, packed))
    shutil.unpack_archive(packed, tmp_path, filter="data")
    # The first line names the file from which the log was imported.
    assert lines(refold(command, tmp_path / "topics-1"))[1:] == found[1:]


def test_folder_without_zookeepers_files_is_an_error(tmp_path: Path) -> None:
    """Brokers' logs without ZooKeeper's are no recording."""
    (tmp_path / "controller.log").write_text("")
    result = refold("why", tmp_path)
    assert result.exit_code == 2
    assert "contains no segment" in result.stderr
    assert "no files of ZooKeeper's data folder (log.*, snapshot.*)" in result.stderr


def test_unknown_kind_is_an_error(log: Path) -> None:
    result = refold("events", log, "--kind", "nonsense")
    assert result.exit_code == 2
    assert (
        "'nonsense' is not a kind of event; use one of: allocate_producer_ids_received, "
        in result.stderr
    )
    imported = ROOT / "tests" / "recordings" / "topics-1.tar.xz"
    result = refold("events", imported, "--kind", "watch_fired")
    assert result.exit_code == 2
    assert "'watch_fired' is not a kind of event; use one of: controller_logged, " in result.stderr
    for of, known in ((log, "answer_allocate_producer_ids, "), (imported, "assignment, ")):
        result = refold("decisions", of, "--kind", "nonsense")
        assert result.exit_code == 2
        assert f"'nonsense' is not a kind of decision; use one of: {known}" in result.stderr


@pytest.fixture
def folder(log: Path, log_of: LogOf, tmp_path: Path) -> Path:
    """Two logs of a daemon and an imported log."""
    for name, one in (("run-1", log), ("run-2", log), ("stock", log_of("unclean-3"))):
        shutil.copytree(one, tmp_path / "logs" / name)
    return tmp_path / "logs"


def test_kind_that_one_kind_of_log_lacks_is_reported_once_and_listed_from_the_others(
    folder: Path,
) -> None:
    result = refold("events", folder, "--kind", "transaction")
    assert result.exit_code == 0
    assert result.stderr == "refold events: no daemon log has events of kind transaction\n"
    assert result.stdout.startswith("stock\n")
    result = refold("decisions", folder, "--kind", "write_znodes", "--kind", "write_atomically")
    assert result.exit_code == 0
    assert result.stderr == (
        "refold decisions: no imported log has decisions of kind write_znodes, write_atomically\n"
    )
    assert result.stdout.startswith("run-1\n")


def test_kind_that_no_log_of_a_folder_has_is_an_error(folder: Path) -> None:
    result = refold("events", folder, "--kind", "transaction", "--kind", "nonsense")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "'nonsense' is not a kind of event; use one of: " in result.stderr
    assert "transaction" in result.stderr
    assert "watch_fired" in result.stderr


def test_unknown_term_is_an_error(log: Path) -> None:
    result = refold("why", log, "--term", 7)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith("; this log has 1. Other terms are those of other controllers\n")


def test_invalid_archive_is_an_error(tmp_path: Path) -> None:
    archive = tmp_path / "notes.tar.xz"
    archive.write_text("no archive")
    result = refold("why", archive)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"refold why: {archive} cannot be opened: ")
    assert len(result.stderr.splitlines()) == 1


def test_time_before_the_log_is_an_error(log: Path) -> None:
    result = refold("why", log, "--at", "1999-01-01T00:00:00")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "begins later than that" in result.stderr


@pytest.mark.parametrize("command", ["why", "inspect"])
@pytest.mark.parametrize("at", [0, 99_999, 10**30])
def test_unknown_event_number_is_an_error(
    log: Path, cluster: Cluster, command: str, at: int
) -> None:
    result = refold(command, log, "--at", at)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f": the log has events 1 to {len(cluster.history)}\n" in result.stderr


def test_time_selects_the_last_event_before_it(log: Path, cluster: Cluster) -> None:
    [line] = lines(refold("why", log, "--json", "--at", "2100-01-01"))
    assert json.loads(line)["seq"] == len(cluster.history)


# inspect ------------------------------------------------------------------------------------------


def test_inspect_shows_controller_brokers_and_partitions(log: Path) -> None:
    text = "\n".join(lines(refold("inspect", log)))
    assert "controller: broker 1000, epoch 1, active" in text
    assert "brokers" in text
    assert "PLAINTEXT://host2:9092" in text
    assert "│ t-0       │ offline │ none" in text
    assert "reassignments" not in text


def test_inspect_shows_what_a_reassignment_waits_for(tmp_path: Path) -> None:
    cluster = cluster_of(4, 1, 2, 3)
    reassign(cluster, 4, 2)
    text = "\n".join(lines(refold("inspect", write_log(tmp_path / "log", cluster))))
    assert "4: live, but has not caught up" in text


def test_inspect_prints_json(log: Path) -> None:
    [line] = lines(refold("inspect", log, "--json", "--partition", "t-0"))
    found = json.loads(line)
    [topic] = found["topics"]
    [partition] = topic["partitions"]
    assert (partition["status"], partition["leader"], partition["isr"]) == ("offline", -1, [1])


def test_inspect_prints_changes_between_two_events(log: Path, cluster: Cluster) -> None:
    [line] = lines(refold("inspect", log, "--at", 1, "--to", len(cluster.history), "--json"))
    found = json.loads(line)
    assert (found["from"], found["to"]) == (1, len(cluster.history))
    assert {
        "subject": "controller",
        "what": "role",
        "before": "standby",
        "after": "active",
    } in found["changes"]
    text = "\n".join(lines(refold("inspect", log, "--at", 1, "--to", len(cluster.history))))
    assert "partition t-0" in text


def test_inspect_rejects_a_reversed_range(log: Path) -> None:
    result = refold("inspect", log, "--at", 9, "--to", 3)
    assert result.exit_code == 2
    assert "3 is before --at" in result.stderr


def test_inspect_without_the_role_recommends_events_of_a_term(tmp_path: Path) -> None:
    cluster = cluster_of(3, 1, 2, 3)
    cluster.shut_down()
    path = write_log(tmp_path / "log", cluster)
    reason = "The daemon is not the controller, so its log does not show the cluster"
    at_begin, at_end = lines(refold("inspect", path, "--at", 1)), lines(refold("inspect", path))
    assert re.fullmatch(rf"{reason}: choose event \d+ or a later one\.", at_begin[2])
    assert re.fullmatch(rf"{reason}: choose an event before \d+\.", at_end[2])


# events and decisions -----------------------------------------------------------------------------


def test_events_are_described_in_words(log: Path, cluster: Cluster) -> None:
    found = lines(refold("events", log))
    assert len(found) == len(cluster.history)
    assert any("watch of /brokers/ids: the children changed" in one for one in found)
    request = "AlterPartition v3, request 1 of broker 1: t-0 ISR 1 in leader epoch"
    assert any(request in one for one in found)


def test_events_are_filtered_by_partition(log: Path) -> None:
    found = [
        json.loads(one) for one in lines(refold("events", log, "--partition", "t-0", "--json"))
    ]
    assert all("t-0" in one["subjects"] for one in found)
    assert {"znodes_written", "broker_answered", "alter_partition_received"} <= {
        one["kind"] for one in found
    }
    assert len(found) < len(lines(refold("events", log)))


def test_events_are_filtered_by_range_and_kind(log: Path) -> None:
    found = [
        json.loads(one) for one in lines(refold("events", log, "--from", 5, "--to", 9, "--json"))
    ]
    assert [one["seq"] for one in found] == [5, 6, 7, 8, 9]
    kinds = lines(refold("events", log, "--kind", "watch_fired", "--limit", 2))
    assert len(kinds) == 2


def test_decisions_have_their_rules(log: Path) -> None:
    found = [
        json.loads(one)
        for one in lines(refold("decisions", log, "--rule", "first leader", "--json"))
    ]
    [chosen] = next(one["choices"] for one in found if one["choices"])
    assert (chosen["partition"], chosen["chosen"]) == ("t-0", 1)
    text = "\n".join(lines(refold("decisions", log, "--partition", "t-0")))
    assert "rule: create first leader" in text
    assert "t-0: leader 1, first live replica" in text


def test_reads_and_timers_are_not_decisions(log: Path) -> None:
    kinds = {json.loads(one)["kind"] for one in lines(refold("decisions", log, "--json"))}
    assert "write_znodes" in kinds
    assert not kinds & {"read_znodes", "read_children", "start_timer", "open_channel"}
    every = {json.loads(one)["kind"] for one in lines(refold("decisions", log, "--all", "--json"))}
    assert {"read_znodes", "open_channel"} <= every
    reads = lines(refold("decisions", log, "--kind", "read_znodes"))
    assert reads


def test_no_match_is_reported(log: Path) -> None:
    result = refold("decisions", log, "--topic", "t", "--to", 1)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.endswith(": no decisions match\n")


@pytest.mark.parametrize("command", ["events", "decisions"])
@pytest.mark.parametrize(
    ("option", "name", "text"),
    [
        ("--topic", "tt", "the log has no topic tt; did you mean t? Topics: t"),
        ("--topic", "orders", "the log has no topic orders; topics: t"),
        ("--partition", "t-9", "the log has no partition t-9; topic t has 0"),
        ("--partition", "u-0", "the log has no topic u; topics: t"),
        ("--broker", 99, "the log has no broker 99; brokers: 1,2,3"),
    ],
)
def test_name_that_the_log_does_not_have_is_an_error(
    command: str, option: str, name: object, text: str, log: Path
) -> None:
    result = refold(command, log, option, name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert text in result.stderr


def test_broker_that_only_decisions_name_is_known_to_each_command() -> None:
    """Broker 9 never registered. A warning of the controller names it."""
    log = ROOT / "tests/incidents/bounced-broker"
    assert "warning replicas_not_deleted broker 9" in refold("decisions", log, "--broker", 9).stdout
    assert lines(refold("why", log, "--broker", 9))[0].startswith("Broker 9 is not registered")
    for option in (("events", "--broker", 9), ("log", "show", "--subject", "broker 9")):
        found = refold(*option, log)
        assert (found.exit_code, found.stdout) == (0, "")
        assert "match" in found.stderr
    for command in ("events", "decisions", "why"):
        found = refold(command, log, "--broker", 17)
        assert found.exit_code == 2
        assert "; brokers: 1,2,3,9" in found.stderr


def test_reversed_range_is_rejected(log: Path) -> None:
    assert refold("events", log, "--from", 9, "--to", 3).exit_code == 2


def test_commands_accept_an_imported_log(log_of: LogOf) -> None:
    log = log_of("unclean-3")
    assert lines(refold("why", log, "--partition", "later.02-0"))[0].startswith("later.02-0 has")
    assert "controller: broker 2, epoch 2" in "\n".join(lines(refold("inspect", log)))
    elected = lines(refold("decisions", log, "--partition", "later.02-0", "--rule", "offline"))
    assert "          later.02-0: leader 2, unclean leader; passed over: 1 is not online" in elected
    found = [json.loads(one) for one in lines(refold("decisions", log, "--json"))]
    assert {one["verdict"] for one in found} == {"agreed"}
    assert all(one["rule"] for one in found)
    expired = lines(refold("events", log, "--broker", 1, "--kind", "transaction"))
    assert any("expires, which deletes /brokers/ids/1" in one for one in expired)


# Several logs -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs, of which the first is killed during the rollback of t-0."""
    cluster = interruptible(5, 2, 1, 3)
    submit(cluster, {("t", 0): [4, 5, 2]})
    kill_before(cluster, writes("/brokers/topics/t"), lambda: cancel_all(cluster))
    stock_term(cluster, 9)
    folder = tmp_path_factory.mktemp("runs")
    store(folder, cluster, next_run(cluster).start())
    return folder


def test_folder_of_runs_has_one_history(runs: Path) -> None:
    first, blank, head, *more = lines(refold("why", runs, "--reassignment", "t-0", "--limit", 1))
    assert first.startswith(
        "t-0 is not being reassigned: its move from 2,1,3 to 4,5,2 was rolled back at event "
    )
    assert (blank, head, more[0]) == ("", "The move from 2,1,3 to 4,5,2:", "  run-1")
    texts = [line.split(maxsplit=2)[-1] for line in more if line]
    cut_off = texts.index("the log ends here (not closed)")
    assert texts[cut_off + 1] == "run-2"
    assert texts[cut_off + 2] == (
        "another controller had the role: controller epoch 2 lies between"
    )
    newest = next(line for line in more if "run-2: rollback: store the originals: " in line)
    because = more[more.index(newest) + 1]
    assert because.startswith("          because of event ")
    assert " of run-1: /admin/reassign_cancel was created, czxid " in because


def test_logs_can_be_listed_as_arguments(runs: Path) -> None:
    folder = refold("why", runs, "--reassignment", "t-0").stdout
    assert refold("why", runs / "run-2", runs / "run-1", "--reassignment", "t-0").stdout == folder


def test_history_of_runs_is_printed_as_json(runs: Path) -> None:
    [line] = lines(refold("why", runs, "--reassignment", "t-0", "--json"))
    [move] = json.loads(line)["moves"]
    assert (move["origin"], move["target"]) == ([2, 1, 3], [4, 5, 2])
    assert move["outcome"] == "rolled back"
    assert move["cancelled"]["by"] == "/admin/reassign_cancel"
    assert move["cancelled"]["at"]["log"] == "run-1"
    assert move["ended"]["log"] == "run-2"
    kinds = [one["kind"] for one in move["story"]]
    for kind in ("log_ended", "other_controllers", "role_taken", "cancellation_found"):
        assert kinds.count(kind) == 1
    steps = [one["step"] for one in move["story"] if one["at"]["log"] == "run-2" and one["step"]]
    assert sorted(steps) == [1, 2, 3, 4, 5, 6, 7]
    [between] = [one for one in move["story"] if one["epochs"]]
    assert between["epochs"] == [2]


def test_event_number_is_rejected_for_several_logs(runs: Path) -> None:
    result = refold("why", runs, "--at", 5)
    assert result.exit_code == 2
    assert "each log numbers its events from 1" in result.stderr


def test_folder_of_one_run_equals_that_log(log: Path) -> None:
    assert refold("why", log.parent).stdout == refold("why", log).stdout
