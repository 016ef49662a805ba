"""Incidents of stock clusters: the fold decides as Kafka's controllers did, and sends the same
requests to brokers."""

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from eventstore.errors import LogError
from eventstore.writer import LogWriter
from replay.agreement.comparison import agree, temporary_import
from replay.agreement.results import AgreementResult
from replay.errors import ReplayError
from replay.stock_clusters.imports.importing import Selection, import_source
from tests.eventstore.samples import event, header
from tools.agreement.fewer_logs import LEFT_OUT, copy_with_fewer_logs

Get = Callable[[str], Path]

COUNTS = {
    "broker-crash-2": (132, 147, "3.9-IV0"),
    "chaos-5": (336, 813, "2.6"),
    "reassign-cancel-6": (147, 701, "3.9-IV0"),
    "topics-1": (365, 202, "2.6"),
}
"""Decisions, requests to brokers, and inter.broker.protocol.version."""


def diverging(result: AgreementResult) -> list[str]:
    return [
        f"{one.verdict} {one.kind} at {one.seq}: {' '.join(one.paths)} {' '.join(one.differences)}"
        for one in result.divergences
    ]


def test_recording_agrees_without_explanations(recording: str, log_of: Get) -> None:
    result = agree(log_of(recording))
    assert diverging(result) == []
    assert result.agrees
    assert result.explained == result.requests.explained == []
    assert (result.agreed, result.requests.agreed) == COUNTS[recording][:2]
    assert (result.decisions, result.requests.decisions) == (result.agreed, result.requests.agreed)
    assert (result.warm, result.inputs) == (0, 0)
    assert result.notes == ["starts from zookeeper/version-2/snapshot.0"]


def test_settings_are_inferred_from_the_log(recording: str, log_of: Get) -> None:
    assert agree(log_of(recording)).settings == {
        "inter.broker.protocol.version": COUNTS[recording][2],
        "delete.topic.enable": "true",
    }


def test_every_kind_of_decision_and_request_is_counted(log_of: Get) -> None:
    result = agree(log_of("chaos-5"))
    kinds = {kind: one.agreed for kind, one in result.by_kind.items()}
    assert sum(kinds.values()) == result.agreed
    assert kinds["election"] == 10
    assert {"assignment", "topic_deletion", "reassign_partitions", "notification"} <= kinds.keys()
    requests = {kind: one.agreed for kind, one in result.requests.by_kind.items()}
    assert sum(requests.values()) == result.requests.agreed
    assert requests.keys() == {"LeaderAndIsr", "UpdateMetadata", "StopReplica"}
    for side in (result, result.requests):
        assert sum(one.agreed for one in side.by_rule.values()) == side.agreed
    assert result.by_rule["reassignment: store the assignment"].agreed > 30
    assert result.requests.by_rule["reassignment"].agreed > 400


