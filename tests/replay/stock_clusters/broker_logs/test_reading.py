"""Lines of brokers' logs in log4j's layout become typed events; other lines are reported."""

import bz2
import gzip
import json
import lzma
import zipfile
from collections.abc import Callable, Sequence
from datetime import UTC
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from replay.stock_clusters.broker_logs.controller_log import (
    broker_shutting_down,
    is_end_of_take_over,
)
from replay.stock_clusters.broker_logs.reading import BrokerLogs
from replay.stock_clusters.broker_logs.state_change_log import offline_replicas
from replay.stock_clusters.imported_log.events import (
    ControllerLogged,
    LoggedEvent,
    RequestServed,
    StateChangeLogged,
)
from replay.stock_clusters.zookeeper_log.data_folder import BrokerLogFile, broker_log_kind

CONTROLLER = " (kafka.controller.KafkaController)"
STATE_CHANGE = " (state.change.logger)"
REQUEST = " (kafka.request.logger)"
AT_MS = 1_795_223_005_566


def line(text: str, second: float = 25.566, level: str = "INFO") -> str:
    return f"[2026-11-21 01:03:{second:06.3f}".replace(".", ",") + f"] {level} {text}"


def completed(api: str = "ALTER_PARTITION", **changes: object) -> str:
    header = {
        "requestApiKey": 56,
        "requestApiVersion": 3,
        "correlationId": 80,
        "clientId": "3",
        "requestApiKeyName": api,
    }
    content = {
        "isForwarded": False,
        "requestHeader": header,
        "request": {"brokerId": 3, "topics": []},
        "response": {"errorCode": 0},
        "connection": "127.0.0.1:19401-127.0.0.1:50596-4",
        "totalTimeMs": 1311.069,
    }
    return f"Completed request:{json.dumps(content | changes, separators=(',', ':'))}{REQUEST}"


def logs(folder: Path, *files: tuple[str, Sequence[str]]) -> list[BrokerLogFile]:
    found = []
    for name, lines in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{one}\n" for one in lines))
        found.append(BrokerLogFile(broker_log_kind(path.name) or "", name, path))
    return found


def read(folder: Path, *files: tuple[str, Sequence[str]]) -> tuple[list[LoggedEvent], list[str]]:
    reader = BrokerLogs(logs(folder, *files), UTC)
    return list(reader.events()), reader.notes


@pytest.mark.parametrize(
    ("text", "event"),
    [
        ("1 successfully elected as the controller. Epoch incremented to 3 and ...", "Elected"),
        ("Broker 3 has been elected as the controller, so stopping ...", "NotElected"),
        ("Broker 2 was elected as controller instead of broker 1", "NotElected"),
        ("Resigning", "Resignation"),
        ("Newly added brokers: 1, deleted brokers: , bounced brokers: , ...", "BrokerChange"),
        ("New topics: [Set(t)], deleted topics: [HashSet()], ...", "TopicChange"),
        ("New partitions to be added Map(t-1 -> ...)", "PartitionModifications"),
        ("Delete topics listener fired for topics t to be deleted", "TopicDeletion"),
        ("Shutting down broker 2", "ControlledShutdown"),
        ("Updating ISRs for partitions: Set(t-0).", "AlterPartitionReceived"),
        ("Sending MetadataRequest to Brokers: List(1) for ...", "IsrChangeNotification"),
        ("Starting replica leader election (PREFERRED) for ...", "ReplicaLeaderElection"),
        ("Handling log directory failure for brokers 1", "LogDirEventNotification"),
        ("Updated leader epoch for partition t-0 to 3, zkVersion=5", ""),
    ],
)
def test_line_of_the_controller_has_its_event(tmp_path: Path, text: str, event: str) -> None:
    [found], notes = read(
        tmp_path, ("controller.log", [line(f"[Controller id=1] {text}{CONTROLLER}")])
    )
    assert found.time_ms == AT_MS
    assert found.channel == "broker 1 controller.log"
    assert found.event == ControllerLogged(1, event, f"[Controller id=1] {text}")
    assert notes == []


@pytest.mark.parametrize("level", ["INFO", "INFO ", "WARN ", "TRACE"])
def test_level_may_be_padded(tmp_path: Path, level: str) -> None:
    """As by `%-5p`, which many set-ups of log4j have."""
    text = "[Controller id=1] Resigning"
    [found], notes = read(tmp_path, ("controller.log", [line(text + CONTROLLER, level=level)]))
    assert found.event == ControllerLogged(1, "Resignation", text)
    assert notes == []


