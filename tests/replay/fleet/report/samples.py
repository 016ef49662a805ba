"""Sample results of an analysis, with names that contain markup."""

from datetime import UTC, datetime, timedelta
from typing import Any

from replay.fleet.report.findings import FleetFindings, FleetIncident, ReportedDivergence

TOPIC = "<script>window.broken = true</script>"
CLUSTER = '</script><img src=x title="" onerror="window.broken = true">'
PAYLOAD = '{"data":"</script><script>window.broken = true</script><b>bold</b>"}'
BEGIN = datetime(2026, 11, 2, 10, 15, tzinfo=UTC)


def incident(number: int, cluster: str) -> FleetIncident:
    at = BEGIN + timedelta(hours=7 * number)
    about = {
        "cluster": cluster,
        "log": f"20261102T101500.00000000{number}Z-1a2b3c4d",
        "what": "unavailable" if number < 4 else "under_replicated",
        "time": at,
        "until": at + timedelta(seconds=95 - 9 * number),
        "seq": 1200 + number,
        "ended_seq": 1300 + number,
        "is_open": number == 2,
        "partitions": 40 - number,
        "partition_seconds": 3100.0 / (number + 1),
        "cause": "broker_failure" if number % 2 else None,
        "broker": 2 if number % 2 else None,
    }
    partitions = [
        {
            "topic": TOPIC if part == 0 else f"orders-{part}",
            "partition": part,
            "cause": "broker_failure",
            "broker": 2,
            "seq": 1200 + part,
            "time": at,
            "seconds": 80.5 - part,
            "is_open": False,
            "leader": None,
            "isr": [2],
            "replicas": [2, 3, 1],
        }
        for part in range(8)
    ]
    records = [record(1195 + step, at, step) for step in range(40)]
    return FleetIncident(about, partitions, records)


def divergence(number: int, cluster: str) -> ReportedDivergence:
    at = BEGIN + timedelta(hours=number)
    about = {
        "version": f"{TOPIC} (1a2b3c4d)",
        "cluster": cluster,
        "log": f"20261102T101500.00000000{number}Z-1a2b3c4d",
        "seq": 1200,
        "time": at,
        "rule": "offline partition leader election",
        "what": "changed",
        "kind": "set",
        "target": f"/brokers/topics/{TOPIC}/partitions/0/state",
        "partitions": [f"{TOPIC}-0"] if number else [f"{TOPIC}-{one}" for one in range(5)],
        "differences": [{"part": "data.leader", "recorded": "1", "version": None}],
        "details": [f"the log, {TOPIC}-0: chose 1", f"the version, {TOPIC}-0: chose no leader"],
        "of_all": 1 + 4321 * number,
    }
    return ReportedDivergence(about, [record(1195 + step, at, step) for step in range(6)])


def record(seq: int, at: datetime, step: int) -> dict[str, Any]:
    is_event = step % 2 == 0
    return {
        "seq": seq,
        "time": at + timedelta(milliseconds=137 * step),
        "record": "event" if is_event else "command",
        "kind": "watch_fired" if is_event else "write_znodes",
        "channel": "zookeeper" if is_event else None,
        "target": None if is_event else f"/brokers/topics/{TOPIC}/partitions/0/state",
        "rule": None if is_event else "broker change: elect leaders",
        "error": 0,
        "path": "/brokers/ids/2" if is_event else None,
        "broker": 2 if is_event else None,
        "topic": None if is_event else TOPIC,
        "partition": None if is_event else 0,
        "partitions": 0 if is_event else 1,
        "leader": None if is_event else 3,
        "isr": None if is_event else [3, 1],
        "payload": PAYLOAD,
        "of_all": 412,
    }


def clusters(count: int) -> list[str]:
    return [CLUSTER, *(f"kafka-prod-eu-west-{number:03d}" for number in range(1, count))]


def duration_row(value: str, scale: float) -> dict[str, Any]:
    return {
        "value": value,
        "failovers": int(40 * scale) + 1,
        "p50": 0.4 * scale,
        "p90": 1.1 * scale,
        "p99": 2.9 * scale,
        "max": 3.3 * scale,
    }


