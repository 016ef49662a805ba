"""The decoded table equals the rows of the data source, whenever it was decoded."""

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from eventstore.reader import LogReader
from eventstore.segment import open_segment
from replay.fleet import decoding
from replay.fleet.columns import DECODED, RECORDS, STORED, Batches, Origin, decode_batch
from replay.fleet.errors import FleetError
from replay.fleet.ingest import ingest
from replay.fleet.log_source import LogSource
from replay.fleet.segments import command_batches, event_batches
from tools.fleet.histories import GeneratedHistory, write_log

pytestmark = [
    pytest.mark.timeout(400),
    # Spark's client leaves its sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

Rows = list[dict[str, Any]]


def by_number(rows: Rows) -> Rows:
    return sorted(
        rows, key=lambda row: (row["log"], row["seq"], row["record"], row["ordinal"] or 0)
    )


def batches_of(log: Path, batches: Batches) -> pa.Table:
    with open_segment(LogReader(log).segments[0]) as segment:
        made = [
            *event_batches(segment, batches, (), {}),
            *command_batches(segment, batches, (), {}),
        ]
    return pa.Table.from_batches(made)


def test_decoding_later_equals_decoding_while_reading(
    short_history: GeneratedHistory, tmp_path: Path
) -> None:
    log = write_log(tmp_path / "log", short_history, "c", 1)
    origin = Origin("c", "its name")
    stored = batches_of(log, Batches(STORED, origin, decodes=False)).combine_chunks()
    later = [part for batch in stored.to_batches() for part in decode_batch(batch)]
    at_once = batches_of(log, Batches(RECORDS, origin)).select(DECODED.names)
    rows = at_once.to_pylist()
    assert by_number(pa.Table.from_batches(later).to_pylist()) == by_number(rows)
    for name in ("ordinal", "path", "broker", "topic", "error", "rule", "payload", "reason"):
        assert any(row[name] is not None for row in rows), name


def test_events_of_other_versions_are_decoded_as_far_as_possible() -> None:
    older = ["elect_leaders_received", 7, 2, "preferred", [["t", 0]]]
    events = [
        ("elect_leaders_received", 1, msgspec.msgpack.encode(older)),
        ("from_the_future", 9, msgspec.msgpack.encode(["new", 7])),
        ("watch_fired", 1, b"\xc1"),
    ]
    rows = [
        {"record": "event", "seq": seq, "kind": kind, "schema": schema, "stored": payload,
         "channel": "api", "origin": "exogenous"}
        for seq, (kind, schema, payload) in enumerate(events, 1)
    ]  # fmt: skip
    [made] = decode_batch(pa.RecordBatch.from_pylist(rows, STORED))
    assert made.column("seq").to_pylist() == [1, 2, 3]
    assert made.column("topic").to_pylist() == ["t", None, None]
    assert made.column("payload").to_pylist()[1:] == ['["new",7]', None]


def rows_of(frame: Any) -> Rows:
    return by_number([row.asDict(recursive=True) for row in frame.select(*DECODED.names).collect()])


@pytest.mark.long
def test_each_batch_is_decoded_once_and_equals_its_logs(
    spark: SparkSession, short_history: GeneratedHistory, tmp_path: Path
) -> None:
    out, logs = tmp_path / "table", tmp_path / "logs"
    write_log(logs / "a", short_history, "cluster a/ä", 1)
    ingest(spark, [str(logs)], out)
    assert decoding.decode(spark, out) == 1
    assert decoding.decode(spark, out) == 0
    [first] = (out / "decoded").glob("batch=*")
    before = {file: file.stat().st_mtime_ns for file in first.rglob("*.parquet")}
    write_log(logs / "b", short_history, "b", 2)
    ingest(spark, [str(logs)], out)
    # Left by a process that was killed.
    left = out / "decoded" / "_making" / "batch=000002" / "cluster=b"
    left.mkdir(parents=True)
    (left / "half.parquet").write_bytes(b"PAR1")
    spark.dataSource.register(LogSource)
    source = spark.read.format("refold").load(str(logs))
    assert rows_of(decoding.records(spark, out)) == rows_of(source)
    assert {file: file.stat().st_mtime_ns for file in first.rglob("*.parquet")} == before
    assert not (out / "decoded" / "_making").exists()


@pytest.mark.long
def test_failed_decoding_leaves_no_partial_batch(
    spark: SparkSession, short_history: GeneratedHistory, tmp_path: Path
) -> None:
    out = tmp_path / "table"
    write_log(tmp_path / "logs", short_history, "c", 1)
    ingest(spark, [str(tmp_path / "logs")], out)
    [file] = out.glob("records/batch=*/cluster=c/date=*/*.parquet")
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(
        FleetError, match="Spark failed; the batches that were decoded before are kept"
    ):
        decoding.decode_table(spark, out)
    assert not list((out / "decoded").glob("batch=*"))
    file.write_bytes(whole)
    assert decoding.nothing_to_decode(out) is None
    assert decoding.decode_table(spark, out).batches == 1
    result_without_spark = decoding.nothing_to_decode(out)
    assert result_without_spark is not None
    assert (result_without_spark.table, result_without_spark.batches) == (str(out / "decoded"), 0)
