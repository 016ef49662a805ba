import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import typer
from typer.testing import CliRunner

from replay.world.inputs import CutConnection
from tools.design_comparison import page
from tools.design_comparison.__main__ import main
from tools.design_comparison.broker_failure import TITLES
from tools.design_comparison.charts import bar_chart, charts, lines
from tools.design_comparison.comparison import DesignComparison, compare, run_seeds
from tools.design_comparison.meter import Measurements, Operations
from tools.design_comparison.scenarios import FAULTS, FIRST_FAULT_MS, drawn, kind_of
from tools.design_comparison.tables import NO_TIME, percentile, tables


@pytest.fixture(scope="module")
def compared() -> DesignComparison:
    found = compare(1, 2, 1, lambda done: None)
    found.date = "2026-01-01"
    return found


def part_of(text: str, name: str) -> str:
    """The text of a part of the page."""
    found = re.search(rf"<!-- {name}: .*?-->\n\n(.*?)\n\n<!-- end of {name} -->", text, re.DOTALL)
    assert found is not None, name
    return found[1]


def rows_of(text: str) -> Iterator[str]:
    """The header of a table, and the names of its rows, without the numbers."""
    for line in text.splitlines():
        yield re.sub(r"[-\d][\d.,]*( s| %)?(?= \|)|(?<=\| )(?= \|)", "#", line)


@pytest.mark.long
def test_result_does_not_depend_on_the_number_of_workers(compared: DesignComparison) -> None:
    assert compare(1, 2, 2, lambda done: None).designs == compared.designs
    first, second = run_seeds(1, 1, 1), run_seeds(1, 2, 1)
    first["0.8"].add(second["0.8"])
    assert first["0.8"] == compared.designs["0.8"]


@pytest.mark.long
def test_both_designs_have_the_same_producers(compared: DesignComparison) -> None:
    without, with_controller = compared.designs.values()
    assert without.runs == with_controller.runs == compared.runs == 2
    assert without.sent == with_controller.sent
    assert without.observed_us == with_controller.observed_us
    for one in (without, with_controller):
        assert all(one.lost[acks] <= one.acknowledged[acks] <= one.sent[acks] for acks in one.sent)


def test_seeds_draw_every_kind_of_fault() -> None:
    drawn_faults = [one for seed in range(60) for one in drawn(seed)[1]]
    later = [one for one in drawn_faults if one.at_ms >= FIRST_FAULT_MS]
    assert {kind_of(one) for one in later} == set(FAULTS)
    earlier = [one for one in drawn_faults if one.at_ms < FIRST_FAULT_MS]
    assert all(isinstance(one, CutConnection) and one.ms == 0 for one in earlier)


def test_added_measurements_are_sums() -> None:
    one = Measurements(runs=1, gaps={"a": [1]}, lost={"1": 2}, operations=Operations(reads=3))
    one.add(Measurements(runs=2, gaps={"a": [4], "b": [5]}, lost={"0": 6}))
    one.add(Measurements(operations=Operations(reads=7)))
    assert one == Measurements(
        runs=3,
        gaps={"a": [1, 4], "b": [5]},
        lost={"1": 2, "0": 6},
        operations=Operations(reads=10),
    )


def test_percentile_is_one_of_the_times() -> None:
    times = [one * 1_000_000 for one in range(1, 101)]
    assert (percentile(times, 50), percentile(times, 99)) == (50, 99)
    assert percentile([3_000_000], 99) == 3
    assert percentile([], 50) is None


def test_page_has_the_tables_that_the_tool_writes(compared: DesignComparison) -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    for name, table in tables(compared).items():
        written = list(rows_of(part_of(text, name)))
        made = list(rows_of(table))
        if name in ("two leaders", "broker failure"):
            # The rows depend on what happened, and on the sizes that were measured.
            written, made = written[:1], made[:1]
        assert written == made, f"{name}: python -m tools.design_comparison --write"
    for name in charts(compared):
        assert f"design-comparison/{name}.svg" in text
        assert (page.CHARTS / f"{name}.svg").read_text(encoding="utf-8").startswith("<svg")


def test_table_of_failures_says_where_the_time_is_not_measured(compared: DesignComparison) -> None:
    name = "broker failure"
    page_rows = part_of(page.PAGE.read_text(encoding="utf-8"), name).splitlines()[2:]
    for line in (*page_rows, *tables(compared)[name].splitlines()[2:]):
        _, partitions, title, origin, *_, time, _, _ = map(str.strip, line.split("|"))
        is_known = origin == "measured" or title == TITLES["0.8"]
        assert (time != NO_TIME) == is_known, partitions
        assert time


def test_longer_bars_and_higher_points_are_larger_values() -> None:
    chart = bar_chart("t", {"g": [1, 4]})
    widths = [float(one) for one in re.findall(r'width="([\d.]+)" height="12"', chart)[2:]]
    assert widths[1] == pytest.approx(4 * widths[0], rel=0.01)
    points = re.search(r'points="([^"]+)"', lines("t", "x", {"a": [(10, 1), (1000, 100)]}))
    assert points is not None
    (x1, y1), (x2, y2) = (map(float, one.split(",")) for one in points[1].split())
    assert x2 > x1
    assert y2 < y1


def test_results_of_an_earlier_run_are_printed_again(
    compared: DesignComparison, tmp_path: Path
) -> None:
    file = tmp_path / "results.json"
    file.write_bytes(msgspec.json.encode(compared))
    app = typer.Typer()
    app.command()(main)
    printed = CliRunner().invoke(app, ["--from", str(file)])
    assert printed.exit_code == 0
    assert "acknowledged and lost" in printed.output
    again = CliRunner().invoke(app, ["--from", str(file), "--json"])
    assert msgspec.json.decode(again.output, type=DesignComparison) == compared


def test_file_that_is_not_a_result_is_reported(tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(main)
    file = tmp_path / "results.json"
    file.write_text("[1]")
    printed = CliRunner().invoke(app, ["--from", str(file)])
    assert printed.exit_code == 2
    assert "is not the output of --json" in printed.output
