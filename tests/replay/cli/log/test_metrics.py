"""`refold log metrics`: the metrics at a moment of a log, and over time."""

import json

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.replay.cli.command import refold

LOG = "tests/incidents/broker-crash"
OFFLINE = "kafka_controller_kafkacontroller_offlinepartitionscount"
ACTIVE = "kafka_controller_kafkacontroller_activecontrollercount"
BROKERS = "kafka_controller_kafkacontroller_activebrokercount"


def at(position: str) -> dict[str, float]:
    found = json.loads(refold("log", "metrics", LOG, "--at", position, "--json").stdout)
    return {one["name"]: one["value"] for one in found["metrics"] if not one["labels"]}


def test_metrics_of_two_moments_show_the_crash_of_a_broker() -> None:
    ended = refold("log", "metrics", LOG, "--openmetrics", "--every", "0.5")
    assert ended.returncode == 0, ended.stderr
    families = {one.name: one for one in text_string_to_metric_families(ended.stdout)}
    alive = [one.value for one in families[BROKERS].samples]
    assert alive[0] == alive[-1] == 0
    assert max(alive) == 3
    assert 2 in alive[alive.index(3) :]


def test_metrics_at_the_end_are_those_of_a_daemon_that_gave_the_role_up() -> None:
    now = at("124")
    assert now[ACTIVE] == now[OFFLINE] == now[BROKERS] == 0
    assert now["refold_events_total"] == 124


def test_moment_after_the_end_is_refused() -> None:
    ended = refold("log", "metrics", LOG, "--at", "9999")
    assert ended.returncode == 2
    assert "there is no event 9999" in ended.stderr


def test_openmetrics_and_json_exclude_each_other() -> None:
    assert refold("log", "metrics", LOG, "--openmetrics", "--json").returncode == 2


def test_time_between_values_is_refused_without_values_over_time() -> None:
    ended = refold("log", "metrics", LOG, "--every", "5")
    assert ended.returncode == 2
    assert "only with --openmetrics" in ended.stderr
