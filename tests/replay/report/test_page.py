"""The page in Chromium: no console error, selection, search, filters, the other log."""

import re
import shutil
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from msgspec import structs
from playwright.sync_api import Page, expect

from replay.report.differing_decisions import add_differing_decisions
from replay.report.document import CurvePoint, Lane, PointOfNoReturn, Report
from tests.chromium import needs_chromium
from tests.replay.report.compared_versions import CRASH, instance, write_diff
from tests.replay.report.served import served
from tests.replay.report.shown_page import Show, decision_is_followed_to_its_cause, report_at
from tools.bench.inspect import make_log

ODD = "<script>bad()</script>"
pytestmark = [
    pytest.mark.slow,
    needs_chromium,
]


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["incidents/unclean-election", "recordings/unclean-3.tar.xz"])
def test_finding_leads_to_its_event_and_the_address_keeps_it(show: Show, name: str) -> None:
    page = show([report_at(f"tests/{name}")])
    page.locator("#findings button").first.click()
    expect(page.locator("#detail dl")).to_contain_text("event")
    expect(page.locator(".row[aria-selected=true]")).to_be_visible()
    expect(page).to_have_url(re.compile("seq="))
    page.reload()
    expect(page.locator("#detail dl")).to_contain_text("event")


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("name", "search"),
    [
        ("incidents/broker-crash", "set /brokers/topics/orders/partitions/1/state"),
        ("recordings/unclean-3.tar.xz", "/state"),
    ],
)
def test_decision_is_followed_to_its_cause(show: Show, name: str, search: str) -> None:
    decision_is_followed_to_its_cause(show([report_at(f"tests/{name}")]), search)


def test_demonstration_is_followed_from_a_finding_to_the_lost_broker(show: Show) -> None:
    """Its log is the first one of `python -m tools.demo --folder DIR` in DIR/refold-logs: a broker
    is killed and returns, another one is stopped, then the daemon is killed. `refold log copy` has
    copied it, and tar has packed the copy."""
    page = show([report_at("tests/replay/report/demonstration/log.tar.xz")])
    findings = page.locator("#findings")
    expect(findings).to_contain_text("orders-2, orders-4 were offline")
    page.locator("#findings button", has_text="registration of broker 2 is gone").last.click()
    expect(page.locator("#detail")).to_contain_text("the registration of broker 2 was deleted")
    decision_is_followed_to_its_cause(page, "set /brokers/topics/orders/partitions/2/state")
    page.keyboard.press("0")
    page.evaluate("select(75)")
    page.keyboard.press("c")
    expect(page.locator("#detail")).to_contain_text("74: watch of /brokers/ids/2: deleted")
    page.keyboard.press("e")
    expect(page.locator("#detail")).to_contain_text("75: watch of /brokers/ids")


def test_decision_of_a_stock_controller_leads_to_the_expired_session_and_back(show: Show) -> None:
    page = show([report_at("tests/recordings/broker-crash-2.tar.xz")])
    page.evaluate("select(477)")
    for key, text in (
        ("c", "460: broker 2, controller.log"),
        ("c", "459: session 0x1000019b9680002: expires, which deletes /brokers/ids/1"),
        ("e", "460: broker 2, controller.log"),
    ):
        page.keyboard.press(key)
        expect(page.locator("#detail dd").first).to_contain_text(text)


def test_escape_leaves_no_finding_marked_and_no_effect_to_follow(show: Show) -> None:
    page = show([report_at("tests/incidents/broker-crash")])
    page.locator("#findings button").first.click()
    marked = page.locator("#findings [aria-current=true]")
    expect(marked).to_have_count(1)
    page.locator("#list").focus()
    page.keyboard.press("Escape")
    expect(marked).to_have_count(0)
    for key in ("e", "c"):
        page.keyboard.press(key)
        expect(page.locator("#detail")).to_contain_text("Select a finding, an event or a decision")


def test_unknown_filter_of_an_address_is_named_and_can_be_replaced(show: Show) -> None:
    page = show([report_at("tests/incidents/broker-crash")])
    page.evaluate("topic => { location.hash = `topic=${encodeURIComponent(topic)}`; }", ODD)
    unknown = page.locator("#unknown")
    expect(unknown).to_have_text(f"No topic is named {ODD}: choose another one.")
    expect(page.locator("#topic option:checked")).to_have_text(f"{ODD} (unknown)")
    page.locator("#topic").select_option("orders")
    expect(unknown).to_be_empty()
    expect(page.locator("#topic option", has_text="unknown")).to_have_count(0)
    expect(page.locator(".row.decision").first).to_contain_text("orders")


