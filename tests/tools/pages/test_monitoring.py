"""The alert rules and the dashboard: promtool fires each rule, and every metric exists."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from pydantic import ConfigDict, TypeAdapter, ValidationError

from controller.core.metric_table import Metric
from controller.daemon.log_metrics import DAEMON_METRICS
from tools.pages import ROOT
from tools.pages.dashboard import queries

RULES = ROOT / "docs" / "monitoring" / "alerts.yaml"
DASHBOARD = ROOT / "docs" / "monitoring" / "dashboard.json"
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="Debian's prometheus is not installed")

Values = Mapping[str, str]
"""Series in promtool's notation, one value a minute."""


class Case(NamedTuple):
    """Series for which an alert fires after 35 minutes, and for which it does not."""

    fires: Values
    quiet: Values


def always(value: float, *series: str) -> Values:
    return dict.fromkeys(series, f"{value}x60")


CONTROLLER = "kafka_controller_kafkacontroller_"
ACTIVE = CONTROLLER + "activecontrollercount"
OFFLINE = CONTROLLER + "offlinepartitionscount"
IMBALANCE = CONTROLLER + "preferredreplicaimbalancecount"
INELIGIBLE = CONTROLLER + "topicsineligibletodeletecount"
UNCLEAN = "kafka_controller_controllerstats_uncleanleaderelections_total"
QUEUE = 'kafka_controller_controllerchannelmanager_queuesize{broker_id="2"}'
APPEND = 'refold_log_append_seconds{quantile="0.99"}'
LOST = 'kafka_server_sessionexpirelistener_zookeeperdisconnects_total{job="refold"}'
BROKERS = tuple(f'{ACTIVE}{{job="kafka", instance="{one}"}}' for one in (1, 2, 3))
DAEMON = f'{ACTIVE}{{job="refold", instance="r1"}}'
STANDBY = f'{ACTIVE}{{job="refold", instance="r2"}}'
DAEMON_UP = 'up{job="refold", instance="r1"}'
STANDBY_UP = 'up{job="refold", instance="r2"}'

CASES = {
    "KafkaNoActiveController": Case(
        always(0, *BROKERS, STANDBY), {**always(0, *BROKERS, STANDBY), DAEMON: "1x60"}
    ),
    "KafkaOfflinePartitions": Case(always(1, OFFLINE), always(0, OFFLINE)),
    "KafkaUncleanLeaderElection": Case({UNCLEAN: "0x30 1x30"}, always(1, UNCLEAN)),
    "KafkaPreferredReplicaImbalance": Case(always(3, IMBALANCE), {IMBALANCE: "3x20 0x2 3x30"}),
    "KafkaTopicDeletionWaits": Case(always(1, INELIGIBLE), always(0, INELIGIBLE)),
    "RefoldDown": Case(always(0, DAEMON_UP), always(1, DAEMON_UP)),
    "RefoldNotController": Case(
        {**always(0, DAEMON, STANDBY), BROKERS[0]: "1x60"},
        {**always(0, *BROKERS, STANDBY), DAEMON: "1x60"},
    ),
    "RefoldNoStandby": Case(
        {DAEMON_UP: "1x60", STANDBY_UP: "0x60"}, always(1, DAEMON_UP, STANDBY_UP)
    ),
    "RefoldStandbyBehind": Case(
        always(90, "refold_standby_lag_seconds"), always(5, "refold_standby_lag_seconds")
    ),
    "RefoldBrokerDoesNotRespond": Case(always(4, QUEUE), {QUEUE: "4x32 0x20"}),
    "RefoldEventsWait": Case(
        always(8, "refold_event_lag_seconds"), always(0, "refold_event_lag_seconds")
    ),
    "RefoldSlowDisk": Case(always(1.5, APPEND), always(0.01, APPEND)),
    "RefoldMirrorBehind": Case(
        always(20000, "refold_mirror_lag_events"), always(10, "refold_mirror_lag_events")
    ),
    "RefoldLosesZooKeeper": Case({LOST: "0x25 1 2 3 4 5x30"}, always(5, LOST)),
}


class PublicRule(NamedTuple):
    """An expression of a public alert rule about the controller, and its case."""

    expression: str
    case: Case


def labelled(values: Values, label: str) -> Values:
    """The same series with labels that the brokers and daemons of a cluster share."""
    return {_with(series, label): value for series, value in values.items()}


def _with(series: str, label: str) -> str:
    return f"{series[:-1]}, {label}}}" if series.endswith("}") else f"{series}{{{label}}}"


