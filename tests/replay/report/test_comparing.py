"""Two logs in one report: how they are aligned, and what only one of them shows."""

import json
from pathlib import Path

import msgspec
import pytest
from msgspec import structs
from typer.testing import CliRunner

from replay.cli.main import app
from replay.logs.open_log import open_log
from replay.report.building import report_of
from replay.report.comparing import compare
from replay.report.document import (
    ClusterChange,
    EventOfLog,
    Lane,
    LogComparison,
    OfflineTime,
    Outage,
    Report,
    Span,
    UnmatchedChange,
)
from replay.report.markdown import markdown_of

INCIDENT = "tests/incidents/unclean-election"
_S = 1_000_000_000


def _report(path: str) -> Report:
    with open_log(path) as log:
        return report_of(log, path)


@pytest.fixture(scope="module")
def report() -> Report:
    return _report(INCIDENT)


def _compared(first: Report, second: Report) -> LogComparison:
    compare([first], [second])
    assert second.comparison is not None
    return second.comparison


def _with(report: Report, changes: list[ClusterChange], begin_ns: int = 0) -> Report:
    end_ns = begin_ns + 60 * _S
    return structs.replace(
        report, changes=changes, begin_ns=begin_ns, end_ns=end_ns, outages=[], lanes=[]
    )


def test_same_log_has_no_difference(report: Report) -> None:
    found = _compared(report, _report(INCIDENT))
    assert found.differences == []
    assert "none is in only one of them" in found.sentence
    assert all(one.seq == other.seq for one, other in found.pairs)


def test_run_of_what_if_is_aligned_with_its_incident(report: Report, tmp_path: Path) -> None:
    change = ["--set", "unclean.leader.election.enable=true"]
    options = [INCIDENT, *change, "--out", str(tmp_path / "run")]
    assert CliRunner().invoke(app, ["what-if", *options]).exit_code == 1
    second = _report(str(tmp_path / "run"))
    found = _compared(report, second)
    assert [one.subject for one in found.differences] == ["orders-3"]
    assert found.differences[0].text == "an election found no leader"
    first_s, second_s = next(
        (one.first_s, one.second_s) for one in found.offline if one.partition == "orders-3"
    )
    assert first_s is not None
    assert second_s is not None
    assert first_s > second_s > 0
    gone = {
        log: next(one for one in each.changes if (one.subject, one.text) == ("broker 1", "gone"))
        for log, each in enumerate((report, second))
    }
    assert (EventOfLog(0, gone[0].seq), EventOfLog(1, gone[1].seq)) in found.pairs
    distance_ns = (gone[0].wall_ns - report.origin_ns) - (gone[1].wall_ns - second.origin_ns)
    assert abs(distance_ns) < _S


