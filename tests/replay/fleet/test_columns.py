"""The rows of a log, compared with the log's reader, and the decoded columns."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from controller.core.canonical import encode_event
from controller.core.commands import CommandId
from controller.core.events import ChildrenRead, WatchFired, ZnodesRead
from eventstore.reader import LogReader
from eventstore.segment import open_segment
from replay.description.bulk_json import JSON_BYTES_MAX
from replay.fleet.columns import RECORDS, Batches, Origin
from replay.fleet.fact_columns import command_columns, event_columns
from replay.fleet.segments import command_batches, event_batches
from replay.subjects import subject_in_any_chroot
from tools.fleet.histories import GeneratedHistory, write_log


@pytest.fixture(scope="module")
def log(short_history: GeneratedHistory, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_log(tmp_path_factory.mktemp("logs") / "log", short_history, "a/b", 1)


def table_of(log: Path, schema: pa.Schema = RECORDS) -> list[dict[str, object]]:
    batches = Batches(schema, Origin("a/b", "its name"))
    with open_segment(LogReader(log).segments[0]) as segment:
        made = [
            *event_batches(segment, batches, (), {}),
            *command_batches(segment, batches, (), {}),
        ]
    rows: list[dict[str, object]] = pa.Table.from_batches(made).to_pylist()
    return rows


def test_every_record_is_a_row_with_its_stored_bytes(log: Path) -> None:
    rows = table_of(log)
    events = {row["seq"]: row for row in rows if row["record"] == "event"}
    commands = {(row["seq"], row["ordinal"]): row for row in rows if row["record"] == "command"}
    for event, caused in LogReader(log).records():
        row = events.pop(event.seq)
        names = ("wall_ns", "mono_ns", "term", "kind", "schema", "channel", "origin", "cause")
        assert [row[name] for name in names] == [getattr(event, name) for name in names]
        assert row["stored"] == event.payload
        for command in caused:
            row = commands.pop((command.cause, command.ordinal))
            assert row["stored"] == command.body
            assert row["reason_stored"] == command.reason
            assert row["digest"] == command.digest
            assert row["wall_ns"] == event.wall_ns
    assert not events
    assert not commands


def test_reply_has_the_ordinal_of_its_command(log: Path) -> None:
    rows = table_of(log)
    commands = {(row["seq"], row["ordinal"]): row for row in rows if row["record"] == "command"}
    replies = [row for row in rows if row["kind"] == "znodes_written"]
    assert replies
    for reply in replies:
        answered = commands[reply["cause"], reply["ordinal"]]
        assert answered["kind"] in ("write_znodes", "write_atomically", "sync_znodes")
    of_events = [row for row in rows if row["record"] == "event" and row["ordinal"] is not None]
    answers = [(row["cause"], row["ordinal"]) for row in of_events]
    assert len(set(answers)) == len(answers)


def test_decision_has_partitions_leader_and_rule(log: Path) -> None:
    decided = 0
    for row in table_of(log):
        if row["kind"] != "write_znodes" or row["payload"] is None:
            continue
        written = {}
        for operation in json.loads(str(row["payload"]))["operations"]:
            if operation["path"].endswith("/state"):
                state = json.loads(operation["data"])
                number = int(operation["path"].split("/")[-2])
                written[number] = (state["leader"], state["leader_epoch"], state["isr"])
        partitions: Any = row["partitions"]
        actual = {one["partition"]: one for one in partitions if one["leader"] is not None}
        names = ("leader", "leader_epoch", "isr")
        assert written == {
            number: tuple(one[name] for name in names) for number, one in actual.items()
        }
        assert row["rule"] == json.loads(str(row["reason"]))["rule"]
        decided += len(written)
    assert decided


@pytest.mark.parametrize("every", [1, 50])
def test_commands_far_apart_have_the_clocks_of_their_causes(log: Path, every: int) -> None:
    walls = {event.seq: event.wall_ns for event, _ in LogReader(log).records()}
    batches = Batches(RECORDS, Origin("a/b", "its name"))
    with open_segment(LogReader(log).segments[0]) as segment:
        conditions = [f"rowid % {every} = 0"]
        rows = pa.Table.from_batches(command_batches(segment, batches, conditions, {})).to_pylist()
    assert len(rows) > 1
    assert all(row["wall_ns"] == walls[row["seq"]] for row in rows)


def test_only_requested_columns_are_made(log: Path) -> None:
    schema = pa.schema([RECORDS.field("kind"), RECORDS.field("seq")])
    rows = table_of(log, schema)
    whole = table_of(log)
    assert rows == [{"kind": row["kind"], "seq": row["seq"]} for row in whole]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/brokers/ids/7", (7, None, None)),
        ("/kafka/brokers/ids/7", (7, None, None)),
        ("/brokers/topics/t.1", (None, "t.1", None)),
        ("/kafka/brokers/topics/t/partitions/3/state", (None, "t", 3)),
        ("/admin/delete_topics/t", (None, "t", None)),
        ("/brokers/topics", (None, None, None)),
        ("/controller", (None, None, None)),
    ],
)
def test_paths_are_recognized_under_any_chroot(
    path: str, name: tuple[int | None, str | None, int | None]
) -> None:
    subject = subject_in_any_chroot(path)
    assert (subject.broker, subject.topic, subject.partition) == name


UNREADABLE = [b"", b"\xc1", b"\x92\xa3new\xff", b"\x81\xa1a\xa1\xff"]


@pytest.mark.parametrize("payload", UNREADABLE)
def test_undecodable_bytes_are_a_row_without_content(payload: bytes) -> None:
    of_event = event_columns(["watch_fired"], [payload])
    assert of_event["path"] == [None]
    assert of_event["partitions"] == [()]
    of_command = command_columns(["write_znodes"], ["/controller"], [payload], [payload])
    assert of_command["rule"] == [None]


@pytest.mark.parametrize("payload", UNREADABLE)
def test_undecodable_bytes_do_not_affect_other_events_of_the_kind(payload: bytes) -> None:
    paths = [f"/brokers/topics/t/partitions/{number}/state" for number in range(3)]
    payloads = [encode_event(WatchFired(path, "data", 7)) for path in paths]
    columns = event_columns(["watch_fired"] * 4, [*payloads[:2], payload, payloads[2]])
    actual = columns["path"]
    assert [*actual[:2], actual[3]] == paths
    assert [one[0].partition for one in columns["partitions"] if one] == [0, 1, 2]


def test_event_of_a_newer_version_has_content_without_names() -> None:
    columns = event_columns(["from_the_future"], [b"\x92\xa3new\x07"])
    assert columns["payload"] == [b'["new",7]']


def test_content_has_field_names_and_znode_data_as_text() -> None:
    read = [
        ZnodesRead(CommandId(1, 2), 0, [0], [data], [1], [2], [3], [0])
        for data in (b'{"a":\n1}', b"\xff", None)
    ]
    columns = event_columns(["znodes_read"] * 3, [encode_event(one) for one in read])
    actual = [json.loads(one) for one in columns["payload"]]
    assert [one["data"] for one in actual] == [['{"a":\n1}'], [{"base64": "/w=="}], [None]]
    assert [one["command"] for one in actual] == [[1, 2]] * 3
    assert {one["tag"] for one in actual} == {"znodes_read"}


def test_large_payload_has_no_json() -> None:
    names = ["a", "b" * JSON_BYTES_MAX, "c"]
    read = [ChildrenRead(CommandId(1, number), 0, [name]) for number, name in enumerate(names)]
    columns = event_columns(["children_read"] * 3, [encode_event(one) for one in read])
    actual = [one and json.loads(one)["children"] for one in columns["payload"]]
    assert actual == [["a"], None, ["c"]]
    assert columns["ordinal"] == [0, 1, 2]