ONE_ACTIVE = {**always(0, *BROKERS, STANDBY), DAEMON: "1x60"}
NONE_ACTIVE = always(0, *BROKERS, DAEMON, STANDBY)
BOTH_OFFLINE = Case({OFFLINE: "2x60"}, {OFFLINE: "0x60"})
STRIMZI = 'strimzi_io_name="c", namespace="n"'
CLUSTER = 'kafka_cluster="c"'
SYNC = "kafka_server_sessionexpirelistener_zookeepersyncconnects_total"
PUBLIC_RULES = {
    # strimzi/strimzi-kafka-operator, prometheus-kafka-rules.yaml
    "AbnormalControllerState": PublicRule(
        f"sum({ACTIVE}) by (strimzi_io_name, namespace) != 1",
        Case(labelled(NONE_ACTIVE, STRIMZI), labelled(ONE_ACTIVE, STRIMZI)),
    ),
    "OfflinePartitions": PublicRule(f"sum({OFFLINE}) by (namespace, pod) > 0", BOTH_OFFLINE),
    # grafana/jsonnet-libs, kafka-observ-lib
    "KafkaNoActiveController": PublicRule(
        f"sum by(kafka_cluster) ({ACTIVE}_value{{}} or {ACTIVE}{{}}) != 1",
        Case(labelled(NONE_ACTIVE, CLUSTER), labelled(ONE_ACTIVE, CLUSTER)),
    ),
    "KafkaOfflinePartitionCount": PublicRule(
        f"sum by (kafka_cluster) ({OFFLINE}_value{{}} or {OFFLINE}{{}}) > 0", BOTH_OFFLINE
    ),
    "KafkaPreferredReplicaImbalance": PublicRule(
        f"sum by (kafka_cluster) ({IMBALANCE}_value{{}} or {IMBALANCE}{{}}) > 0",
        Case({IMBALANCE: "3x60"}, {IMBALANCE: "0x60"}),
    ),
    "KafkaUncleanLeaderElection": PublicRule(
        f"sum by (kafka_cluster, instance) (increase({UNCLEAN}{{}}[10m])) != 0",
        Case({UNCLEAN: "0x25 1x40"}, {UNCLEAN: "1x60"}),
    ),
}
"""The controller's rules of Strimzi and of Grafana's library, with the labels that
docs/monitoring.md asks for."""


def exported(metric: Metric) -> Iterable[str]:
    """The names of a metric in the exposition."""
    yield metric.name
    if metric.kind == "summary":
        yield f"{metric.name}_count"
        yield f"{metric.name}_count_total"


EXPORTED = {name for metric in DAEMON_METRICS for name in exported(metric)}


def metrics_in(text: str) -> set[str]:
    return set(re.findall(r"\b(?:kafka_(?:controller|server)|refold)_[a-z_]+", text))


