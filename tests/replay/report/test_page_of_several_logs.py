"""The page of several logs in Chromium: those of one run, and two sides that are compared."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from typer.testing import CliRunner

from replay.cli.main import app
from replay.explore.generators.scenarios import generic
from replay.explore.saved import read_run, save, saved_run
from tests.chromium import needs_chromium
from tests.races.catalogue import DEFECTS
from tests.replay.report.shown_page import Show, decision_is_followed_to_its_cause, report_at
from tests.replay.what_if.simulated import run_with_two_logs

pytestmark = [
    pytest.mark.slow,
    needs_chromium,
]


@pytest.fixture(scope="module")
def race(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run with a race that the explorer has found and shrunk; and the run with the same inputs
    without the defect."""
    folder = tmp_path_factory.mktemp("race")
    found, other = folder / "with", folder / "without"
    options = ("--runs", "20", "--seed", "5", "--workers", "1", "--shrink-seconds", "60")
    with DEFECTS["R4"].plant():
        result = CliRunner().invoke(app, ["explore", *options, "--out", str(found)])
    assert result.exit_code == 1, result.output
    run = read_run(found)
    assert 0 < len(run.inputs) < run.inputs_before_shrinking
    save(saved_run(run.scenario, run.inputs, seed=5, strategy="random", before=1), other)
    return found, other


def _compared(page: Page, tmp_path: Path, log: Path, other: Path) -> None:
    file = tmp_path / "report.html"
    options = ["report", str(log), "--against", str(other), "-o", str(file)]
    result = CliRunner().invoke(app, options)
    assert result.exit_code == 0, result.output
    page.goto(file.as_uri())
    expect(page.locator("#kind option").nth(1)).to_be_attached()


def test_shrunk_race_is_compared_with_the_run_without_the_defect(
    page: Page, tmp_path: Path, race: tuple[Path, Path]
) -> None:
    _compared(page, tmp_path, *race)
    expect(page.locator("#compared")).to_contain_text("payments-1: leader 3, ISR 3,4, only in B")
    page.locator("#comparison button").first.click()
    expect(page.locator("#detail dl")).to_contain_text("ISR 3,4")
    expect(page).to_have_url(re.compile("log=1"))
    page.locator("#switch").click()
    page.wait_for_function("() => last_list.startsWith('0/')")
    expect(page.locator("#findings")).to_contain_text("payments-1: rejected with")
    page.locator("#all").click()
    decision_is_followed_to_its_cause(page, "(leader 3, epoch 1, ISR 3)")


def test_sides_with_several_logs_are_named_in_the_title_and_all_logs_below_it(
    page: Page, tmp_path: Path
) -> None:
    first = run_with_two_logs(tmp_path / "first")
    second = run_with_two_logs(tmp_path / "second")
    _compared(page, tmp_path, first, second)
    one, two, three, four = (
        f"{run}/refold-100-run-{number}" for run in (first, second) for number in (1, 2)
    )
    expect(page.locator("#title")).to_have_text(f"{one}, {two} against {three}, {four}")
    about = page.locator("#about").text_content() or ""
    assert [line[:3] for line in about.splitlines()] == ["A: ", "B: ", "C: ", "D: "]


def test_lanes_of_a_daemon_that_was_never_controller_are_folded(page: Page, tmp_path: Path) -> None:
    run = saved_run(generic(standby=(False, False)), (), seed=1, strategy="random", before=0)
    logs = save(run, tmp_path / "run")
    assert len(logs) == 2
    file = tmp_path / "report.html"
    assert CliRunner().invoke(app, ["report", str(logs[0].parent), "-o", str(file)]).exit_code == 0
    page.goto(file.as_uri())
    folded = page.locator("details.lanes")
    expect(folded).to_contain_text("never controller")
    expect(folded.locator("canvas")).to_be_hidden()
    expect(page.locator("#strips .uplot")).to_have_count(1)
    expect(page.locator(".lanes h3")).to_have_count(1)
    folded.locator("summary").click()
    expect(folded.locator("canvas")).to_be_visible()
    page.wait_for_function("() => document.querySelector('details canvas').width > 500")


def test_logs_of_one_run_are_on_one_time_axis(page: Page, tmp_path: Path) -> None:
    run, file = run_with_two_logs(tmp_path / "run"), tmp_path / "report.html"
    assert CliRunner().invoke(app, ["report", str(run), "-o", str(file)]).exit_code == 0
    page.goto(file.as_uri())
    expect(page.locator(".lanes h3")).to_have_text(
        [re.compile("A: .*refold-100-run-1"), re.compile("B: .*refold-100-run-2")]
    )
    expect(page.locator("#comparison")).to_be_hidden()
    expect(page.locator("#about")).to_contain_text(re.compile("B: .* events 1 to"))
    expect(page.locator("#findings")).to_contain_text("B failover")
    # The list follows a little later.
    title = page.locator("#list-title")
    expect(title).to_contain_text("in the window")
    in_first_log = title.text_content() or ""
    page.keyboard.press("s")
    page.wait_for_function("() => view.log === 1 && logs[1].startUs > logs[0].endUs")
    expect(title).not_to_have_text(in_first_log)
    page.locator(".row.event").first.click()
    expect(page.locator("#detail dl")).to_contain_text("event")
    page.keyboard.press("s")
    page.wait_for_function("() => view.log === 0")


def test_run_with_two_logs_is_compared_on_one_time_axis(page: Page, tmp_path: Path) -> None:
    incident, run, file = "tests/incidents/unclean-election", tmp_path / "run", tmp_path / "a.html"
    options = ["what-if", incident, "--crash", "controller@80", "--out", str(run)]
    assert CliRunner().invoke(app, options).exit_code == 1
    options = ["report", incident, "--against", str(run), "-o", str(file)]
    assert CliRunner().invoke(app, options).exit_code == 0
    page.goto(file.as_uri())
    expect(page.locator(".lanes h3")).to_have_text(
        [re.compile("A: .*unclean"), re.compile("B: .*-run-1"), re.compile("C: .*-run-2")]
    )
    expect(page.locator("#comparison th")).to_contain_text(["offline in A", "offline in B, C"])
    page.locator("#comparison tr", has_text="controller: elected").locator("button").click()
    page.wait_for_function("() => view.log === 2")
    # A change in the third log leads to the same change in the first one, and back.
    first, second = page.evaluate("() => comparison.pairs.find(one => one[1][0] === 2)")
    page.evaluate("([log, seq]) => select(seq, -1, log)", second)
    for log, seq in (first, second):
        page.keyboard.press("s")
        page.wait_for_function(f"() => view.log === {log} && view.seq === {seq}")


def test_event_with_the_same_change_stays_selected_in_the_other_log(show: Show) -> None:
    reports = [
        report_at(f"tests/incidents/{name}") for name in ("broker-crash", "unclean-election")
    ]
    page = show(reports)
    assert page.locator(".lanes canvas").count() == 2
    assert reports[1].comparison is not None
    first, second = reports[1].comparison.pairs[0]
    page.evaluate("seq => select(seq)", first.seq)
    page.keyboard.press("s")
    page.wait_for_function("seq => view.log === 1 && view.seq === seq", arg=second.seq)