def test_start_of_a_process_is_an_event_and_other_threads_are_ignored(tmp_path: Path) -> None:
    lines = [
        line("[ControllerEventThread controllerId=2] Starting (kafka.controller.X$Y)"),
        line("[RequestSendThread controllerId=2] Starting (kafka.controller.RequestSendThread)"),
        line("[Channel manager on controller 2]: Controller 2 trying ... (kafka.controller.Z)"),
        line("[Topic Deletion Manager 2] Handling deletion for topics t (kafka.controller.T)"),
    ]
    found, _ = read(tmp_path, ("controller.log", lines))
    assert [one.event.event for one in found if isinstance(one.event, ControllerLogged)] == [
        "Started",
        "",
    ]


@pytest.mark.parametrize(
    ("text", "what", "brokers"),
    [
        (
            "Sending LeaderAndIsr request to broker 3 with 1 become-leader ...",
            "leader_and_isr",
            [3],
        ),
        (
            "Sending become-follower LeaderAndIsr request LeaderAndIsrPartitionState(...) to broker"
            " 2 for partition t-0",
            "leader_and_isr_partition",
            [2],
        ),
        (
            "Sending UpdateMetadata request to brokers HashSet(1, 3, 12) for 2 partitions",
            "update_metadata",
            [1, 3, 12],
        ),
        (
            "Sending UpdateMetadata request to brokers HashSet() for 0 partitions",
            "update_metadata",
            [],
        ),
        ("Sending StopReplica request for 2 replicas to broker 4", "stop_replica", [4]),
        (
            "Received response UpdateMetadataResponseData(errorCode=0) for request UPDATE_METADATA"
            " with correlation id 3 sent to broker 127.0.0.1:19401 (id: 1 rack: null)",
            "response",
            [1],
        ),
        ("Changed partition t-0 from NewPartition to OnlinePartition ...", "partition_state", []),
        ("Changed state of replica 2 for partition t-0 from ...", "replica_state", []),
        ("Controller 1 epoch 2 failed to change state for partition t-0 ...", "other", []),
    ],
)
def test_line_of_a_state_change_has_its_kind_and_brokers(
    tmp_path: Path, text: str, what: str, brokers: list[int]
) -> None:
    text = f"[Controller id=1 epoch=2] {text}"
    lines = [line(f"[Broker id=1] Handling LeaderAndIsr request ...{STATE_CHANGE}")]
    [found], _ = read(tmp_path, ("state-change.log", [*lines, line(text + STATE_CHANGE)]))
    assert found.event == StateChangeLogged(1, 2, what, brokers, text)


def test_served_request_has_its_content_and_time_of_receipt(tmp_path: Path) -> None:
    other = line(completed("FETCH"))
    [found], notes = read(tmp_path, ("broker-7/kafka-request.log", [other, line(completed())]))
    event = found.event
    assert isinstance(event, RequestServed)
    assert (event.broker, event.api, event.version) == (7, "ALTER_PARTITION", 3)
    assert (event.client, event.correlation) == ("3", 80)
    # At least 1311.069 ms earlier, so rounded down.
    assert event.received_ms == AT_MS - 1312
    assert json.loads(event.request) == {"brokerId": 3, "topics": []}
    assert json.loads(event.response) == {"errorCode": 0}
    assert notes == []


def test_request_log_belongs_to_the_broker_of_its_folder(tmp_path: Path) -> None:
    text = line(f"[Controller id=5] Resigning{CONTROLLER}")
    found, _ = read(
        tmp_path,
        ("a/1/control-requests.log", [line(completed())]),
        ("a/1/controller.log", ["a stray line", text]),
        ("b/control-requests.log", [line(completed())]),
    )
    assert sorted(one.channel for one in found) == [
        "broker 5 control-requests.log",
        "broker 5 controller.log",
        "unknown broker control-requests.log",
    ]


def test_several_folders_of_one_broker_are_reported(tmp_path: Path) -> None:
    text = line(f"[Controller id=5] Resigning{CONTROLLER}")
    _, notes = read(
        tmp_path,
        ("a/controller.log", [text]),
        ("b/controller.log", [text]),
        ("c/controller.log", []),
    )
    assert notes == [
        "the broker that wrote the logs in c is unknown",
        "the logs of broker 5 are in a, b: all are read",
    ]


OF_TEXT_FORM = (
    "Completed request:RequestHeader(apiKey=LEADER_AND_ISR, apiVersion=4, clientId=1,"
    f" correlationId=3) -- {{controller_id=1}},response:{{error_code=0}}{REQUEST}"
)