def test_rules_and_dashboard_use_only_metrics_that_the_daemon_exports() -> None:
    expressions = re.findall(r"^ +expr: (.*)$", RULES.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(expressions) == len(CASES)
    used = metrics_in("\n".join([*expressions, *queries()]))
    assert len(used) > 25
    assert used - EXPORTED == set()


def test_metrics_of_public_alert_rules_are_exported() -> None:
    used = metrics_in("\n".join(one.expression for one in PUBLIC_RULES.values()))
    of_other_exporters = {f"{ACTIVE}_value", f"{OFFLINE}_value", f"{IMBALANCE}_value"}
    assert len(used - of_other_exporters) == 4
    assert used - of_other_exporters - EXPORTED == set()
    # jsonnet-libs' KafkaZookeeperSyncConnect reads it, and never fires: a rate is not negative.
    assert SYNC in EXPORTED


def faults(dashboard: Any) -> list[str]:
    """Where a dashboard's JSON is not what Grafana's own library reads: names that it does not
    know, and values of other types."""
    try:
        read = Dashboard.from_json(deepcopy(dashboard))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return [f"cannot be read: {error!r}"]
    known = json.loads(JSONEncoder().encode(read))
    return [*_unknown(dashboard, known, "dashboard"), *_mistyped(read, "dashboard")]


def _unknown(given: Any, known: Any, place: str) -> Iterator[str]:
    """The values that are lost when the library writes the JSON again. Defaults may be added."""
    if isinstance(given, dict) and isinstance(known, dict):
        for key, value in given.items():
            yield from _unknown(value, known.get(key), f"{place}.{key}")
    elif isinstance(given, list) and isinstance(known, list) and len(given) == len(known):
        for number, (one, other) in enumerate(zip(given, known, strict=True)):
            yield from _unknown(one, other, f"{place}[{number}]")
    elif given != known:
        yield f"{place}: {given!r}"


def _mistyped(value: object, place: str) -> Iterator[str]:
    """The attributes of the library's objects that have other types than it declares."""
    if isinstance(value, list):
        for number, one in enumerate(value):
            yield from _mistyped(one, f"{place}[{number}]")
    elif _is_library_object(value):
        for name, hint in get_type_hints(type(value)).items():
            found = getattr(value, name, None)
            adapter = TypeAdapter[object](hint, config=_STRICT)
            try:
                # In JSON, an enumeration has its value.
                if _is_library_object(found):
                    adapter.validate_python(found)
                else:
                    adapter.validate_json(json.dumps(found))
            except ValidationError:
                yield f"{place}.{name}: {found!r}"
            yield from _mistyped(found, f"{place}.{name}")


def _is_library_object(value: object) -> bool:
    """Whether it is an object of the library, or a list of them."""
    one = value[0] if isinstance(value, list) and value else value
    return type(one).__module__.startswith("grafana_foundation_sdk.") and not isinstance(one, Enum)


_STRICT = ConfigDict(strict=True, arbitrary_types_allowed=True)


@pytest.fixture(scope="module")
def dashboard() -> Any:
    register_default_plugins()
    return json.loads(DASHBOARD.read_text(encoding="utf-8"))


def test_dashboard_is_one_of_grafanas_schema(dashboard: Any) -> None:
    assert faults(dashboard) == []
    assert all(panel["title"] for panel in dashboard["panels"])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("title", 5),
        ("refresh", 30),
        ("panels", {}),
        ("colour", "red"),
        ("panels 0 type", None),
        ("panels 0 gridPos x", "a"),
        ("panels 0 colour", "red"),
        ("panels 0 options colorMode", "nope"),
        ("panels 0 targets 0 expr", 5),
        ("panels 0 targets 0 expression", "up"),
        ("panels 7 options legend showLegend", "yes"),
        ("templating list 0 hide", "never"),
    ],
)
def test_dashboard_with_one_wrong_value_is_not_one_of_grafanas_schema(
    dashboard: Any, path: str, value: object
) -> None:
    changed = deepcopy(dashboard)
    *parents, last = (int(one) if one.isdigit() else one for one in path.split())
    place = changed
    for one in parents:
        place = place[one]
    place[last] = value
    assert faults(changed)


@needs_promtool
def test_queries_of_the_dashboard_are_expressions_of_prometheus(tmp_path: Path) -> None:
    rules = [
        {"record": f"query_{number}", "expr": query.replace("$cluster", ".*")}
        for number, query in enumerate(queries())
    ]
    file = tmp_path / "rules.yaml"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = subprocess.run(["promtool", "check", "rules", file], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_rule_has_a_case_and_a_row_in_the_page() -> None:
    names = re.findall(r"- alert: (\w+)", RULES.read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
    assert names == list(CASES)
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == names


@needs_promtool
def test_promtool_fires_each_rule_in_its_case_only(tmp_path: Path) -> None:
    promtool(tmp_path, RULES, CASES)


@needs_promtool
def test_public_rules_fire_in_their_cases_only(tmp_path: Path) -> None:
    """With refold as controller, they are quiet while all is well."""
    rules = [
        {"alert": alert, "expr": one.expression, "for": "5m"} for alert, one in PUBLIC_RULES.items()
    ]
    file = tmp_path / "rules.yaml"
    file.write_text(json.dumps({"groups": [{"name": "public", "rules": rules}]}), encoding="utf-8")
    promtool(tmp_path, file, {alert: one.case for alert, one in PUBLIC_RULES.items()})


def promtool(folder: Path, rules: Path, cases: Mapping[str, Case]) -> None:
    """Each rule fires in its case, and is quiet in the other one."""
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": key, "values": one} for key, one in series.items()],
            "promql_expr_test": [
                {
                    "expr": f'count(ALERTS{{alertname="{alert}", alertstate="firing"}})',
                    "eval_time": "35m",
                    "exp_samples": [{"labels": "{}", "value": 1}] if fires else [],
                }
            ],
        }
        for alert, case in cases.items()
        for fires, series in ((True, case.fires), (False, case.quiet))
    ]
    file = folder / "tests.yaml"
    file.write_text(json.dumps({"rule_files": [str(rules)], "tests": tests}), encoding="utf-8")
    done = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_page_of_an_annotation_exists() -> None:
    text = RULES.read_text(encoding="utf-8")
    found = re.findall(r"^ +runbook: (docs/runbooks/)(.+)\.md$", text, re.MULTILINE)
    assert len(found) > 8
    for folder, names in found:
        for name in re.sub(r"{{.*?}}", " ", names).split():
            assert (ROOT / folder / f"{name}.md").is_file(), name
