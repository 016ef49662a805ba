"""The search for planted races: workers plant a defect by its id; the table has what was found."""

from pathlib import Path

from replay.explore.generators.attempt import Case
from replay.explore.invariants.invariant import Violation
from tests.races.catalogue import DEFECTS
from tools.races.search import Searched, Searchers
from tools.races.table import Row, line, write_table


def test_worker_plants_the_defect_that_it_shrinks() -> None:
    directed = DEFECTS["R5"].directed
    assert directed is not None
    scenario, inputs = directed()
    with Searchers(1) as searchers:
        case = Case(scenario, inputs, "random", 1)
        # There is no time to remove anything.
        shrunk = searchers.shrink("R5", case, "deposed-write-nothing", 0)
    assert shrunk.case.inputs == inputs
    assert not shrunk.is_minimal
    assert "refold 100 with controller epoch 1 changed the znode" in shrunk.violation.text


def test_race_that_is_not_found_shows_how_many_runs_had_what_it_needs() -> None:
    row = Row.of("R5", Searched(runs=40, reached=3, seconds=60, others={"isrs-full": 2}), None)
    assert not row.found
    assert line(row) == "| R5 | no |  |  | 40 | 60.0 |  | 3 | isrs-full 2 |"


def test_found_race_has_its_invariant_and_strategy() -> None:
    case = Case(DEFECTS["R5"].directed()[0], (), "pct", 1)  # type: ignore[misc]
    violation = Violation("deposed-write-nothing", 5, "/x", "text")
    row = Row.of("R5", Searched(7, 1, 2.04, case, violation), None)
    assert line(row) == "| R5 | yes | deposed-write-nothing | pct | 7 | 2.0 |  | 1 |  |"


def test_table_of_a_page_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Races\n\n| race | found |\n|---|---|\n| R1 | yes |\n\n- more\n")
    write_table(page, [Row.of("R5", Searched(runs=40, seconds=60), None)])
    text = page.read_text()
    assert text.startswith("# Races\n\n| race | found | invariant |")
    assert text.endswith("|\n| R5 | no |  |  | 40 | 60.0 |  | 0 |  |\n\n- more\n")
