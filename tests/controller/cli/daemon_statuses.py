"""Statuses of daemons, and sockets that serve them."""

from pathlib import Path

import msgspec
from msgspec import structs

from controller.daemon.status_socket import StatusSocket
from controller.operator.daemon_status import (
    DaemonStatus,
    DecisionStatus,
    EventStatus,
    LogStatus,
    QueueStatus,
    SessionStatus,
    StandbyStatus,
    TermStatus,
)

ACTIVE = DaemonStatus(
    version="0.1.0",
    process=4711,
    broker_id=1000,
    started="2026-11-21T20:00:00.500Z",
    time="2026-11-21T23:05:06.600Z",
    role="active",
    term=7,
    term_since="2026-11-21T20:00:01.000Z",
    last_term=None,
    queue=QueueStatus(["BrokerChange"], 12, ["TopicChange", "CreateTopics"], 3),
    event_lag_ms=1.5,
    last_event=EventStatus(81, "2026-11-21T23:05:06.598Z", "znodes_read", 0.7),
    last_decision=DecisionStatus(
        "71.0",
        "2026-11-21T23:05:01.000Z",
        7,
        "write_znodes",
        "2 operations",
        "offline partition leader election",
    ),
    standbys=[
        StandbyStatus("host-2", 815, 1000, "0.1.0", "ab12", "2026-11-21T20:00:03.000Z"),
        StandbyStatus("host-3", 816, 1000, "0.2.0", "cd34", "2026-11-21T20:00:04.000Z"),
    ],
    log=LogStatus("/logs/run-1", 81, 3 << 20),
    zookeeper=SessionStatus("0x1f", True, "zk1:2181", 18000, 40, ""),
)
IDLE = structs.replace(
    ACTIVE,
    role="standby",
    term=0,
    term_since=None,
    last_term=TermStatus(7, 233, "2026-11-21T23:05:01.000Z", "the ZooKeeper session is over", 58.9),
    queue=QueueStatus([], 0, [], 0),
    last_event=None,
    last_decision=None,
    standbys=None,
    zookeeper=SessionStatus("", False, "", 18000, None, "no connection to zk1:2181: refused"),
)
WAITING = structs.replace(
    IDLE, role="waiting for ZooKeeper", last_term=None, log=None, zookeeper=None
)


def serving(folder: Path, status: DaemonStatus, path: Path | None = None) -> StatusSocket:
    """A socket, at `path` or in the folder, on which a daemon answers with this status."""
    return StatusSocket(folder, path, lambda: msgspec.json.encode(status))