def test_lines_in_text_form_are_skipped_and_reported(tmp_path: Path) -> None:
    """The lines of an upgraded broker: text form first, then JSON, with torn lines between them."""
    mixed = [line(OF_TEXT_FORM)] * 2 + [line(completed()), "garbage"] * 2 + [line(OF_TEXT_FORM)]
    found, notes = read(tmp_path, ("x-1/control-requests.log", mixed))
    assert [one.event.api for one in found] == ["ALTER_PARTITION"] * 2
    assert notes == [
        "x-1/control-requests.log: 3 of 7 lines are in the text form that Kafka wrote before 2.8"
        " and are left out; the first is line 1",
        "x-1/control-requests.log: 2 of 7 lines are not in Kafka's layout; the first is line 4",
    ]


def test_request_log_in_text_form_is_skipped_and_reported(tmp_path: Path) -> None:
    text = line(f"[Controller id=1] Resigning{CONTROLLER}")
    found, notes = read(
        tmp_path, ("kafka-request.log", [line(OF_TEXT_FORM)] * 3), ("controller.log", [text])
    )
    assert [one.channel for one in found] == ["broker 1 controller.log"]
    assert notes == [
        "kafka-request.log is left out: it is in the text form that Kafka wrote before 2.8; only"
        " JSON can be read"
    ]


def test_lines_of_a_controller_without_an_epoch_are_kept(tmp_path: Path) -> None:
    refused = (
        "[Controller id=3] Received error STALE_CONTROLLER_EPOCH in UpdateMetadata response"
        " UpdateMetadataResponseData(errorCode=11) from broker 5"
    )
    failed = "[Controller id=3] Mark replicas t-0,t-1 on broker 2 as offline"
    found, notes = read(
        tmp_path, ("state-change.log", [line(one + STATE_CHANGE) for one in (refused, failed)])
    )
    assert [one.event for one in found] == [
        StateChangeLogged(3, 0, "refused", [5], refused),
        StateChangeLogged(3, 0, "offline_replicas", [2], failed),
    ]
    assert notes == []


def test_replicas_in_failed_log_directories_are_read() -> None:
    text = "[Controller id=3] Mark replicas t-0,a-b-11 on broker 2 as offline"
    found = offline_replicas(StateChangeLogged(3, 0, "offline_replicas", [2], text))
    assert found == [("t", 0), ("a-b", 11)]
    assert offline_replicas(StateChangeLogged(3, 0, "other", [2], text)) == []


def test_begin_of_a_controlled_shutdown_and_end_of_a_take_over_are_read() -> None:
    shutdown = ControllerLogged(
        3, "ControlledShutdown", "[Controller id=3] Shutting down broker 12"
    )
    ready = ControllerLogged(
        3, "", "[Controller id=3] Ready to serve as the new controller with epoch 7"
    )
    assert [broker_shutting_down(one) for one in (shutdown, ready)] == [12, None]
    assert [is_end_of_take_over(one) for one in (shutdown, ready)] == [False, True]


def test_lines_of_unknown_components_are_counted(tmp_path: Path) -> None:
    of_controller = [
        line(f"[Controller id=1] Resigning{CONTROLLER}"),
        line(f"[RequestSendThread controllerId=1] Starting{CONTROLLER}"),
        line(f"[Something else] Resigning{CONTROLLER}"),
    ]
    of_states = [
        line(f"[Broker id=1] Cached leader info{STATE_CHANGE}"),
        line(f"[Partition state 1] new{STATE_CHANGE}"),
        "garbage",
    ]
    files = logs(tmp_path, ("controller.log", of_controller), ("state-change.log", of_states))
    reading = BrokerLogs(files, UTC)
    assert len(list(reading.events())) == 1
    assert reading.not_understood == 3
    assert "controller.log: 1 of 3 lines are of no known component; the first is line 3" in (
        reading.notes
    )
    assert "state-change.log: 1 of 3 lines are of no known component; the first is line 2" in (
        reading.notes
    )


