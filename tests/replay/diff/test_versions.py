"""Each deliberate change of the code, which long tests need, fits this version of the code."""

import pytest

from tests.replay.diff import test_coverage, versions
from tests.replay.diff.versions import ROOT, Edit
from tests.replay.fleet.replaying import logs

EDITS = {
    f"{module.__name__}.{name}": value
    for module in (versions, test_coverage, logs)
    for name, value in vars(module).items()
    if isinstance(value, Edit)
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=list(EDITS))
def test_edit_finds_its_place_in_the_code(edit: Edit) -> None:
    assert (ROOT / edit.file).read_text(encoding="utf-8").count(edit.old) == 1
