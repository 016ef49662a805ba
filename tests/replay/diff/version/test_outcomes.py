"""A version measures the outcomes of conditions while it folds a log."""

import sys

import pytest

from replay.diff.conditions import FALSE, TRUE, Place
from replay.diff.core_source import read_core
from replay.diff.logs import open_logs
from replay.diff.messages import FoldLog
from replay.diff.processes import VersionProcess
from replay.diff.references import Version
from replay.diff.version.executed_lines import CORE
from tests.replay.diff.versions import INCIDENTS, ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def conditions() -> dict[str, dict[Place, str]]:
    """All conditions of the core, by file: the function and the code of each."""
    found: dict[str, dict[Place, str]] = {}
    for function in read_core(CORE).functions:
        for one in (one for part in function.statements for one in part.conditions):
            found.setdefault(function.file, {})[one.place] = f"{function.name}: {one.text}"
    return found


@pytest.mark.long
def test_every_condition_of_the_core_is_measured_without_other_decisions() -> None:
    version = Version("this version", ROOT, sys.executable)
    known = conditions()
    asked = {file: list(of_file) for file, of_file in known.items()}
    with (
        open_logs([INCIDENTS / "unclean-election"]) as [log],
        VersionProcess(version) as plain,
        VersionProcess(version) as measuring,
    ):
        expected = plain.fold(FoldLog(str(log.path)))
        request = FoldLog(str(log.path), conditions=asked)
        results = [measuring.fold(request), measuring.fold(request)]
    assert expected.folded.outcomes == {}
    assert [one.decisions for one in results] == [expected.decisions] * 2
    outcomes = results[0].folded.outcomes
    assert outcomes is not None
    again = results[1].folded.outcomes
    assert again is not None
    assert again["election.py"] == outcomes["election.py"]
    by_text = {
        text: outcome
        for file, of_file in known.items()
        for text, outcome in zip(of_file.values(), outcomes[file], strict=True)
    }
    # One partition keeps a replica in sync, one has an unclean election, and none is deleted.
    assert by_text["offline_partition_leader: leader != NO_LEADER"] == TRUE | FALSE
    assert by_text["offline_partition_leader: allow_unclean"] == TRUE | FALSE
    assert by_text["_delete_znodes: errors[-1] == NOT_EMPTY"] == 0
    assert by_text["next_state: has_recovery_state"] == TRUE
    assert by_text["_take_role: any(errors)"] == FALSE