@pytest.mark.parametrize(
    ("fragment", "text"),
    [
        ("seq=99999", "No event has the number 99999: choose another one."),
        ("seq=-1", "No event has the number -1: choose another one."),
        ("seq=x", "No event has the number x: choose another one."),
        ("seq=5&log=9", "No log has the number 9: choose another one."),
    ],
)
def test_unknown_event_of_an_address_is_named(show: Show, fragment: str, text: str) -> None:
    page = show([report_at("tests/incidents/broker-crash")])
    page.evaluate("fragment => { location.hash = fragment; }", fragment)
    unknown = page.locator("#unknown")
    expect(unknown).to_have_text(text)
    page.locator("#findings button").first.click()
    expect(unknown).to_be_empty()


def test_address_given_while_the_page_stores_its_view_is_followed(show: Show) -> None:
    page = show([report_at("tests/incidents/broker-crash")])
    page.evaluate("location.hash = 'seq=99999'; history.replaceState(null, '', '#');")
    expect(page.locator("#unknown")).to_contain_text("No event has the number 99999")


def test_long_text_of_a_cause_ends_at_a_word_with_dots(show: Show) -> None:
    page = show([report_at("tests/recordings/broker-crash-2.tar.xz")])
    page.evaluate("select(477)")
    cause = page.locator("#detail span[title]").first
    expect(cause).to_have_text(re.compile(r"deleted brokers: 1, \u2026$"))
    expect(cause).to_have_attribute("title", re.compile("all live brokers: 2,3$"))


def test_filter_by_broker_finds_decisions_that_pass_over_it(show: Show) -> None:
    page = show([report_at("tests/recordings/broker-crash-2.tar.xz")])
    page.locator("#topic").select_option("pair_02")
    page.locator("#broker").select_option("broker 1")
    row = page.locator(".row.decision", has_text="/brokers/topics/pair_02/partitions/0/state")
    expect(row.first).to_be_visible()


def test_plots_name_their_unit_and_have_values_without_the_mouse(show: Show) -> None:
    page = show([report_at("tests/incidents/broker-crash")])
    expect(page.locator("#strips .u-title")).to_contain_text("Partitions that are not well")
    values = page.locator("#strips .u-value")
    expect(values).to_have_text([re.compile("2026-11-21T23:"), "0", "0"])
    page.locator("#strips .u-over").hover()
    page.mouse.move(0, 0)
    expect(values).to_have_text([re.compile("2026-11-21T23:"), "0", "0"])


def test_failover_is_named_with_its_epoch(show: Show) -> None:
    page = show([report_at("tests/incidents/unclean-election")])
    expect(page.locator("#failovers summary").first).to_contain_text("Startup, epoch 2, ")


def test_time_of_an_event_is_the_one_that_other_commands_print(show: Show) -> None:
    page = show([report_at("tests/incidents/unclean-election")])
    page.evaluate("select(93)")
    expect(page.locator("#detail")).to_contain_text("2026-11-26T10:23:14.832940Z")


def test_escape_in_the_search_ends_the_search(show: Show) -> None:
    page = show([report_at("tests/incidents/broker-crash")])
    title = page.locator("#list-title")
    expect(title).to_contain_text("in the window")
    everything = title.text_content() or ""
    page.keyboard.press("/")
    page.keyboard.type("partitions/1/state")
    expect(title).not_to_have_text(everything)
    page.keyboard.press("Escape")
    expect(title).to_have_text(everything)
    expect(page.locator("#search")).to_have_value("")


def test_passed_over_brokers_are_named(show: Show) -> None:
    page = show([report_at("tests/incidents/broker-crash")])
    page.locator("#search").fill("set /brokers/topics/orders/partitions/1/state")
    page.locator(".row.decision", has_text="partitions/1/state").first.click()
    expect(page.locator("#detail")).to_contain_text("passed over: 2 is not online")


DRAWN = """
    globalThis.drawn = []; const draw = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
        drawn.push(text); return draw.call(this, text, ...place); };"""
