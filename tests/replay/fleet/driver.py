"""Counts the rows that reach Spark's driver."""

from typing import Any

import pytest
from pyspark.sql import SparkSession


def rows_collected(patch: pytest.MonkeyPatch, spark: SparkSession) -> list[int]:
    """From now on, the number of rows of each collecting call."""
    counts: list[int] = []
    frame = type(spark.range(1))
    for name in ("collect", "toLocalIterator", "toPandas", "toArrow"):
        patch.setattr(frame, name, _counting(getattr(frame, name), counts))
    return counts


def _counting(collect: Any, counts: list[int]) -> Any:
    def counted(self: Any, *arguments: Any) -> Any:
        rows = list(collect(self, *arguments))
        counts.append(len(rows))
        return iter(rows) if collect.__name__ == "toLocalIterator" else rows

    return counted
