"""The incidents execute the procedures and rules of the core, so that a comparison sees changes."""

import sys
from typing import Final

import pytest

from replay.diff.core_source import CoreSource, read_core
from replay.diff.logs import opened
from replay.diff.messages import FoldLog
from replay.diff.processes import VersionProcess
from replay.diff.references import Version
from replay.diff.uncovered import changes_between, uncovered
from replay.diff.version.executed_lines import CORE
from tests.replay.diff.versions import INCIDENTS, ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

NOT_EXECUTED: Final = {
    "no incident contains this request of an administrator or broker": (
        "deviations.py:CREATIONS_TOGETHER",
        "deviations.py:EMPTY_ASSIGNMENT_REFUSED",
        "deviations.py:VALIDATE_ONLY_CHANGES_NOTHING",
        "procedures/admin/features.py:_RULE",
        "procedures/admin/features.py:process_update_features",
        "procedures/admin/producer_ids.py:_RULE",
        "procedures/admin/producer_ids.py:process_allocate_producer_ids",
        "procedures/admin/scram_credentials.py:_RULE",
        "procedures/admin/scram_credentials.py:process_alter_scram_credentials",
        "procedures/elections/replica_election.py:process_election_znode",
    ),
    "every incident ends before the first automatic leader rebalance": (
        "election.py:by_preferred_replica",
        "election.py:imbalanced",
        "procedures/elections/rebalance.py:process_rebalance",
    ),
    "no broker of an incident loses a log directory": (
        "procedures/znode_changes/log_dirs.py:_RULE",
        "procedures/znode_changes/log_dirs.py:process_leader_and_isr_response",
        "procedures/znode_changes/log_dirs.py:process_log_dir_events",
    ),
    "no election of an incident meets this state": (
        "deviations.py:LEADERLESS_REPORTED",
        "election.py:NOT_ORIGINAL",
        "election.py:REMAINING",
    ),
    "no znode of an incident is unreadable, and no two requests name the same partition": (
        "deviations.py:UNREADABLE_REQUEST_KEPT",
        "procedures/reassignment_znodes/cancel_znode.py:report_waiting",
        "procedures/reassignment/legacy_znode.py:report_repeated",
        "procedures/reassignment_znodes/records.py:write_with_record",
        "procedures/reassignment/submission.py:refuse_by_other_route",
        "procedures/topics/topics.py:refuse_added_partitions",
    ),
    "no failover or state change of an incident fails": (
        "deviations.py:BATCH_BEGINS_EMPTY",
        "deviations.py:FAILOVER_BACK_OFF",
    ),
    "only refold agree calls it": ("procedures/elections/alter_partition.py:accepted",),
}
"""The code that no incident executes, by reason."""


def is_procedure_or_rule(file: str, name: str) -> bool:
    """Whether this is a public function of the procedures or elections, a strategy of an election,
    a deviation, or the name of a rule."""
    is_public_function = name[0].islower()
    if file.startswith("procedures/"):
        return is_public_function or (name.isupper() and "RULE" in name)
    if file == "election.py":
        return is_public_function or (name.isupper() and name[0] != "_")
    return file == "deviations.py" and name.isupper()


def test_every_procedure_and_rule_is_executed_by_an_incident() -> None:
    source = read_core(CORE)
    executed: dict[str, set[int]] = {}
    version = Version("this version", ROOT, sys.executable)
    with opened([INCIDENTS]) as logs, VersionProcess(version) as process:
        for log in logs:
            folded = process.fold(FoldLog(str(log.path), with_executed=True)).folded
            for file, lines in (folded.executed or {}).items():
                executed.setdefault(file, set()).update(lines)
    everything = changes_between(CoreSource((), ()), source)
    lines_of = {file: frozenset(lines) for file, lines in executed.items()}
    missing = {
        f"{one.file}:{one.name}"
        for one in uncovered(everything, source, {}, lines_of)
        if not one.lines and is_procedure_or_rule(one.file, one.name)
    }
    exceptions = {name for names in NOT_EXECUTED.values() for name in names}
    assert sorted(missing - exceptions) == []
    assert sorted(exceptions - missing) == [], "executed now: remove these from NOT_EXECUTED"
