"""The Kafka connector that texts name is the one that the tests run."""

from pathlib import Path

from replay.cli.fleet.live import live
from replay.fleet.mirror_stream import KAFKA_SOURCE
from tools.setup.jars import JAR_SETS, SPARK_KAFKA

ROOT = Path(__file__).parents[4]


def test_hint_help_and_docs_name_the_connector_that_the_tests_run() -> None:
    organisation, name, version = JAR_SETS[SPARK_KAFKA][0]
    assert f"{organisation}:{name}:{version}" == KAFKA_SOURCE
    assert f"spark.jars.packages={KAFKA_SOURCE}\n" in (live.__doc__ or "")
    assert f"spark.jars.packages={KAFKA_SOURCE}\n" in (ROOT / "docs" / "fleet-live.md").read_text()
