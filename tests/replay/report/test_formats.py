"""Reports as a trace, as Markdown and as JSON."""

import json
from collections import defaultdict
from pathlib import Path

import pytest
from msgspec import structs
from typer.testing import CliRunner

from replay.cli.report import app
from replay.logs.open_log import open_log
from replay.report.building import report_of
from replay.report.document import Lane, Report, Span
from replay.report.markdown import markdown_of
from replay.report.perfetto import trace_of

INCIDENT = "tests/incidents/unclean-election"


@pytest.fixture(scope="module")
def report() -> Report:
    with open_log(INCIDENT) as log:
        return report_of(log, INCIDENT)


def test_trace_has_every_event_and_the_outage_at_its_time(report: Report) -> None:
    entries = json.loads(trace_of([report]))["traceEvents"]
    outage = next(
        one for one in entries if one["ph"] == "X" and one["args"].get("state") == "offline"
    )
    assert outage["args"]["event"] == 93
    (lane,) = (
        one["args"]["name"]
        for one in entries
        if one["name"] == "thread_name"
        and (one["pid"], one["tid"]) == (outage["pid"], outage["tid"])
    )
    assert lane.startswith("orders-")
    [process] = [
        one["args"]["name"]
        for one in entries
        if one["name"] == "process_name" and one["pid"] == outage["pid"]
    ]
    assert process == "Partitions"
    numbers = [one["args"]["event"] for one in entries if one["args"].get("kind") and "dur" in one]
    assert numbers == [one.listed.seq for one in report.events]
    counts = [one["args"] for one in entries if one["ph"] == "C"]
    assert max(one["offline"] for one in counts) == max(one.offline for one in report.counts)


def test_decisions_of_a_trace_have_flows_from_their_causes(report: Report) -> None:
    entries = json.loads(trace_of([report, report]))["traceEvents"]
    begun = {one["bind_id"] for one in entries if one.get("flow_out")}
    ended = [one["bind_id"] for one in entries if one.get("flow_in")]
    decided = [one for one in report.decisions if one.because is not None]
    assert len(ended) == 2 * len(decided)
    assert set(ended) <= begun
    assert all(int(one, 16) >= 0 for one in begun)


def test_slices_of_a_thread_nest_although_spans_overlap(report: Report) -> None:
    spans = [Span(at, at + 3_000_000, "moving", f"{at}", 1) for at in (0, 1_000_000, 4_000_000)]
    lane = Lane("reassignment", "t-0", [structs.replace(one) for one in spans])
    overlapping = structs.replace(report, lanes=[*report.lanes, lane])
    threads = defaultdict(list)
    for one in json.loads(trace_of([overlapping]))["traceEvents"]:
        if one["ph"] == "X":
            threads[one["pid"], one["tid"]].append((one["ts"], -one["dur"]))
    for slices in threads.values():
        ends: list[float] = []
        for begin, negative in sorted(slices):
            while ends and ends[-1] <= begin + 1e-3:
                ends.pop()
            assert not ends or begin - negative <= ends[-1] + 1e-3
            ends.append(begin - negative)


def test_markdown_shows_names_as_text(report: Report) -> None:
    finding = structs.replace(report.findings[0], text="<script>*x*|y", look_at="refold why `x`")
    text = markdown_of([structs.replace(report, findings=[finding], path="a`b")])
    assert "# a\\`b" in text
    assert r"\<script\>\*x\*\|y Look at: refold why \`x\`" in text


def test_markdown_has_the_longest_outage_first(report: Report) -> None:
    rows = [one for one in markdown_of([report]).splitlines() if one.startswith("| orders-")]
    assert rows[0] == "| orders-3 | 2026-11-26T10:23:14.832940Z | 93 | 9.780 | 127 | 1 |"


def test_names_keep_their_case_in_findings(report: Report) -> None:
    assert report.findings[0].text.startswith("orders-3 was offline for 9.780 s")


def test_json_has_the_findings_and_no_file_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: Report
) -> None:
    log = str(Path(INCIDENT).resolve())
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, [log, "--json"])
    (found,) = json.loads(result.output)["reports"]
    assert [one["seq"] for one in found["findings"]] == [one.seq for one in report.findings]
    assert found["outages"][0]["end_seq"] == report.outages[0].end_seq
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("format", "name"), [("perfetto", "perfetto.json"), ("markdown", "md")])
def test_format_has_its_default_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str, name: str
) -> None:
    log = str(Path(INCIDENT).resolve())
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert CliRunner().invoke(app, [log, "--format", format]).exit_code == 0
    assert [one.name for one in tmp_path.iterdir()] == [f"report.{name}"]
    result = CliRunner().invoke(app, [log, "-o", f"report.{name}"])
    assert result.exit_code == 2


@pytest.mark.parametrize(
    "options", [["--json", "--format", "html"], ["--futures", "x", "--format", "markdown"]]
)
def test_options_that_exclude_each_other_are_an_error(options: list[str]) -> None:
    result = CliRunner().invoke(app, [INCIDENT, *options])
    assert result.exit_code == 2
    assert "--" in result.output


def test_report_is_printed_to_standard_output() -> None:
    result = CliRunner().invoke(app, [INCIDENT, "--format", "markdown", "-o", "-"])
    assert result.output.startswith("<!-- generator: refold report -->\n# tests/incidents")