@pytest.mark.long
@pytest.mark.parametrize(
    ("recording", "kind"),
    [
        *((one, kind) for one in COUNTS for kind in LEFT_OUT if kind != "all"),
        # An ISR notification about a topic that is deleted.
        ("topics-70705", "all"),
        # A deposed controller does not process events that follow its deposition.
        ("controller-70701", "all"),
        # A broker's response arrives later than assumed; a request is not completed; an event that
        # was begun had not been processed yet.
        ("chaos-70702", "all"),
        # A broker registers while the first failover continues.
        ("registrations-70703", "all"),
        # A controller that ends does not answer all requests that it received.
        ("chaos-80101", "all"),
        # A leader writes its ISR while a failover reads it.
        ("zookeeper-80105", "all"),
        # A leader writes its ISR between two reads of a failover.
        ("restarts-80110", "all"),
        # A topic is created between two reads of a failover; a controller is killed before it logs
        # an event that it has begun.
        ("controller-91008", "all"),
        # A deletion that ends at its first line: it has no replica to delete.
        ("log-dirs-91010", "all"),
        # Responses in the request log name failed log directories; a line shows when they were
        # sent.
        ("log-dirs-91010", "no state-change.log"),
        # A request with a partition's current replicas only raises its leader epoch.
        ("chaos-424242", "no request log"),
        # /admin/reassign_partitions is deleted between being read and being written.
        ("pauses-515154", "all"),
        # Partitions are moved to no replica by hand: every later failover fails.
        ("chaos-9120556", "all"),
        # A request without an effect was answered before another one was written.
        ("reassignments-6019352", "all"),
        # Lines of the same ms precede a write, even if pending events leave no line; a request that
        # seems to have arrived is processed later.
        ("reassignments-912302", "all"),
        # A controller is paused in the middle of its failover: the reply to a write is lost.
        ("zookeeper-931204", "all"),
        # A failover fails after its role is lost: the next failover of that broker finds the open
        # channels of the first one, and fails as well.
        ("controller-941005", "all"),
        # An election by znode waits for its line while another event is in progress.
        ("chaos-7310062", "all"),
        # The line of an AlterPartition is after its write; another AlterPartition sends nothing.
        ("pauses-515154", "no request log"),
        # /admin/reassign_partitions is deleted by hand before the line of its request.
        ("log-dirs-20261106", "all"),
        # A request seems to have arrived after the write that it caused.
        ("reassignments-20261102", "no controller.log"),
        # A paused broker answers requests that its process received before it registered again.
        ("pauses-20261104", "no state-change.log"),
        # One broker registers before a controller reads the brokers, and another one after that.
        ("controller-20261103", "no controller.log"),
        # One request for partitions that keep their replicas, and for others, while
        # /admin/reassign_partitions exists.
        ("shadow-1", "all"),
        ("shadow-1", "none"),
        # A reassigned partition without a leader is requested again.
        ("shadow-5", "all"),
        ("shadow-5", "none"),
        # A partition keeps its replicas, and none of them can be leader; a request replaces an
        # entry of /admin/reassign_partitions after it repeats another reassignment.
        ("shadow-6", "all"),
        ("shadow-6", "none"),
        # A broker repeats its controlled shutdown, and at level INFO no log has the partitions.
        ("shadow-6", "state-change.log only"),
        # A process of 2.7 among others; writes show the end of a topic's deletion.
        ("registrations-70703", "level INFO, no request log"),
    ],
)
def test_recording_with_fewer_logs_agrees(
    kind: str, recording: str, folder_of: Get, tmp_path: Path
) -> None:
    """Missing requests are inferred, and do not count as decisions."""
    copy_with_fewer_logs(folder_of(recording), tmp_path / "source", kind)
    import_source(tmp_path / "source", tmp_path / "log", Selection())
    result = agree(tmp_path / "log")
    assert diverging(result) == []
    assert result.explained == []
    assert result.agreed == result.decisions
    requests = result.requests
    assert requests.agreed == requests.decisions
    assert result.unjudged == 0
    if kind == "none" and recording in COUNTS:
        assert result.decisions + result.inputs == COUNTS[recording][0]
        assert requests.decisions == 0


def test_lost_reply_is_reported(log_of: Get) -> None:
    """Kafka repeats a write without a reply, and is refused: nothing else shows the lost reply."""
    notes = agree(log_of("zookeeper-931204")).notes
    assert [one for one in notes if "lost" in one] == [
        "zxid 0x279: its reply was lost, as the same write comes again and is refused"
    ]


