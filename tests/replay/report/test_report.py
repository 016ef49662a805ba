"""Reports of incidents and recordings, compared with what `refold why` and `inspect` say."""

import json
import re
import shlex
from pathlib import Path

import pytest
from msgspec import structs
from typer.testing import CliRunner

from replay.cli.main import app as refold
from replay.cli.report import app
from replay.cli.what_if import app as what_if
from replay.inspect.at import cluster_at
from replay.logs.open_log import RecordedLog, open_log
from replay.progress import unreported
from replay.report.building import report_of
from replay.report.document import Report
from replay.report.html import page_of
from replay.report.lanes import lanes_of
from replay.report.recorded import read_recorded
from replay.why.explain import explain
from replay.why.subject import Subject
from tests.replay.what_if.simulated import run_with_two_logs

INCIDENTS = Path("tests/incidents")
RECORDING = Path("tests/recordings/unclean-3.tar.xz")
DEMONSTRATION = Path("tests/replay/report/demonstration/log.tar.xz")


def _report(path: Path) -> Report:
    with open_log(path) as log:
        return report_of(log, str(path))


def test_outage_has_the_events_between_which_inspect_shows_no_live_leader() -> None:
    path = INCIDENTS / "unclean-election"
    outage = max(_report(path).outages, key=lambda one: one.seconds)
    assert (outage.partition, outage.seq, outage.end_seq) == ("orders-3", 93, 127)
    with open_log(path) as log:
        states = {}
        for seq in (outage.seq - 1, outage.seq, outage.end_seq - 1, outage.end_seq):
            cluster = cluster_at(log, seq)
            view = cluster.partition("orders", 3)
            assert view is not None
            states[seq] = cluster.broker(view.leader) is not None
    assert list(states.values()) == [True, False, False, True]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_with_two_logs(tmp_path_factory.mktemp("saved") / "run")


@pytest.mark.parametrize("name", ["", "run.json"])
def test_report_of_a_run_has_all_its_logs_in_their_order(run: Path, name: str) -> None:
    result = CliRunner().invoke(app, [str(run / name), "--json"])
    assert result.exit_code == 0, result.output
    reports = json.loads(result.stdout)["reports"]
    assert [Path(one["path"]).name for one in reports] == ["refold-100-run-1", "refold-100-run-2"]
    assert reports[0]["end"] < reports[1]["begin"]
    assert all(one["failovers"] for one in reports)


def test_redacted_report_of_a_run_has_all_its_logs(run: Path) -> None:
    result = CliRunner().invoke(app, [str(run), "--redact", "--json"])
    assert result.exit_code == 0, result.output
    paths = [one["path"] for one in json.loads(result.stdout)["reports"]]
    assert paths == ["redacted log", "redacted log 2"]


def test_findings_name_unclean_elections_and_what_to_look_at() -> None:
    report = _report(INCIDENTS / "unclean-election")
    unclean = [one for one in report.findings if one.kind == "unclean election"]
    assert [(one.seq, one.subjects) for one in unclean] == [(127, ("orders-3",))]
    assert "--partition orders-3 --at 127" in unclean[0].look_at


def test_deviation_of_refold_names_its_rule_and_the_partitions() -> None:
    report = _report(INCIDENTS / "restart-without-a-controller")
    [found] = [one for one in report.findings if one.kind == "deviation"]
    assert "refold's deviation restarts-seen-at-failover from Kafka's rules" in found.text
    assert "Its rule: A failover removes brokers from the ISR that registered after" in found.text
    assert found.subjects
    assert f"--partition {found.subjects[0]} --at {found.seq}" in found.look_at


@pytest.mark.parametrize("log", [INCIDENTS / "broker-crash", INCIDENTS / "stock-unclean-election"])
def test_report_without_a_deviation_has_no_such_finding(log: Path) -> None:
    """A stock controller has none."""
    assert not [one for one in _report(log).findings if one.kind == "deviation"]


def test_refused_request_names_its_partition_and_what_to_look_at() -> None:
    path = "tests/recordings/broker-crash-2.tar.xz"
    refused = {
        one.subjects: one for one in _report(Path(path)).findings if one.kind == "refused request"
    }
    found = refused["wide-03-0",]
    assert found.text.startswith("leader 3 asked for ISR 3 of wide-03-0: rejected with ")
    assert found.look_at == f"refold why {path} --partition wide-03-0 --at {found.seq}"
    result = CliRunner().invoke(refold, shlex.split(found.look_at)[1:])
    assert "leader 3 asked for ISR 3 of wide-03-0: rejected with " in result.stdout


