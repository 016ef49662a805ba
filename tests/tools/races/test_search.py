"""The search for planted races: workers plant a defect by its id; the table has what was found."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from replay.cli.main import app
from replay.explore.generators.attempt import Case, ViolationFound
from replay.explore.invariants.invariant import Violation
from replay.explore.saved import read_run
from tests.races.catalogue import DEFECTS
from tools.races.search import RaceSearchResult, Searchers, confirm
from tools.races.table import RaceRow, line, write_table


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


def test_found_race_is_saved_with_the_log_of_the_defect(tmp_path: Path) -> None:
    directed = DEFECTS["R5"].directed
    assert directed is not None
    with Searchers(1) as searchers:
        searchers.save("R5", Case(*directed(), "random", 1), tmp_path / "R5")
    saved = read_run(tmp_path / "R5")
    assert saved.violation is not None
    assert saved.violation.invariant == "deposed-write-nothing"
    assert (tmp_path / "R5" / "refold-100-run-1").is_dir()
    again = CliRunner().invoke(app, ["explore", "--reproduce", str(tmp_path / "R5")])
    assert again.exit_code == 0, again.output


def test_race_that_is_not_found_shows_how_many_runs_had_what_it_needs() -> None:
    row = RaceRow.from_search(
        "R5", RaceSearchResult(runs=40, reached=3, seconds=60, others={"isrs-full": 2}), None
    )
    assert not row.found
    assert line(row) == "| R5 | no |  |  | 40 | 60.0 |  | 3 | isrs-full 2 |  |"


def test_race_that_is_not_found_shows_what_was_broken_instead() -> None:
    row = RaceRow.from_search(
        "R5", RaceSearchResult(runs=40, reached=3, seconds=60, instead={"isrs-full": 2}), None
    )
    assert line(row) == (
        "| R5 | no: isrs-full broken instead |  |  | 40 | 60.0 |  | 3 |  | isrs-full 2 |"
    )


@pytest.mark.parametrize(
    ("invariant", "has_reached", "is_shown"),
    [
        ("deposed-write-nothing", True, True),
        ("deposed-write-nothing", False, False),
        ("strays-deleted", True, False),
    ],
)
def test_only_a_listed_invariant_in_a_run_with_what_the_race_needs_shows_the_race(
    invariant: str, has_reached: bool, is_shown: bool
) -> None:
    directed = DEFECTS["R5"].directed
    assert directed is not None
    found = ViolationFound(Case(*directed(), "random", 1), Violation(invariant, 5, "/x", "text"))
    result = RaceSearchResult()
    assert confirm("R5", found, result, has_reached=has_reached) is is_shown
    assert result.instead == ({} if is_shown else {invariant: 1})


def test_found_race_has_its_invariant_and_strategy() -> None:
    case = Case(DEFECTS["R5"].directed()[0], (), "pct", 1)  # type: ignore[misc]
    violation = Violation("deposed-write-nothing", 5, "/x", "text")
    row = RaceRow.from_search("R5", RaceSearchResult(7, 1, 2.04, case, violation), None)
    assert line(row) == "| R5 | yes | deposed-write-nothing | pct | 7 | 2.0 |  | 1 |  |  |"


def test_table_of_a_page_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Races\n\n| race | found |\n|---|---|\n| R1 | yes |\n\n- more\n")
    write_table(page, [RaceRow.from_search("R5", RaceSearchResult(runs=40, seconds=60), None)])
    text = page.read_text()
    assert text.startswith("# Races\n\n| race | found | invariant |")
    assert text.endswith("|\n| R5 | no |  |  | 40 | 60.0 |  | 0 |  |  |\n\n- more\n")
