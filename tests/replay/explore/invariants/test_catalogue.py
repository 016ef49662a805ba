"""docs/invariants.md has exactly the invariants of the code, with their statements."""

import re
from pathlib import Path

from replay.explore.invariants.catalogue import ALWAYS, RECOVERY
from replay.explore.run import ENDS, NO_EXCEPTION

PAGE = Path(__file__).parents[4] / "docs" / "invariants.md"
_ROW = re.compile(r"^\| `([a-z-]+)` \| (.+?) \|(?: (\d+) s \|)?$", re.MULTILINE)


def _rows() -> dict[str, tuple[str, str]]:
    return {name: (text, within) for name, text, within in _ROW.findall(PAGE.read_text())}


def test_page_has_every_invariant_and_no_other() -> None:
    names = [one.NAME for one in (*ALWAYS, *RECOVERY)]
    assert list(_rows()) == [*names, NO_EXCEPTION, ENDS]


def test_page_has_the_statements_of_the_code() -> None:
    rows = _rows()
    for one in ALWAYS:
        assert rows[one.NAME] == (one.STATEMENT, "")
    for recovery in RECOVERY:
        within = str(recovery.WITHIN_MS // 1000)
        assert rows[recovery.NAME] == (recovery.STATEMENT, within)


def test_names_are_unique() -> None:
    names = [one.NAME for one in (*ALWAYS, *RECOVERY)]
    assert len(set(names)) == len(names)