"""Keeps the texts that are drawn."""


def _printed_names(page: Page) -> set[str]:
    page.evaluate("() => { drawn.length = 0; dispatchEvent(new Event('beforeprint')); }")
    return set(page.evaluate("drawn"))


def test_print_has_all_lanes_that_a_screen_scrolls(page: Page, show: Show) -> None:
    page.add_init_script(DRAWN)
    report = report_at("tests/recordings/broker-crash-2.tar.xz")
    spans = next(one for one in report.lanes if one.group == "partition").spans
    many = [Lane("partition", f"many-{n}", spans, weight=1.0) for n in range(60)]
    shown = show([structs.replace(report, lanes=[*report.lanes, *many])])
    found = {name for one in report.findings for name in one.subjects if "-" in name}
    wanted = found | {one.name for one in many}
    assert wanted <= _printed_names(shown)
    assert shown.locator(".lanes canvas").count() > 1
    shown.evaluate("dispatchEvent(new Event('afterprint'))")
    expect(shown.locator(".lanes canvas")).to_have_count(1)


def test_print_says_how_many_lanes_it_leaves_out(show: Show) -> None:
    report = report_at("tests/incidents/broker-crash")
    spans = next(one for one in report.lanes if one.group == "partition").spans
    lanes = [Lane("partition", f"many-{n}", spans, weight=1.0) for n in range(640)]
    page = show([structs.replace(report, lanes=lanes)])
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(page.locator(".lanes p")).to_have_text(re.compile("^40 more lanes are not printed: "))


CANVASES = "() => [...document.querySelectorAll('canvas')].map(one => one.toDataURL())"


TEXTS = """() => {
    const canvas = CanvasRenderingContext2D.prototype, {fillText} = canvas, texts = [];
    canvas.fillText = function (text, x, y) {
        texts.push({text, x, y, end: x + this.measureText(text).width});
        fillText.call(this, text, x, y);
    };
    const [one] = timelines; one.draw(); canvas.fillText = fillText;
    const marks = one.lanes().map(lane => lane[4].map(mark => one.x(mark[0])));
    return [one.width, texts.filter(each => each.x >= LABEL), marks, AXIS, ROW]; }"""
"""The texts right of the names of the lanes, and where the marks of each lane are."""


