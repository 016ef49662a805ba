"""Two logs in one report: how they are aligned, and what only one of them shows."""

from pathlib import Path

import pytest
from msgspec import structs
from typer.testing import CliRunner

from replay.cli.main import app
from replay.logs.open_log import open_log
from replay.report.against import compare
from replay.report.building import report_of
from replay.report.document import Comparison, Difference, Moment, Report
from replay.report.markdown import markdown_of

INCIDENT = "tests/incidents/unclean-election"
_S = 1_000_000_000


def _report(path: str) -> Report:
    with open_log(path) as log:
        return report_of(log, path)


@pytest.fixture(scope="module")
def report() -> Report:
    return _report(INCIDENT)


def _compared(first: Report, second: Report) -> Comparison:
    compare(first, second)
    assert second.comparison is not None
    return second.comparison


def _with(report: Report, moments: list[Moment], begin_ns: int = 0) -> Report:
    end_ns = begin_ns + 60 * _S
    return structs.replace(
        report, moments=moments, begin_ns=begin_ns, end_ns=end_ns, outages=[], lanes=[]
    )


def test_same_log_has_no_difference(report: Report) -> None:
    found = _compared(report, _report(INCIDENT))
    assert found.differences == []
    assert "none is in only one of them" in found.sentence
    assert all(one == other for one, other in found.pairs)


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
    assert first_s > second_s > 0
    gone = {
        log: next(one for one in each.moments if (one.subject, one.text) == ("broker 1", "gone"))
        for log, each in enumerate((report, second))
    }
    assert (gone[0].seq, gone[1].seq) in found.pairs
    distance_ns = (gone[0].wall_ns - report.origin_ns) - (gone[1].wall_ns - second.origin_ns)
    assert abs(distance_ns) < _S


def test_log_that_begins_later_lacks_only_what_it_could_have_shown(report: Report) -> None:
    early = [Moment(1, _S, "t-0", "leader 1"), Moment(2, 10 * _S, "broker 2", "gone")]
    late = [Moment(3, 20 * _S, "t-0", "leader 3"), Moment(4, 70 * _S, "t-0", "leader 2")]
    first = _with(report, [*early, late[0]])
    same = [structs.replace(one, wall_ns=one.wall_ns + 995 * _S) for one in (early[1], *late)]
    second = _with(report, same, begin_ns=1000 * _S)
    found = _compared(first, second)
    assert second.shift_ns == 5 * _S
    assert found.differences == []
    assert found.pairs == [(2, 2), (3, 3)]


def test_moment_of_one_log_is_a_difference_at_its_time(report: Report) -> None:
    gone = Moment(1, _S, "broker 2", "gone")
    first = _with(report, [gone])
    second = _with(report, [gone, Moment(7, 3 * _S, "t-0", "leader 3")])
    found = _compared(first, second)
    time = "1970-01-01T00:00:03.000000Z"
    assert found.differences == [Difference(1, 7, 3 * _S, time, "t-0", "leader 3")]
    assert "event 7 of B, at +3.000 s: t-0: leader 3, only in B" in found.sentence
    assert "| B | 7 | 3.000 s | t-0: leader 3 |" in markdown_of([first, second])


def test_logs_without_common_moments_begin_together(report: Report) -> None:
    first = _with(report, [Moment(1, _S, "t-0", "leader 1")])
    second = _with(report, [Moment(1, _S, "u-0", "leader 1")], begin_ns=_S)
    assert "aligned at their first events" in _compared(first, second).sentence
    assert second.shift_ns == 0
