"""The consequences of a different decision in an imported log: a version continues by itself."""

import json
from pathlib import Path

import pytest

from eventstore.filters import EventFilter
from replay.diff.comparing import Comparison, Instance
from replay.diff.grouping import DecisionDivergence, RootDivergence
from replay.diff.logs import open_logs
from replay.diff.messages import FoldedLog
from replay.diff.reports import sentences
from replay.diff.reports.as_json import as_json
from replay.diff.version import assumptions
from replay.diff.version.decisions import DecisionRecorder
from replay.diff.version.fold_recorder import FoldRecorder, TimelineRecorder
from replay.diff.version.folding import fold_log
from replay.incidents.incident_folder import incident_log
from replay.inspect.at import cluster_at
from replay.logs.open_log import open_log, open_reader
from replay.stock_clusters.imported_log.encoding import event_of
from replay.stock_clusters.imported_log.events import DecisionObserved
from tests.replay.diff import versions
from tests.replay.diff.test_comparing import INCIDENTS, RECORDINGS, diff

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

End = dict[tuple[str, int], tuple[int, list[int]]]
"""By partition, its leader and its ISR."""


def end_of_log(log: Path) -> tuple[End, int]:
    """The leaders and ISRs at the end of the log, and the record of the first election."""
    with open_log(log) as whole:
        cluster = cluster_at(whole, whole.reader.last_seq)
        observed = whole.reader.events(EventFilter(kinds=("observed",)))
        first = next(one.cause for one in observed if _is_election(event_of(one)))
    partitions = [one for topic in cluster.topics for one in topic.partitions if one.isr]
    ends = {(one.topic, one.partition): (one.leader, sorted(one.isr)) for one in partitions}
    return ends, first or 0


def _is_election(event: object) -> bool:
    return isinstance(event, DecisionObserved) and event.what == "election" and not event.error


def continued(log: Path, partitions: End, since: int) -> tuple[End, FoldedLog]:
    """The leaders and ISRs at the end with this version as controller from `since` on."""
    recorder = FoldRecorder(DecisionRecorder(), TimelineRecorder(list(partitions)))
    with open_reader(log) as reader:
        folded = fold_log(reader, recorder, since=since)
    last = {(one.topic, one.partition): one.samples[-1] for one in folded.timelines if one.samples}
    return {name: (one.leader, sorted(one.isr)) for name, one in last.items()}, folded


@pytest.mark.long
@pytest.mark.parametrize(
    "recording",
    [
        "broker-crash-2",  # leaders are rebalanced
        "unclean-3",  # leaders write the ISR themselves; below a chroot
        "zk-session-expiry-1",  # a controller is killed before it loses its session
        "topics-1",  # topics are deleted
        "controller-failover-8",  # six terms
        "controller-70701",  # thirteen terms
        "rolling-restart-4",
        "reassign-cancel-6",
    ],
)
def test_version_that_decides_as_kafka_has_the_end_of_the_log(recording: str) -> None:
    with open_logs([RECORDINGS / f"{recording}.tar.xz"]) as [log]:
        in_log, first = end_of_log(log.path)
        end, folded = continued(log.path, in_log, first)
    assert len(end) >= 10
    assert end == in_log
    assert folded.left_at == first
    assert not folded.is_shadow


def test_version_continues_through_the_term_of_a_kraft_controller() -> None:
    """No version has its role. The log begins with the term of a broker."""
    with incident_log(INCIDENTS / "migration-left") as log:
        in_log, first = end_of_log(Path(log))
        end, folded = continued(Path(log), in_log, first)
    assert folded.left_at == first
    assert end.keys() == in_log.keys()
    assert end["moved", 0] == in_log["moved", 0]


def test_same_request_to_a_broker_has_the_answer_of_the_log() -> None:
    with open_logs([RECORDINGS / "rolling-restart-4.tar.xz"]) as [log]:
        in_log, first = end_of_log(log.path)
        _, folded = continued(log.path, in_log, first)
    assert folded.assumptions == {assumptions.SIMULATED_CLUSTER: 1}


def of_partition(found: Comparison, name: str) -> list[Instance]:
    """The divergences of a partition."""
    every = [one for group in found.groups for one in group.instances]
    return [one for one in every if name in one.root.partitions]


@pytest.mark.long
def test_different_leader_leads_until_its_broker_crashes(tmp_path: Path) -> None:
    # Broker 1 leaves at second 8.206. The log's next leader is 3; with head it is 2, which is also
    # the controller, and leaves at 17.206.
    found = diff(tmp_path, (versions.LAST_OF_ISR,), RECORDINGS / "broker-crash-2.tar.xz")
    assert not found.errors
    [first] = of_partition(found, "wide-03-0")
    assert first.consequences == ["wide-03-0: led by 2 instead of 3 for 9.0 s, then as before"]
    assert any("come from a simulated cluster" in one for one in sentences.assumptions(found))
    [[shown, *_], *_] = [one["instances"] for one in json.loads(as_json(found, []))["groups"]]
    assert shown["consequences"] == first.consequences


@pytest.mark.long
def test_longer_outage_without_an_unclean_election_is_a_consequence(tmp_path: Path) -> None:
    # Broker 1, the last replica in sync, leaves at second 23.206. Broker 2 starts at 25.613 and
    # leads in the log. Broker 1 starts at 33.642, when another broker is already controller.
    found = diff(tmp_path, (versions.NEVER_UNCLEAN,), RECORDINGS / "unclean-3.tar.xz")
    [first] = of_partition(found, "yes-01-0")
    names = "yes-01-0, yes-01-1, yes-01-2"
    assert first.consequences == [
        f"{names}: offline 8.0 s longer with head (2.4 s with base, 10.4 s with head)",
        f"{names}: ends with leader 1 instead of leader 2",
    ]


@pytest.mark.long
def test_missing_leader_at_the_end_is_a_consequence(tmp_path: Path) -> None:
    found = diff(tmp_path, (versions.NEVER_UNCLEAN,), INCIDENTS / "stock-unclean-election")
    first = of_partition(found, "yes-01-0")[0]
    assert "yes-01-0, yes-01-1, yes-01-2: ends with no leader instead of leader 2" in (
        first.consequences
    )


@pytest.mark.long
def test_reassignment_that_does_not_end_is_a_consequence(tmp_path: Path) -> None:
    found = diff(tmp_path, (versions.NEVER_COMPLETE,), RECORDINGS / "reassign-5.tar.xz")
    texts = [text for one in of_partition(found, "t-03-6") for text in one.consequences]
    assert "t-03-6: its reassignment does not end with head" in texts
    assert "t-03-6: ends on brokers 4,2,1 instead of 4,2" in texts


def test_consequences_are_unknown_without_a_continuation() -> None:
    root = RootDivergence(
        DecisionDivergence("new", "set", "/a", "", "a rule", 1, 0, "", "", partitions=("t-0",))
    )
    instance = Instance("a log", root, [], is_shadow=True)
    assert "unknown" in sentences.outcome(instance)[0]