@pytest.mark.parametrize("width", [700, 810, 935, 1080, 1280])
def test_texts_of_the_time_line_are_neither_covered_nor_cut_off(show: Show, width: int) -> None:
    page = show([report_at("tests/incidents/unclean-election")])
    page.set_viewport_size({"width": width, "height": 900})
    canvas, texts, marks, axis, row = page.evaluate(TEXTS)
    assert all(one["end"] <= canvas for one in texts)
    of_axis = sorted((one for one in texts if one["y"] == 11), key=lambda one: one["x"])
    assert len(of_axis) > 2
    assert all(one["end"] < other["x"] for one, other in pairwise(of_axis))
    of_lanes = [one for one in texts if one["y"] > axis]
    assert any(one["text"].startswith("no leader") for one in of_lanes)
    for one in of_lanes:
        at = marks[int((one["y"] - axis) // row)]
        assert not any(one["x"] - 4 < x < one["end"] + 4 for x in at), one["text"]


def test_text_that_is_cut_off_ends_with_dots(show: Show) -> None:
    page = show([report_at("tests/incidents/unclean-election")])
    page.set_viewport_size({"width": 700, "height": 900})
    texts = [one["text"] for one in page.evaluate(TEXTS)[1]]
    states = page.evaluate("() => logs[0].texts")
    cut = [one for one in texts if one.startswith(("leader", "no leader")) and one not in states]
    assert cut
    assert all(one.endswith("\N{HORIZONTAL ELLIPSIS}") for one in cut)


def test_lanes_and_plots_follow_the_colour_scheme_of_the_system(show: Show) -> None:
    page = show([report_at("tests/incidents/broker-crash")])
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    light = page.evaluate(CANVASES)
    assert len(light) > 1
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(
        f"before => ({CANVASES})().every((one, index) => one !== before[index])", arg=light
    )
    page.emulate_media(color_scheme="light")
    page.wait_for_function(
        f"before => ({CANVASES})().every((one, index) => one === before[index])", arg=light
    )


def test_name_of_a_topic_is_text_everywhere(show: Show) -> None:
    encoded = msgspec.json.encode(report_at("tests/incidents/broker-crash"))
    odd = encoded.replace(b"orders", ODD.encode())
    page = show([msgspec.json.decode(odd, type=Report)])
    page.evaluate("() => { globalThis.bad = () => console.error('a name was executed'); }")
    expect(page.locator("#findings")).to_contain_text(f"{ODD}-1 was offline")
    page.locator("#topic").select_option(ODD)
    expect(page.locator(".row.decision").first).to_contain_text(ODD)
    page.locator(".row.decision").first.click()
    expect(page.locator("#detail")).to_contain_text(ODD)
    page.locator("#table").click()
    expect(page.locator("#lane-table")).to_contain_text(f"{ODD}-1")


def test_differing_decision_leads_to_its_event(show: Show, tmp_path: Path) -> None:
    report = report_at(CRASH)
    add_differing_decisions(report, write_diff(tmp_path, [instance()]))
    page = show([report])
    page.locator("#findings button", has_text="set decided differently (leader)").click()
    expect(page.locator("#detail")).to_contain_text("data.leader: 3 with base, 1 with head")
    expect(page.locator("#detail dd").first).to_contain_text("71: 1 znode read")


@pytest.mark.parametrize(
    ("hidden", "text"),
    [
        (1, "1 partition without changes is hidden"),
        (2, "2 partitions without changes are hidden"),
    ],
)
def test_hidden_partitions_are_counted(page: Page, show: Show, hidden: int, text: str) -> None:
    page.add_init_script(DRAWN)
    report = report_at("tests/incidents/broker-crash")
    lanes = [one for one in report.lanes if one.group != "partition"]
    lanes += [Lane("partition", f"t-{number}") for number in range(hidden)]
    shown = show([structs.replace(report, lanes=lanes)])
    assert text in shown.evaluate("drawn.filter(one => one.includes('hidden'))[0]")


def test_likelihood_stays_until_the_next_event(show: Show) -> None:
    report = report_at("tests/incidents/broker-crash")
    begin_ns, took_ns = report.begin_ns, report.end_ns - report.begin_ns
    points = [
        CurvePoint(1, begin_ns, 0.0, 0.0, 0.0),
        CurvePoint(124, begin_ns + took_ns, 1.0, 1.0, 1.0),
    ]
    report.futures = PointOfNoReturn("orders-1 offline", points)
    page = show([report])
    red = page.evaluate("""() => {
        const canvas = document.querySelector("#curve canvas"), {width, height} = canvas;
        const {data} = canvas.getContext("2d").getImageData(width * 0.6, 0, 1, height);
        const is_red = y => data[y * 4] > 150 && data[y * 4 + 1] < 120 && data[y * 4 + 3] > 150;
        return [...Array(height).keys()].filter(is_red).map(y => y / height); }""")
    # In the middle between two events, a straight line would be half as high as the plot.
    assert red
    assert min(red) > 0.8


def test_served_page_is_loaded_again_when_its_log_has_grown(page: Page, tmp_path: Path) -> None:
    folder = tmp_path / "logs" / "crash"
    shutil.copytree("tests/incidents/broker-crash", folder)
    with served(tmp_path / "logs") as server:
        page.goto(f"http://127.0.0.1:{server.server_port}/")
        page.locator("a", has_text="crash").click()
        expect(page.locator("#about")).to_contain_text("events 1 to 124;")
        shutil.copy("tests/incidents/unclean-election/log.tar.xz", folder)
        expect(page.locator("#about")).to_contain_text("events 1 to 169;", timeout=20_000)


@pytest.mark.lab
@pytest.mark.ci
@pytest.mark.timeout(300)  # The report of a long log takes half a minute.
def test_page_of_a_long_log_is_searched_and_zoomed(show: Show, tmp_path: Path) -> None:
    make_log(tmp_path / "log", 100_000)
    page = show([report_at(tmp_path / "log")])
    painted = page.evaluate("performance.getEntriesByName('painted')[0].startTime")
    assert painted < 3000  # 700 ms on an idle machine
    decision_is_followed_to_its_cause(page, "(leader 1, epoch 2, ISR 1)")
    page.keyboard.press("0")
    page.locator("#findings button").first.click()
    expect(page.locator("#detail dl")).to_contain_text("event")