def test_malformed_lines_are_counted_without_stack_traces(tmp_path: Path) -> None:
    lines = [
        line(f"[Controller id=1] Resigning{CONTROLLER}"),
        "java.io.IOException: Connection to 127.0.0.1:19401 (id: 1 rack: null) failed.",
        "\tat org.apache.kafka.clients.NetworkClientUtils.awaitReady(NetworkClientUtils.java:71)",
        "Caused by: java.net.ConnectException",
        "\t... 12 more",
        "kafka.common.StateChangeFailedException: Failed to elect leader",
        "[2026-13-99 01:03:25,566] INFO [Controller id=1] Resigning (kafka.controller.X)",
        "garbage",
    ]
    found, notes = read(tmp_path, ("controller.log", lines))
    assert len(found) == 1
    assert notes == ["controller.log: 2 of 8 lines are not in Kafka's layout; the first is line 7"]
    bad = [line(completed()), line(f"Completed request:{{{REQUEST}"), line(f"Other{REQUEST}")]
    found, notes = read(tmp_path, ("x-1/control-requests.log", bad))
    assert len(found) == 1
    assert notes == [
        "x-1/control-requests.log: 2 of 3 lines are not in Kafka's layout; the first is line 2"
    ]


def test_error_has_the_first_line_of_its_stack_trace(tmp_path: Path) -> None:
    error = "[Controller id=1] Error processing event BrokerChange"
    lines = [
        line(f"{error}{CONTROLLER}", level="ERROR"),
        "java.lang.IllegalStateException: the batch is not empty",
        "\tat kafka.controller.KafkaController.process(KafkaController.scala:1)",
        "Caused by: java.lang.RuntimeException: other",
        line(f"{error}{CONTROLLER}", level="ERROR"),
        line(f"[Controller id=1] Resigning{CONTROLLER}"),
        "java.lang.IllegalStateException: of no error",
    ]
    found, notes = read(tmp_path, ("controller.log", lines))
    assert [one.event.text for one in found if isinstance(one.event, ControllerLogged)] == [
        f"{error}: java.lang.IllegalStateException: the batch is not empty",
        error,
        "[Controller id=1] Resigning",
    ]
    assert notes == []


def test_rotated_files_are_read_by_time_and_files_are_merged(tmp_path: Path) -> None:
    def resigning(second: float, broker: int = 1) -> str:
        return line(f"[Controller id={broker}] Resigning{CONTROLLER}", second)

    found, _ = read(
        tmp_path,
        ("b-1/controller.log", [resigning(30), resigning(32)]),
        ("b-1/controller.log.2026-11-21-00", [resigning(20), resigning(29)]),
        ("b-1/controller.log.1", [resigning(10)]),
        ("b-2/controller.log", [resigning(15, 2), resigning(31, 2)]),
    )
    seconds = [one.time_ms % 60_000 // 1000 for one in found]
    assert seconds == [10, 15, 20, 29, 30, 31, 32]


def test_times_are_in_the_time_zone_of_the_brokers(tmp_path: Path) -> None:
    files = logs(tmp_path, ("controller.log", [line(f"[Controller id=1] Resigning{CONTROLLER}")]))
    [found] = BrokerLogs(files, ZoneInfo("Europe/Paris")).events()
    assert found.time_ms == AT_MS - 3_600_000


@pytest.mark.sampled
@pytest.mark.parametrize(
    "compress", [gzip.compress, lzma.compress, bz2.compress], ids=["gz", "xz", "bz2"]
)
def test_compressed_log_is_read_up_to_its_damage(
    compress: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    files = logs(tmp_path, ("controller.log.1", []))
    lines = "".join(
        line(f"[Controller id=1] Shutting down broker {one}{CONTROLLER}\n") for one in range(30_000)
    )
    packed = compress(lines.encode())
    files[0].path.write_bytes(packed)
    reader = BrokerLogs(files, UTC)
    assert len(list(reader.events())) == 30_000
    assert reader.notes == []
    files[0].path.write_bytes(packed[: len(packed) // 2])
    reader = BrokerLogs(files, UTC)
    assert 0 < len(list(reader.events())) < 30_000
    [note] = reader.notes
    assert note.startswith("controller.log.1 is read up to line")
    assert reader.damaged == {"controller.log.1": 1}


def test_log_with_unsupported_compression_is_reported(tmp_path: Path) -> None:
    files = logs(tmp_path, ("controller.log.zip", []))
    with zipfile.ZipFile(files[0].path, "w") as packed:
        packed.writestr("controller.log", line(f"[Controller id=1] Resigning{CONTROLLER}\n" * 9))
    reader = BrokerLogs(files, UTC)
    assert list(reader.events()) == []
    assert (
        "controller.log.zip is left out: zip cannot be read; unpack it, or compress it as gz, xz or"
        " bz2" in reader.notes
    )
    assert reader.damaged == {"controller.log.zip": 1}
