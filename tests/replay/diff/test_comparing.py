"""Two versions are compared on real logs."""

import re
from pathlib import Path

import pytest

from replay.diff.comparing import Comparison, Group, Instance, compare
from replay.diff.grouping import DecisionDivergence, RootDivergence
from replay.diff.logs import open_logs
from replay.diff.references import Version, find_version
from replay.diff.reports import sentences
from tests.replay.diff import versions
from tests.replay.diff.versions import INCIDENTS, ROOT, Edit, changed

RECORDINGS = ROOT / "tests" / "recordings"
EACH_PROCEDURE = [
    INCIDENTS / one
    for one in (
        "admin-requests",
        "broker-crash-2.6",
        "cancellation-failover",
        "deletion-failover",
        "epoch-changed",
        "topics",
    )
]
"""Incidents that together execute the procedures that read or write many znodes."""
pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def diff(tmp_path: Path, edits: tuple[Edit, ...], *logs: Path) -> Comparison:
    """The comparison of this version with a changed one."""
    base = find_version(str(ROOT), ROOT, tmp_path / "cache")
    head = find_version(str(changed(tmp_path / "head", *edits)), ROOT, tmp_path / "cache")
    return compared(base, head, *logs)


def named(*incidents: str) -> list[Path]:
    return [INCIDENTS / one for one in incidents]


def compared(base: Version, head: Version, *logs: Path) -> Comparison:
    with open_logs(logs) as found:
        return compare(found, base, head, {}, lambda *_: None)


@pytest.mark.long
def test_same_version_decides_the_same_on_all_incidents(tmp_path: Path) -> None:
    found = diff(tmp_path, (), INCIDENTS, RECORDINGS / "chaos-5.tar.xz")
    assert not found.errors
    assert not found.groups
    assert len(found.logs) >= 30
    assert all(one.decisions for one in found.logs)
    assert {one.left_at for one in found.logs} == {(0, 0)}
    assert not found.nondeterminism


@pytest.mark.sampled
@pytest.mark.parametrize(
    "edits",
    [
        (versions.READS_TWICE, versions.WRITES_IN_PAIRS),
        (versions.READS_ONE_BY_ONE, versions.STATES_READ_TWICE, versions.WRITES_ONE_BY_ONE),
        (versions.READS_BEFORE_WRITING,),
    ],
)
def test_additional_reads_and_different_batches_are_no_difference(
    tmp_path: Path, edits: tuple[Edit, ...]
) -> None:
    found = diff(tmp_path, edits, *EACH_PROCEDURE)
    assert not found.errors
    assert found.groups == []
    assert any(one.left_at[1] for one in found.logs), "the versions do not differ"


@pytest.mark.long
def test_version_with_another_log_message_follows_the_log(tmp_path: Path) -> None:
    found = diff(tmp_path, (versions.OTHER_NOTICE,), versions.CRASH)
    assert (found.errors, found.groups) == ([], [])
    assert [one.left_at for one in found.logs] == [(0, 0)]


@pytest.mark.long
def test_topic_ids_drawn_later_are_those_of_the_log(tmp_path: Path) -> None:
    found = diff(tmp_path, (versions.DRAWS_LATE,), INCIDENTS / "topics")
    assert not found.errors
    roots = [one.root for group in found.groups for one in group.instances]
    differ = {one.target for root in roots for one in (root.first, *root.followers)}
    assert "late" in differ
    assert not {one for one in differ if one.startswith("/brokers/topics/") and one.count("/") == 3}


@pytest.mark.long
def test_reads_and_batches_are_no_difference_in_an_imported_log(tmp_path: Path) -> None:
    edits = (versions.READS_ONE_BY_ONE, versions.WRITES_IN_PAIRS)
    found = diff(tmp_path, edits, RECORDINGS / "topics-1.tar.xz")
    assert (found.errors, found.groups, found.nondeterminism) == ([], [], [])


