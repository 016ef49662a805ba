"""The incidents with a rollback guard the order of its seven steps (docs/kip-236.md)."""

from pathlib import Path

import pytest

from controller.core.procedures.reassignment import rollback
from replay.diff.references import find_version
from tests.replay.diff.test_comparing import compared
from tests.replay.diff.versions import INCIDENTS, ROOT, changed, rewrite

ROLLBACKS = [
    INCIDENTS / name
    for name in (
        "bounced-broker",
        "cancellation",
        "cancellation-failover",
        "extra-conflict",
        "legacy-request",
        "shutdown-reassignment",
    )
]
STEPS = len(rollback.STEPS)

pytestmark = pytest.mark.timeout(240)


def with_steps_swapped(folder: Path, first: int) -> Path:
    """This version with two successive steps of the rollback swapped."""
    order = list(range(STEPS))
    order[first - 1 : first + 1] = order[first], order[first - 1]
    code = changed(folder)
    module = code / Path(rollback.__file__).relative_to(ROOT)
    swapped = f"\nSTEPS = tuple(STEPS[place] for place in {order})\n"
    rewrite(module, module.read_text(encoding="utf-8") + swapped)
    return code


@pytest.mark.long
@pytest.mark.parametrize("first", range(1, STEPS))
def test_two_swapped_steps_of_a_rollback_are_reported_in_every_incident(
    tmp_path: Path, first: int
) -> None:
    base = find_version(str(ROOT), ROOT, tmp_path / "cache")
    head = find_version(str(with_steps_swapped(tmp_path / "head", first)), ROOT, tmp_path / "cache")
    found = compared(base, head, *ROLLBACKS)
    assert not found.errors
    reported = {Path(log).name for group in found.unaccepted() for log in group.logs}
    assert reported == {one.name for one in ROLLBACKS}