def test_role_deleted_by_hand_during_a_resignation_agrees(log_of: Get) -> None:
    """A failover fails; /controller is deleted by hand before the controller deletes it."""
    result = agree(log_of("chaos-9120556-later"))
    assert diverging(result) == []
    assert (result.agreed, result.warm) == (72, 7)
    assert result.by_kind["fenced"].agreed == 1


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("recording", "kind", "explained"),
    [
        # Brokers register while the first failover, and the next broker change, read the brokers.
        ("registrations-70703", "no controller.log", 2),
        ("zookeeper-80105", "no controller.log", 1),
        # A topic is created while a failover reads the topics.
        ("zk-session-expiry-1", "none", 1),
        # A broker's response arrives later than assumed.
        ("chaos-424242", "level INFO, no request log", 1),
        # A broker logs its response after its consequences; brokers register during a failover.
        ("pauses-515154", "request log only", 2),
    ],
)
def test_race_that_no_log_shows_is_explained(
    recording: str, kind: str, explained: int, folder_of: Get, tmp_path: Path
) -> None:
    copy_with_fewer_logs(folder_of(recording), tmp_path / "source", kind)
    import_source(tmp_path / "source", tmp_path / "log", Selection())
    result = agree(tmp_path / "log")
    assert [one.explained for one in result.divergences] == ["either-order"] * explained
    assert result.agrees
    counts = (result, result.requests)
    assert sum(side.differs + side.missing + side.extra for side in counts) == explained
    assert all(side.decisions == side.agreed + side.differs + side.missing for side in counts)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("broker", "missing_logs"),
    [
        # An AlterPartition that is not completed, and partitions that are judged in spite of it.
        ("broker-1", ()),
        # Controlled shutdown is requested more than once.
        ("broker-1", ("controller.log", "state-change.log")),
        # Some of the deleted replicas belong to reassigned partitions.
        ("broker-4", ("state-change.log",)),
    ],
)
def test_single_missing_request_log_is_reported(
    broker: str, missing_logs: tuple[str, ...], folder_of: Get, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    shutil.copytree(folder_of("chaos-4"), source)
    (source / "logs" / broker / "control-requests.log").unlink()
    for path in source.glob("logs/*/*"):
        if path.name in missing_logs:
            path.unlink()
    import_source(source, tmp_path / "log", Selection())
    result = agree(tmp_path / "log")
    assert diverging(result) == []
    number = broker.partition("-")[2]
    assert [one for one in result.notes if "request log" in one] == [
        f"broker {number} was controller and has no request log, but other brokers have: its"
        " requests are inferred"
    ]


@pytest.mark.long
def test_whole_history_is_judged_without_an_empty_snapshot(
    folder_of: Get, log_of: Get, tmp_path: Path
) -> None:
    """A ZooKeeper server of 3.4 leaves such a folder: its first snapshot is of a later state."""
    source = tmp_path / "source"
    shutil.copytree(folder_of("chaos-4"), source)
    (source / "zookeeper" / "version-2" / "snapshot.0").unlink()
    import_source(source, tmp_path / "log", Selection())
    result = agree(tmp_path / "log")
    whole = agree(log_of("chaos-4"))
    assert (result.decisions, result.warm) == (whole.decisions, whole.warm)
    assert result.decisions > 900
    assert result.agrees


def test_comparison_changes_no_file_and_is_repeatable(log_of: Get) -> None:
    log = log_of("broker-crash-2")
    before = {path.name: path.read_bytes() for path in log.iterdir()}
    assert agree(log) == agree(log)
    assert {path.name: path.read_bytes() for path in log.iterdir()} == before


def test_source_has_the_same_result_as_its_imported_log(folder_of: Get, log_of: Get) -> None:
    with temporary_import(folder_of("broker-crash-2"), Selection(), lambda *_: None) as log:
        found = agree(log)
    assert not log.exists()
    found.source = str(log_of("broker-crash-2"))
    assert found == agree(log_of("broker-crash-2"))


def test_refolds_rules_agree_with_recordings_without_deviations(log_of: Get) -> None:
    """Recordings without a decision by a deviation agree."""
    assert agree(log_of("broker-crash-2"), "refold").decisions == 132
    assert agree(log_of("topics-1"), "refold").decisions == 365


def test_specified_settings_change_the_result(log_of: Get) -> None:
    """Below 2.7 LeaderAndIsr has another version, and /feature is not written."""
    older = agree(log_of("broker-crash-2"), settings={"inter.broker.protocol.version": "2.6"})
    assert not older.agrees
    assert older.settings["inter.broker.protocol.version"] == "2.6"
    kinds = {one.kind for one in older.divergences}
    assert {"feature", "LeaderAndIsr"} <= kinds
    unclean = {"unclean.leader.election.enable": "true"}
    found = agree(log_of("broker-crash-2"), settings=unclean)
    assert not found.agrees
    assert any("leader" in text for one in found.divergences for text in one.differences)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"log.dirs": "/x"}, "log.dirs does not affect decisions"),
        ({"inter.broker.protocol.version": "9.9"}, "settings cannot be used: .*9.9"),
        (
            {"leader.imbalance.per.broker.percentage": "many"},
            "leader.imbalance.per.broker.percentage=many: the value must be a whole",
        ),
        ({"delete.topic.enable": "perhaps"}, "enable=perhaps: the value must be true or false"),
    ],
)
def test_invalid_settings_are_rejected(settings: dict[str, str], text: str, log_of: Get) -> None:
    with pytest.raises(ReplayError, match=text):
        agree(log_of("broker-crash-2"), settings=settings)


def test_log_of_a_broker_of_the_0_8_design_is_refused(tmp_path: Path) -> None:
    settings = {"design": "0.8", "broker_id": 2}
    of_broker = msgspec.structs.replace(header(), configuration=settings)
    with LogWriter.create(tmp_path / "log", of_broker) as writer:
        writer.append([event(1)])
    with pytest.raises(ReplayError, match=r"a log of broker 2 of the 0\.8 design, not an imported"):
        agree(tmp_path / "log")


def test_recorded_log_of_refold_is_refused(tmp_path: Path) -> None:
    with LogWriter.create(tmp_path / "log", header()) as writer:
        writer.append([event(1)])
    with pytest.raises(ReplayError, match="is a recorded log of refold's controller"):
        agree(tmp_path / "log")
    with pytest.raises(LogError):
        agree(tmp_path / "nothing")