@pytest.mark.long
@pytest.mark.parametrize(
    "log",
    [
        RECORDINGS / "topics-1.tar.xz",  # the order of a batch is that of a hash map
        RECORDINGS / "chaos-5.tar.xz",  # a batch of a deposed controller is fenced
        RECORDINGS / "controller-znode-delete-2.tar.xz",  # a batch is fenced in the middle
        RECORDINGS / "controller-70701.tar.xz",  # a controller is killed within a batch
    ],
    ids=lambda one: one.name,
)
def test_writes_one_by_one_are_no_difference_in_an_imported_log(tmp_path: Path, log: Path) -> None:
    logs = INCIDENTS / "stock-unclean-election", log
    found = diff(tmp_path, (versions.WRITES_ONE_BY_ONE,), *logs)
    assert (found.errors, found.groups, found.nondeterminism) == ([], [], [])


@pytest.mark.long
def test_changed_rule_that_also_writes_one_by_one_is_found_in_an_imported_log(
    tmp_path: Path,
) -> None:
    edits = (versions.WRITES_ONE_BY_ONE, versions.NEVER_UNCLEAN)
    found = diff(tmp_path, edits, INCIDENTS / "stock-unclean-election")
    assert any("unclean partition leader election" in sentences.title(one) for one in found.groups)


@pytest.mark.long
def test_deletes_one_by_one_are_no_difference_if_the_log_deletes_a_znode_twice(
    tmp_path: Path,
) -> None:
    """ZooKeeper refuses the first deletion of a topic that has unknown children."""
    found = diff(tmp_path, (versions.DELETES_ONE_BY_ONE,), INCIDENTS / "rare-requests")
    assert (found.errors, found.groups) == ([], [])


@pytest.mark.long
def test_request_that_is_processed_earlier_reads_what_the_log_read_for_it(tmp_path: Path) -> None:
    """No watch reports when another client changed /feature."""
    found = diff(tmp_path, (versions.SHRUNK_WITHOUT_EPOCH,), INCIDENTS / "admin-requests")
    assert found.groups
    assert {one.first.root.first.general_rule for one in found.groups} == {"remove N from ISR"}


@pytest.mark.long
def test_difference_that_comes_first_in_its_log_is_shown_before_its_consequences(
    tmp_path: Path,
) -> None:
    logs = named("added-partitions", "rare-requests", "topic-deletion")
    found = diff(tmp_path, (versions.FAILS_TO_DELETE,), *logs)
    causes = [one for one in found.groups if not one.is_later and not one.is_harmless]
    assert found.groups[: len(causes)] == causes
    assert len(found.groups) > len(causes)
    for result in found.logs:
        [first] = [one for one in result.instances if not one.is_later]
        assert first.root.first.place == min(one.root.first.place for one in result.instances)
        assert first.root.first.cause == "TopicDeletion"


def test_changed_rule_is_reported_with_its_first_divergence(tmp_path: Path) -> None:
    found = diff(tmp_path, (versions.LAST_OF_ISR,), *named("broker-crash", "broker-crash-2.6"))
    group = found.groups[0]
    assert sentences.title(group).startswith(
        "offline partition leader election: set decided differently"
    )
    first = group.first.root.first
    assert (first.cause, first.event) == ("BrokerChange", "znodes_read")
    assert [one.part for one in first.differences] == ["data.leader"]
    assert first.differences[0].base != first.differences[0].head
    assert any("passed over" in one for one in first.details)
    assert group.first.root.followers, "the requests to brokers do not differ"
    assert {Path(one).name for one in group.logs} >= {"broker-crash", "broker-crash-2.6"}
    assert any("ends with leader" in one for one in group.first.consequences)
    # The log's leader requested other ISRs than the leader of this version does.
    assert not any("ends with ISR" in one for one in group.first.consequences)


@pytest.mark.long
def test_longer_outage_is_a_consequence(tmp_path: Path) -> None:
    found = diff(tmp_path, (versions.NEVER_UNCLEAN,), *named("broker-crash", "unclean-election"))
    [group] = found.groups
    assert [Path(one).name for one in group.logs] == ["unclean-election"]
    assert group.first.root.first.head_rule != "unclean partition leader election"
    assert any("longer with head" in one for one in group.first.consequences)
    assert any("instead of leader" in one for one in group.first.consequences)
    assert sentences.assumptions(found)