def findings() -> FleetFindings:
    names = clusters(15)
    return FleetFindings(
        folder="/tables/fleet",
        options={"made": "2026-11-22T10:00:00+00:00", "window_s": 1.0, "clusters": []},
        totals={
            "logs": 10_000,
            "clusters": 100,
            "events": 20_000_000,
            "hours": 8760.0,
            "first_time": BEGIN,
            "last_time": BEGIN + timedelta(days=14),
            "failovers": 1234,
            "unavailable_s": 86_400.0,
            "under_replicated_s": 1_234_567.0,
            "missed_races": 3,
            "zombies": 1,
            "incomplete": 1,
        },
        period="day",
        answers=_answers(names),
        replays={
            "versions": [
                {
                    "version": "v1.2",
                    "logs": 100,
                    "failed": 1,
                    "decisions": 120_000,
                    "agreed": 119_990,
                    "divergences": 10,
                }
            ],
            "divergences": [],
        },
        divergences=[divergence(number, names[number]) for number in range(2)],
        incidents=[incident(number, names[number % 3]) for number in range(8)],
    )


def _answers(names: list[str]) -> dict[str, list[dict[str, Any]]]:
    return {
        "incomplete": [
            {
                "cluster": CLUSTER,
                "log": "20261102T101500.000000001Z-1a2b3c4d",
                "is_complete": False,
                "lacking": [f"{TOPIC}/log.1 ends at offset 7: the checksum is wrong"],
                "warnings": [],
                "not_understood": 3,
            }
        ],
        "resting": [
            {"total": "failovers", "rows": 21, "of_incomplete_logs": 9, "clusters": 1},
        ],
        "over_time": [
            {
                "period": (BEGIN + timedelta(days=day)).replace(hour=0, minute=0, tzinfo=None),
                "unavailable_s": 100.0 * (day * 7 % 5),
                "under_replicated_s": 900.0 * (day * 3 % 7),
            }
            for day in range(14)
        ],
        "causes": [
            {
                "what": what,
                "cause": cause,
                "seconds": seconds,
                "outages": 12,
                "longest": seconds / 4,
            }
            for what, cause, seconds in (
                ("unavailable", "broker_failure", 61_000.0),
                ("unavailable", "no_eligible_replica", 25_400.0),
                ("under_replicated", "broker_failure", 830_000.0),
                ("under_replicated", "follower_lag", 300_000.0),
                ("under_replicated", "reassignment", 104_567.0),
            )
        ],
        "clusters": [
            {
                "cluster": name,
                "unavailable_s": 20_000.0 / (place + 1),
                "under_replicated_s": 90_000.0 / (place + 1),
                "outages": 400 - place,
            }
            for place, name in enumerate(names)
        ],
        **_of_failovers(names),
        **_of_the_rest(),
    }


def _of_failovers(names: list[str]) -> dict[str, list[dict[str, Any]]]:
    return {
        "failovers_by_cluster": [
            duration_row(name, 3 / (place + 1)) for place, name in enumerate(names)
        ],
        "failovers_by_group": [
            {"by": by, **duration_row(value, 1.0)}
            for by, value in (("all", ""), ("size", "100-999"), ("version", "0.1.0"))
        ],
        "failover_steps": [
            {"step": step, **duration_row("", scale)}
            for step, scale in (("read_partition_states", 2.0), ("elect leaders", 0.5))
        ],
    }


def _of_the_rest() -> dict[str, list[dict[str, Any]]]:
    return {
        "churn": [
            {
                "cluster": CLUSTER,
                "topic": TOPIC,
                "partition": 3,
                "changes": 88,
                "leaders": 3,
                "returns": 70,
                "changes_per_hour": 1.37,
            }
        ],
        "reassignments": [{"outcome": "completed", "count": 400, "median": 610.0, "longest": 1e5}],
        "races": [
            {
                "first_what": "broker_gone",
                "what": "isr_proposed",
                "verdict": "missed",
                "count": 3,
                "closest": 0.012,
                "example": {"cluster": CLUSTER, "log": "20261102T1", "seq": 77},
            }
        ],
        "flapping": [],
        "zombies": [
            {
                "cluster": CLUSTER,
                "how": "fenced_write",
                "controller": -1,
                "count": 1,
                "latest": 4.2,
            }
        ],
    }