@pytest.fixture(scope="module")
def without_event_90(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _continued(tmp_path_factory, INCIDENT, "--drop", "90")


def _continued(factory: pytest.TempPathFactory, log: str, *change: str) -> Path:
    folder = factory.mktemp("what-if") / "run"
    result = CliRunner().invoke(app, ["what-if", log, *change, "--out", str(folder)])
    assert result.exit_code == 1, result.output
    return folder


def _printed(log: str | Path, other: str | Path, *options: str) -> LogComparison:
    result = CliRunner().invoke(
        app, ["report", str(log), "--against", str(other), "--json", *options]
    )
    assert result.exit_code == 0, result.output
    return msgspec.convert(json.loads(result.stdout)["comparison"], LogComparison)


def test_dropped_event_is_the_first_difference_of_the_run_without_it(
    report: Report, without_event_90: Path
) -> None:
    found = _printed(INCIDENT, without_event_90)
    assert found.sentence.startswith("B continues A after event 89; only later changes")
    first = found.differences[0]
    assert (first.log, first.seq, first.subject, first.text) == (0, 93, "broker 1", "gone")
    assert found.branch == (1, report.events[88].wall_ns - report.begin_ns)
    outage = next(one for one in report.outages if one.partition == "orders-3")
    assert OfflineTime("orders-3", outage.seconds, 0.0) in found.offline


def test_run_of_what_if_is_aligned_when_its_log_is_redacted_or_the_second(
    without_event_90: Path,
) -> None:
    redacted = _printed(INCIDENT, without_event_90, "--redact")
    assert (redacted.branch or ())[0] == 1
    assert redacted.differences[0].seq == 93
    other = _printed(without_event_90, INCIDENT)
    assert other.sentence.startswith("A continues B after event 89; ")
    assert (other.differences[0].log, other.differences[0].seq) == (1, 93)


def test_changes_after_the_last_event_of_a_run_are_only_in_its_log(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    log = "tests/incidents/broker-crash"
    found = _printed(log, _continued(tmp_path_factory, log, "--drop", "67"))
    changes = [(one.log, one.seq, one.subject) for one in found.differences]
    gone, back = (0, 70, "broker 2"), (0, 86, "broker 2")
    assert changes == [gone, (0, 72, "orders-1"), back, (0, 99, "orders-1")]


@pytest.fixture(scope="module")
def with_two_controllers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _continued(tmp_path_factory, INCIDENT, "--crash", "controller@76")


def test_log_that_ends_before_its_run_is_compared_up_to_its_end(
    report: Report, with_two_controllers: Path
) -> None:
    log = with_two_controllers / "refold-1000-run-1"
    found = _printed(INCIDENT, log)
    assert found.differences == []
    assert "B is one of 2 logs of its run, and shows none of the time after" in found.sentence
    outage = next(one for one in report.outages if one.partition == "orders-3")
    assert found.offline[0] == OfflineTime("orders-3", outage.seconds, None)
    printed = CliRunner().invoke(
        app, ["report", INCIDENT, "--against", str(log), "--format", "markdown", "-o", "-"]
    )
    assert "| orders-3 | 9.780 s | - |" in printed.stdout


def test_log_that_begins_later_in_its_run_is_compared_from_its_beginning(
    report: Report, with_two_controllers: Path
) -> None:
    found = _printed(INCIDENT, with_two_controllers / "refold-1000-run-2")
    assert "B is one of 2 logs of its run, and shows +12.851 s to +28.073 s" in found.sentence
    assert found.differences[0].at_ns > 12 * _S
    outage = next(one for one in report.outages if one.partition == "orders-3")
    first_s, second_s = found.offline[0].first_s, found.offline[0].second_s
    assert first_s is not None
    assert second_s is not None
    assert outage.seconds - 1 < first_s < outage.seconds
    assert abs(first_s - second_s) < 1


def test_run_with_two_controllers_is_compared_with_all_its_logs(
    report: Report, with_two_controllers: Path
) -> None:
    found = _printed(INCIDENT, with_two_controllers)
    assert found.sentence.startswith("B and C continue A after event 76; only later changes")
    assert (found.branch or ())[0] == 1
    elected = [one for one in found.differences if one.subject == "controller"]
    assert [(one.log, one.text) for one in elected] == [(2, "elected")]
    # Broker 1 was lost when no controller ran, so the run cannot show it.
    assert not any(one.text == "gone" for one in found.differences)
    orders = next(one for one in found.offline if one.partition == "orders-3")
    outage = next(one for one in report.outages if one.partition == "orders-3")
    assert orders.first_s == outage.seconds
    assert orders.second_s is not None
    assert 0 < outage.seconds - orders.second_s < 2


def test_run_with_two_controllers_can_be_the_first_of_two(with_two_controllers: Path) -> None:
    options = ["report", str(with_two_controllers), "--against", INCIDENT]
    result = CliRunner().invoke(app, [*options, "--format", "markdown", "-o", "-"])
    assert result.exit_code == 0, result.output
    assert "A and B continue C after event 76; " in result.stdout
    assert "| partition | offline in A, B | offline in C |" in result.stdout


def test_run_has_no_difference_from_itself(with_two_controllers: Path) -> None:
    found = _printed(with_two_controllers, with_two_controllers)
    assert found.differences == []
    assert {one.log for pair in found.pairs for one in pair} == {0, 1, 2, 3}
    assert all(one.first_s == one.second_s for one in found.offline)


def test_outage_lasts_until_the_next_log_of_a_run_shows_the_partition(report: Report) -> None:
    def lane(*spans: Span) -> list[Lane]:
        return [Lane("partition", "t-0", list(spans))]

    whole = structs.replace(
        _with(report, []), outages=[Outage("t-0", 1, 10 * _S, 2, 30 * _S, leader=1)]
    )
    first = structs.replace(
        _with(report, []),
        end_ns=15 * _S,
        outages=[Outage("t-0", 1, 10 * _S, 0, 15 * _S, leader=1)],
        lanes=lane(Span(10 * _S, 15 * _S, "offline", "no leader", 1)),
    )
    later = structs.replace(
        _with(report, [], begin_ns=20 * _S),
        outages=[Outage("t-0", 1, 25 * _S, 2, 28 * _S, leader=1)],
        lanes=lane(
            Span(20 * _S, 22 * _S, "not known", "", 1),
            Span(22 * _S, 25 * _S, "online", "leader 1", 2),
            Span(25 * _S, 28 * _S, "offline", "no leader", 3),
        ),
    )
    compare([whole], [first, later])
    assert later.comparison is not None
    assert later.comparison.offline == [OfflineTime("t-0", 20.0, 15.0)]


def test_offline_times_are_exact_to_the_microsecond(report: Report) -> None:
    tenths = [
        Outage("t-0", 1, begin * _S, 2, begin * _S + _S // 10 + 7, leader=1) for begin in (1, 2, 3)
    ]
    found = _compared(
        structs.replace(_with(report, []), outages=tenths), structs.replace(_with(report, []))
    )
    assert found.offline == [OfflineTime("t-0", 0.3, 0.0)]
    assert tenths[0].seconds == 0.1


def test_changes_that_a_run_sets_up_again_are_no_differences(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    run = _continued(tmp_path_factory, INCIDENT, "--crash", "broker=2@80")
    first = _printed(INCIDENT, run).differences[0]
    assert (first.log, first.subject, first.text) == (1, "broker 2", "gone")


def test_run_of_what_if_is_compared_by_content_with_another_log(without_event_90: Path) -> None:
    found = _printed("tests/incidents/broker-crash", without_event_90)
    assert found.branch is None
    assert "continues" not in found.sentence


def test_log_that_begins_later_lacks_only_what_it_could_have_shown(report: Report) -> None:
    early = [
        ClusterChange(1, _S, "t-0", "leader 1"),
        ClusterChange(2, 10 * _S, "broker 2", "gone", True),
    ]
    late = [
        ClusterChange(3, 20 * _S, "t-0", "leader 3"),
        ClusterChange(4, 70 * _S, "t-0", "leader 2"),
    ]
    first = _with(report, [*early, late[0]])
    same = [structs.replace(one, wall_ns=one.wall_ns + 995 * _S) for one in (early[1], *late)]
    second = _with(report, same, begin_ns=1000 * _S)
    found = _compared(first, second)
    assert second.shift_ns == 5 * _S
    assert found.differences == []
    assert found.pairs == [
        (EventOfLog(log=0, seq=seq), EventOfLog(log=1, seq=seq)) for seq in (2, 3)
    ]


def test_change_in_one_log_is_a_difference_at_its_time(report: Report) -> None:
    gone = ClusterChange(1, _S, "broker 2", "gone", True)
    first = _with(report, [gone])
    second = _with(report, [gone, ClusterChange(7, 3 * _S, "t-0", "leader 3")])
    found = _compared(first, second)
    time = "1970-01-01T00:00:03.000000Z"
    assert found.differences == [UnmatchedChange(1, 7, 3 * _S, time, "t-0", "leader 3")]
    assert "event 7 of B, at +3.000 s: t-0: leader 3, only in B" in found.sentence
    assert "Elapsed times count from the first event of A." in found.sentence
    assert "| B | 7 | +3.000 s | t-0: leader 3 |" in markdown_of([first, second])


def test_differences_at_one_time_are_in_the_order_of_their_names(report: Report) -> None:
    gone = ClusterChange(1, _S, "broker 2", "gone", True)
    names = [f"t-{number}" for number in range(9)]
    later = [ClusterChange(7, 3 * _S, name, "leader 3") for name in reversed(names)]
    found = _compared(_with(report, [gone]), _with(report, [gone, *later]))
    assert [one.subject for one in found.differences] == names


def test_logs_without_common_changes_begin_together(report: Report) -> None:
    first = _with(report, [ClusterChange(1, _S, "t-0", "leader 1")])
    second = _with(report, [ClusterChange(1, _S, "u-0", "leader 1")], begin_ns=_S)
    assert "aligned at their first events" in _compared(first, second).sentence
    assert second.shift_ns == 0