@pytest.mark.long
def test_version_reads_only_its_writes_after_leaving_the_log(tmp_path: Path) -> None:
    log = INCIDENTS / "controlled-shutdown"
    found = diff(tmp_path, (versions.LAST_AT_SHUTDOWN,), log)
    # Later both elect the same leaders, although a partition had another leader in between.
    assert [sentences.title(one) for one in found.groups] == [
        "controlled shutdown leader election: set decided differently (leader)"
    ]
    [text] = sentences.outcome(found.groups[0].first)
    assert re.fullmatch(r"orders-0: led by 3 instead of 2 for 1\d\.\d s, then as before", text)


@pytest.mark.long
def test_unfinished_reassignment_is_a_consequence_of_a_request(tmp_path: Path) -> None:
    log = INCIDENTS / "reassignment-end"
    found = diff(tmp_path, (versions.NEVER_STORED,), log)
    [group, records, metadata] = found.groups
    assert group.first.root.first.target == "/brokers/topics/moved"
    assert group.partitions == [(str(log), "moved-0"), (str(log), "moved-1")]
    assert "moved-0, moved-1: its reassignment does not end with head" in group.first.consequences
    assert records.first.root.first.target == "/admin/reassignments/moved/0"
    # The pending deletion of the replica that head still assigns is decided otherwise.
    assert metadata.first.root.first.head_rule == "replica deletions"


@pytest.mark.long
def test_reordered_requests_have_their_partitions(tmp_path: Path) -> None:
    log = INCIDENTS / "unclean-election"
    found = diff(tmp_path, (versions.METADATA_FIRST,), log)
    [group] = [one for one in found.groups if "by request" in sentences.title(one)]
    assert sentences.title(group).endswith("leader_and_isr in another order")
    assert group.partitions == [(str(log), "orders-3")]
    assert group.first.root.may_matter is False


@pytest.mark.long
def test_unfinished_reassignment_is_a_consequence(tmp_path: Path) -> None:
    never_complete = ("extra-conflict", "legacy-request", "reassignment-end")
    found = diff(tmp_path, (versions.NEVER_COMPLETE,), *named("cancellation", *never_complete))
    differing = [one for group in found.groups for one in group.instances if one.root.may_matter]
    assert {Path(one.log).name for one in differing} == set(never_complete)
    texts = [text for group in found.groups for one in group.instances for text in one.consequences]
    assert "moved-0, moved-1: its reassignment does not end with head" in texts
    assert "moved-1: its reassignment does not end with head" in texts


def test_partition_counts_once_in_a_log() -> None:
    root = RootDivergence(
        DecisionDivergence("new", "set", "/a", "", "a rule", 1, 0, "", "", partitions=("t-0",))
    )
    instances = [Instance(log, root, []) for log in ("a", "a", "b")]
    assert Group("12345678", (), instances).partitions == [("a", "t-0"), ("b", "t-0")]


@pytest.mark.long
def test_request_that_is_no_longer_sent_is_missing(tmp_path: Path) -> None:
    found = diff(tmp_path, (versions.NO_METADATA_TO_OTHERS,), versions.CRASH)
    [group] = found.groups
    first = group.first.root.first
    assert (first.what, first.kind, first.base_rule) == (
        "missing",
        "update_metadata",
        "broker start-up",
    )


def test_changed_rule_is_found_in_an_incident_of_a_stock_controller(tmp_path: Path) -> None:
    found = diff(tmp_path, (versions.NEVER_UNCLEAN,), INCIDENTS / "stock-unclean-election")
    assert not found.errors
    assert any("unclean partition leader election" in sentences.title(one) for one in found.groups)


@pytest.mark.long
def test_rule_that_raises_is_reported_with_its_error(tmp_path: Path) -> None:
    """The controller drops the rest of the event, and continues."""
    found = diff(tmp_path, (versions.RAISES,), versions.CRASH)
    first = found.groups[0].first
    assert any(
        one.startswith("head failed: BrokerChange: RuntimeError at election.py:")
        for one in sentences.details(first)
    )


@pytest.mark.long
def test_failure_in_one_log_does_not_affect_the_others(tmp_path: Path) -> None:
    logs = [versions.CRASH, INCIDENTS / "unclean-election", INCIDENTS / "topics"]
    found = diff(tmp_path, (versions.FAILS_LATER,), *logs)
    [error] = found.errors
    assert "unclean-election" in error
    assert "KeyError" in error
    assert "fold.py, line" in error
    assert [bool(one.decisions) for one in found.logs] == [True, False, True]
