"""All rules of `refold check --migration`, in the order of the table in docs/migration.md."""

from collections.abc import Callable, Iterator
from typing import Final

from replay.migration import broker_rules, role_rules, work_rules
from replay.migration.findings import MigratingCluster, MigrationFinding

Rule = Callable[[MigratingCluster], Iterator[MigrationFinding]]

RULES: Final[tuple[Rule, ...]] = (
    role_rules.check_controller,
    role_rules.check_migration,
    role_rules.check_epoch,
    role_rules.check_partition_epochs,
    work_rules.check_reassignments,
    work_rules.check_deletions,
    work_rules.check_offline,
    work_rules.check_registered,
    work_rules.check_readable,
    broker_rules.check_answers,
    broker_rules.check_mode,
    broker_rules.check_quorum,
    broker_rules.check_obstacles,
    broker_rules.check_releases,
    broker_rules.check_protocol,
)


def findings_of(subject: MigratingCluster) -> list[MigrationFinding]:
    """The findings of all rules; an `ok` where a rule has nothing to object to."""
    found = [finding for rule in RULES for finding in rule(subject)]
    if subject.view is None:
        text = "the log of a daemon does not have /controller and /migration"
        advice = "check the live cluster, or the data folder of its ZooKeeper"
        found.append(MigrationFinding(check="znodes", level="warning", text=text, advice=advice))
    return found
