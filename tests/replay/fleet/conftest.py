"""One Spark session for all tests in this folder, and a short history to write logs from."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from replay.fleet.session import spark_session
from tools.fleet.histories import GeneratedHistory, simulated_history

_SMALL = {
    "spark.sql.shuffle.partitions": "2",
    # With little data, generating and optimizing code takes most of the time.
    "spark.sql.codegen.wholeStage": "false",
}


@pytest.fixture(scope="session")
def short_history() -> GeneratedHistory:
    return simulated_history(400, 1_790_000_000_000, seed=1)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with spark_session("local[2]", _SMALL, is_brief=True) as session:
        yield session
