"""Tables with a few rows, to test the rules of the analysis."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from replay.fleet.columns import RECORDS
from replay.fleet.schemas import spark_schema

BEGUN: Final = datetime(2026, 11, 21, tzinfo=UTC)
LOGS: Final = "cluster string, log string, kind string, version string, seconds double"
ZNODES: Final = """cluster string, log string, seq bigint, place bigint, time timestamp,
    channel string, path string, data string, error int, action string, decided_seq bigint,
    rule string, is_found boolean, znode string, topic string, partition bigint, broker bigint"""
FAILOVERS: Final = """cluster string, log string, kind string, version string, term bigint,
    controller bigint, seq bigint, time timestamp, ended_seq bigint, seconds double, size string"""


@contextmanager
def not_compiled(spark: SparkSession) -> Iterator[SparkSession]:
    """Spark for small tables: compiling each query would take most of the time."""
    settings = {"spark.sql.codegen.wholeStage": "false", "spark.sql.adaptive.enabled": "false"}
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield spark
    finally:
        for name, was in before.items():
            spark.conf.set(name, was or "")


def rows(spark: SparkSession, schema: Any, *given: dict[str, Any]) -> DataFrame:
    """A table of one log, unless the rows name others; `seq` is also its second."""
    filled = []
    for one in given:
        whole = {"cluster": "c", "log": "l", **one}
        if "seq" in one:
            whole.setdefault("time", at(one["seq"]))
        filled.append(whole)
    struct = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    assert isinstance(struct, StructType)
    columns = to_arrow_schema(struct, timezone="UTC")
    return spark.createDataFrame(pa.Table.from_pylist(filled, columns))


def at(seq: int) -> datetime:
    """The time of an event."""
    return BEGUN + timedelta(seconds=seq)


def records(spark: SparkSession, *given: dict[str, Any]) -> DataFrame:
    """Records of the fleet's table."""
    return rows(spark, spark_schema(RECORDS), *given)