def test_refused_write_of_a_partition_names_it_and_what_to_look_at() -> None:
    (found,) = (
        one
        for one in _report(INCIDENTS / "epoch-changed").findings
        if one.kind == "refused write" and one.subjects
    )
    assert f"--partition {found.subjects[0]} --at {found.seq}" in found.look_at


def test_outages_that_end_at_several_events_name_the_first_and_the_last_one() -> None:
    report = _report(Path("tests/recordings/broker-crash-2.tar.xz"))
    ends = [one.end_seq for one in report.outages if one.seq == 549 and one.seconds >= 1]
    (text,) = (one.text for one in report.findings if " were offline for up to 7.745 s" in one.text)
    assert (min(ends), max(ends)) == (956, 964)
    assert "until events 956 to 964: " in text


def test_outage_and_point_of_no_return_name_the_same_two_events() -> None:
    log = str(INCIDENTS / "unclean-election")
    search = ("--invariant", "orders-3 offline", "--branches", "10", "--moments", "6")
    options = [log, *search, "--seed", "7", "--workers", "1", "--json"]
    jumps = json.loads(CliRunner().invoke(what_if, options).stdout)["jumps"]
    rise = next(one for one in jumps if one["after"] == 1.0)
    assert rise["seq"] == 90
    assert rise["event"].endswith("broker 1 ended (the controller read this at event 93)")
    outage = next(
        one
        for one in _report(Path(log)).findings
        if one.subjects == ("orders-3",) and one.seq == 93
    )
    assert "broker 1 is gone (event 93); a watch had reported this at event 90" in outage.text


def test_outage_that_lasts_is_a_finding_that_says_since_when() -> None:
    texts = {
        one.text for one in _report(INCIDENTS / "admin-requests").findings if one.kind == "offline"
    }
    since = "offline since event 134 (2026-11-26T00:04:31.366738Z), still at the last event"
    assert any(since in one for one in texts), texts


def test_partitions_that_recover_are_no_part_of_an_outage_that_lasts() -> None:
    report = _report(INCIDENTS / "stock-unclean-election")
    (lasts,) = (one for one in report.findings if "still at the last event" in one.text)
    assert set(lasts.subjects) == {one.partition for one in report.outages if not one.end_seq}
    over = {one.partition for one in report.outages if one.end_seq and one.seq == lasts.seq}
    assert over
    assert not over & set(lasts.subjects)


def test_outage_of_which_the_log_shows_no_end_is_not_said_to_last() -> None:
    report = _report(INCIDENTS / "kraft-epoch-above")
    (text,) = (one.text for one in report.findings if one.text.startswith("orders-2 was offline"))
    assert "on; the log shows the cluster for 2.038 s more" in text


def test_lanes_name_a_kraft_controller() -> None:
    lanes = _report(INCIDENTS / "migration-left").lanes
    (terms,) = (one for one in lanes if one.name == "controller terms")
    assert [one.text for one in terms.spans] == [
        "broker 1, epoch 10",
        "KRaft controller 3000, epoch 11",
    ]
    assert any("KRaft controller 3000" in one.name for one in lanes if one.group == "session")


def test_findings_at_the_end_are_those_of_why_unhealthy() -> None:
    path = INCIDENTS / "cancellation-failover"
    with open_log(path) as log:
        answer = explain(log, Subject(is_unhealthy=True), log.reader.last_seq)
    texts = [one.text for one in _report(path).findings if one.kind == "at the end"]
    assert len(texts) == len(answer.unhealthy) > 0
    assert all(any(one.cause in text for text in texts) for one in answer.unhealthy)


def test_rolled_back_reassignment_has_a_lane_with_the_seven_steps() -> None:
    report = _report(INCIDENTS / "cancellation-failover")
    lane = next(one for one in report.lanes if one.group == "reassignment")
    steps = {one.text.split(":")[0] for one in lane.marks if one.kind == "rollback step"}
    assert steps == {f"step {number} of 7" for number in range(1, 8)}
    assert "rolling back" in {one.state for one in lane.spans}


def test_imported_log_has_sessions_terms_and_rules_of_decisions() -> None:
    report = _report(RECORDING)
    owners = {one.name for one in report.lanes if one.group == "session"}
    assert {f"sessions: broker {one}" for one in (1, 2, 3)} <= owners
    assert any(one.listed.rule for one in report.decisions)
    assert any("session expired" in one.text for one in report.findings)


def test_failover_is_broken_into_steps_that_fill_its_time() -> None:
    failover = _report(INCIDENTS / "broker-crash").failovers[0]
    ends = [one.end_ns for one in failover.steps]
    begins = [one.begin_ns for one in failover.steps]
    assert ends[:-1] == begins[1:]
    assert ends[-1] == failover.end_ns


