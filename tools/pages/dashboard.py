"""docs/monitoring/dashboard.json: the Grafana dashboard, built by Grafana's own library."""

from typing import Final, NamedTuple

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import DataSourceRef

_OF: Final = '{kafka_cluster=~"$cluster"}'
_CONTROLLER: Final = "kafka_controller_kafkacontroller_"
_STATS: Final = "kafka_controller_controllerstats_"
_CHANNELS: Final = "kafka_controller_controllerchannelmanager_"
_SESSION: Final = "kafka_server_sessionexpirelistener_"
_SOURCE: Final = DataSourceRef(type_val="prometheus", uid="$datasource")


class Series(NamedTuple):
    """A query, and the legend of its series."""

    query: str
    legend: str


class Panel(NamedTuple):
    """A panel, its unit in Grafana's names, and what it is for."""

    title: str
    unit: str
    about: str
    series: tuple[Series, ...]


def _gauge(name: str) -> str:
    return f"sum by (kafka_cluster) ({_CONTROLLER}{name}{_OF})"


def _p99(metric: str) -> str:
    return f'{metric}{{kafka_cluster=~"$cluster", quantile="0.99"}}'


NUMBERS: Final = (
    Panel(
        "Active controllers",
        "short",
        "One is expected.",
        (Series(_gauge("activecontrollercount"), ""),),
    ),
    Panel(
        "Offline partitions",
        "short",
        "0 is expected.",
        (Series(_gauge("offlinepartitionscount"), ""),),
    ),
    Panel("Brokers", "short", "Registered brokers.", (Series(_gauge("activebrokercount"), ""),)),
    Panel(
        "Partitions",
        "short",
        "Partitions with a known leader.",
        (Series(_gauge("globalpartitioncount"), ""),),
    ),
    Panel("Topics", "short", "Topics.", (Series(_gauge("globaltopiccount"), ""),)),
    Panel(
        "Not led by the preferred replica",
        "short",
        "Partitions. The controller moves leaders back.",
        (Series(_gauge("preferredreplicaimbalancecount"), ""),),
    ),
)
"""Panels that show the latest value."""

CURVES: Final = (
    Panel(
        "Who is controller",
        "short",
        "1: this process is the controller.",
        (Series(f"{_CONTROLLER}activecontrollercount{_OF}", "{{instance}}"),),
    ),
    Panel(
        "Unclean elections and deletions",
        "short",
        "Unclean leaders in the last 5 minutes; topics and replicas whose deletion waits.",
        (
            Series(
                f"increase({_STATS}uncleanleaderelections_total{_OF}[5m])", "unclean {{instance}}"
            ),
            Series(_gauge("topicstodeletecount"), "topics to delete"),
            Series(_gauge("replicasineligibletodeletecount"), "replicas that cannot be deleted"),
        ),
    ),
    Panel(
        "Controller events that wait",
        "short",
        "The queue of the controller.",
        (Series(f"kafka_controller_controllereventmanager_eventqueuesize{_OF}", "{{instance}}"),),
    ),
    Panel(
        "Times of controller events, 99 %",
        "ms",
        "From the beginning to the end of an event.",
        tuple(
            Series(_p99(f"{_STATS}{name}rateandtimems"), name)
            for name in (
                "controllerchange",
                "leaderelection",
                "controlledshutdown",
                "partitionreassignment",
                "topicchange",
                "topicdeletion",
                "isrchange",
            )
        ),
    ),
    Panel(
        "Requests that wait, by broker",
        "short",
        "A broker that does not respond has a growing queue.",
        (Series(f"{_CHANNELS}queuesize{_OF}", "broker {{broker_id}}"),),
    ),
    Panel(
        "Wait of a request, 99 %, by broker",
        "ms",
        "Before the request was first sent.",
        (Series(_p99(f"{_CHANNELS}requestrateandqueuetimems"), "broker {{broker_id}}"),),
    ),
    Panel(
        "Appends to the event log",
        "s",
        "An append that takes longer than a third of the session timeout ends the role.",
        (
            Series(_p99("refold_log_append_seconds"), "append, 99 %, {{instance}}"),
            Series(f"refold_event_lag_seconds{_OF}", "age of the oldest event, {{instance}}"),
        ),
    ),
    Panel(
        "Events per second",
        "short",
        "Events that were folded.",
        (Series(f"rate(refold_events_total{_OF}[5m])", "{{instance}}"),),
    ),
    Panel(
        "Size of the current log segment",
        "bytes",
        "Retention removes whole segments.",
        (Series(f"refold_log_size_bytes{_OF}", "{{instance}}"),),
    ),
    Panel(
        "Standbys",
        "short",
        "The changes that a standby has not read yet.",
        (
            Series(f"refold_standby_lag_seconds{_OF}", "lag in s, {{instance}}"),
            Series(f"refold_standby_stale_znodes{_OF}", "stale znodes, {{instance}}"),
        ),
    ),
    Panel(
        "ZooKeeper sessions, in 5 minutes",
        "short",
        "Lost connections and sessions that have ended.",
        (
            Series(
                f"increase({_SESSION}zookeeperdisconnects_total{_OF}[5m])", "lost, {{instance}}"
            ),
            Series(f"increase({_SESSION}zookeeperexpires_total{_OF}[5m])", "ended, {{instance}}"),
        ),
    ),
    Panel(
        "Events that are not mirrored",
        "short",
        "Only if the daemon has a mirror.",
        (Series(f"refold_mirror_lag_events{_OF}", "{{instance}}"),),
    ),
)
"""Panels that show values over time."""


def queries() -> list[str]:
    """The queries of all panels."""
    return [one.query for panel in (*NUMBERS, *CURVES) for one in panel.series]


def page() -> str:
    """The dashboard as JSON."""
    board = (
        dashboard.Dashboard("refold")
        .uid("refold-controller")
        .tags(["kafka", "refold"])
        .refresh("30s")
        .time("now-6h", "now")
        .timezone("browser")
        .with_variable(dashboard.DatasourceVariable("datasource").type("prometheus"))
        .with_variable(
            dashboard.QueryVariable("cluster")
            .datasource(_SOURCE)
            .query(f"label_values({_CONTROLLER}activecontrollercount, kafka_cluster)")
            .include_all(True)
            # Metrics without the label belong to every cluster.
            .all_value(".*")
        )
    )
    for panel in NUMBERS:
        latest = common.ReduceDataOptions().calcs(["lastNotNull"])
        number = stat.Panel().height(4).span(4).reduce_options(latest)
        board = board.with_panel(_fill_panel(number, panel))
    for panel in CURVES:
        legend = common.VizLegendOptions().show_legend(True)
        curve = timeseries.Panel().height(8).span(12).legend(legend)
        board = board.with_panel(_fill_panel(curve, panel))
    return JSONEncoder(sort_keys=True, indent=2).encode(board.build()) + "\n"


def _fill_panel(
    builder: stat.Panel | timeseries.Panel, panel: Panel
) -> stat.Panel | timeseries.Panel:
    builder.title(panel.title).description(panel.about).unit(panel.unit).datasource(_SOURCE)
    for number, one in enumerate(panel.series):
        target = prometheus.Dataquery().expr(one.query).legend_format(one.legend)
        builder.with_target(target.ref_id(chr(ord("A") + number)))
    return builder
