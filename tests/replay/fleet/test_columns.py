"""The rows of a log: what its own reader says, and what its records are about."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from eventstore.reader import LogReader
from eventstore.segment import open_segment
from replay.fleet.columns import RECORDS, Batches, Origin
from replay.fleet.facts import command_facts, event_facts, znode_name
from replay.fleet.reading import command_batches, event_batches
from tools.fleet.incidents import History, write_log


@pytest.fixture(scope="module")
def log(told: History, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_log(tmp_path_factory.mktemp("logs") / "log", told, "a/b", 1)


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


def test_reply_finds_the_command_that_it_answers(log: Path) -> None:
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


def test_decision_tells_partitions_leader_and_rule(log: Path) -> None:
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
        told = {one["partition"]: one for one in partitions if one["leader"] is not None}
        names = ("leader", "leader_epoch", "isr")
        assert written == {
            number: tuple(one[name] for name in names) for number, one in told.items()
        }
        assert row["rule"] == json.loads(str(row["reason"]))["rule"]
        decided += len(written)
    assert decided


def test_only_wanted_columns_are_made(log: Path) -> None:
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
def test_paths_are_told_apart_under_any_chroot(
    path: str, name: tuple[int | None, str | None, int | None]
) -> None:
    assert znode_name(path) == name


@pytest.mark.parametrize("payload", [b"", b"\xc1", b"\x92\xa3new\xff", b"\x81\xa1a\xa1\xff"])
def test_bytes_that_nobody_can_read_are_a_row_without_content(payload: bytes) -> None:
    facts = event_facts("watch_fired", payload)
    assert facts.path is None
    assert facts.partitions == ()
    assert command_facts("write_znodes", "/controller", payload, payload).rule is None


def test_event_of_a_newer_version_is_shown_without_names() -> None:
    assert event_facts("from_the_future", b"\x92\xa3new\x07").json == b'["new",7]'