def test_names_are_data_of_the_page_and_never_markup() -> None:
    report = _report(INCIDENTS / "broker-crash")
    lane = structs.replace(report.lanes[0], name="</script><script>alert(1)</script>")
    finding = structs.replace(report.findings[0], text="<img src=x onerror=alert(1)>")
    report.lanes, report.findings = [lane], [finding]
    report.path = "<b>"
    page = page_of([report])
    assert "<img" not in page
    assert "<title>refold report: &lt;b&gt;</title>" in page
    assert page.count("</script>") == 2
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; style-src 'sha256-")
    data = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    assert json.loads(data[1])["logs"][0]["path"] == "<b>"


def test_page_replaces_a_report_and_no_other_file(tmp_path: Path) -> None:
    out, log = tmp_path / "report.html", str(INCIDENTS / "broker-crash")
    for _ in range(2):
        assert CliRunner().invoke(app, [log, "-o", str(out)]).exit_code == 0
    out.write_text("mine")
    result = CliRunner().invoke(app, [log, "-o", str(out)])
    assert result.exit_code == 2
    assert "is not such a report" in result.output
    assert out.read_text() == "mine"


def test_futures_of_another_log_are_an_error(tmp_path: Path) -> None:
    futures = tmp_path / "futures.json"
    point = {"seq": 53, "time": "2026-11-26T10:23:03.466331Z", "likelihood": 0, "low": 0, "high": 0}
    futures.write_text(json.dumps({"condition": "orders-3 offline", "points": [point]}))
    options = ["-o", str(tmp_path / "report.html"), "--futures", str(futures)]
    result = CliRunner().invoke(app, [str(INCIDENTS / "unclean-election"), *options])
    assert result.exit_code == 0, result.output
    result = CliRunner().invoke(app, [str(INCIDENTS / "broker-crash"), *options])
    assert result.exit_code == 2
    assert "of another log: tests/incidents/broker-crash has no event 53 at 2026" in result.output


def test_futures_without_a_point_are_an_error(tmp_path: Path) -> None:
    futures = tmp_path / "futures.json"
    futures.write_text('{"condition": "orders-1 offline", "points": []}')
    options = ["-o", str(tmp_path / "report.html"), "--futures", str(futures)]
    result = CliRunner().invoke(app, [str(INCIDENTS / "broker-crash"), *options])
    assert result.exit_code == 2
    assert "has no points, because the search was interrupted" in result.output


@pytest.mark.parametrize("option", ["--against", "--futures"])
def test_second_input_that_cannot_be_used_is_an_error(tmp_path: Path, option: str) -> None:
    log, out = str(INCIDENTS / "broker-crash"), str(tmp_path / "report.html")
    result = CliRunner().invoke(app, [log, "-o", out, option, str(tmp_path / "absent")])
    assert result.exit_code == 2


def test_broker_that_is_down_all_the_time_has_a_lane_that_says_so() -> None:
    path = INCIDENTS / "broker-crash"
    with open_log(path) as log:
        assert isinstance(log, RecordedLog)
        reading = read_recorded(log, str(path), unreported)
    for place, one in enumerate(reading.live):
        if one.brokers is not None:
            reading.live[place] = structs.replace(one, brokers=one.brokers - {2})
    [lane] = [one for one in lanes_of(reading) if one.name == "broker 2"]
    assert [(one.state, one.text) for one in lane.spans] == [("not registered", "not registered")]


def test_broker_has_one_word_for_one_state() -> None:
    [lane] = [one for one in _report(INCIDENTS / "broker-crash").lanes if one.name == "broker 2"]
    words = [one.text for one in lane.spans]
    assert words == ["registered", "not registered", "registered"]


def test_step_of_a_failover_is_not_cut_within_a_name() -> None:
    report = _report(Path("tests/recordings/broker-crash-2.tar.xz"))
    longest = [one.text for one in report.findings if one.kind == "failover"]
    assert any(
        one.endswith("/brokers/topics/pair_02/partitions/3/state and 5 more.") for one in longest
    )


def test_broker_that_cannot_be_reached_is_named_once() -> None:
    texts = [one.text for one in _report(DEMONSTRATION).findings]
    assert any(one.startswith("broker 2: 127.0.0.1:15033 (PLAINTEXT): ") for one in texts)


def test_redacted_report_names_no_command_that_cannot_be_run() -> None:
    for options, has_commands in (([], True), (["--redact"], False)):
        arguments = [str(INCIDENTS / "broker-crash"), "--format", "markdown", "-o", "-"]
        result = CliRunner().invoke(app, [*arguments, *options])
        assert ("Look at" in result.stdout) is has_commands
