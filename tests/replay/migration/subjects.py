"""Clusters in ZooKeeper, before and after a migration to KRaft."""

import json
from collections.abc import Mapping
from typing import Any

from replay.cluster_view.from_znodes import cluster_of
from replay.migration.evaluate import findings_of
from replay.migration.findings import MigratingBroker, MigratingCluster, MigrationFinding
from replay.znode_tree.tree import Tree, Znode
from replay.znode_view import ZnodeView

LATEST = (3, 9)
SESSION = 7
STATE = {
    "controller_epoch": 5,
    "leader": 1,
    "version": 1,
    "leader_epoch": 2,
    "isr": [1, 2],
}
KRAFT = {"version": 2, "brokerid": 3000, "timestamp": "1", "kraftControllerEpoch": 4}
"""/controller of a KRaft controller; it is persistent."""
COPIED = {
    "version": 0,
    "kraft_controller_id": 3000,
    "kraft_controller_epoch": 4,
    "kraft_metadata_offset": 120,
    "kraft_metadata_epoch": 4,
}
"""/migration after the copy of the metadata."""

Content = dict[str, Any] | list[Any] | str | None


def registration(broker: int) -> dict[str, Any]:
    address = f"h{broker}"
    endpoints = [f"PLAINTEXT://{address}:9092"]
    return {"version": 5, "host": address, "port": 9092, "endpoints": endpoints}


WELL: Mapping[str, Content] = {
    "/controller": {"version": 2, "brokerid": 1, "timestamp": "1", "kraftControllerEpoch": -1},
    "/controller_epoch": "5",
    "/brokers/ids": "",
    "/brokers/ids/1": registration(1),
    "/brokers/ids/2": registration(2),
    "/brokers/topics": "",
    "/brokers/topics/t": {"version": 1, "partitions": {"0": [1, 2], "1": [1, 2]}},
    "/brokers/topics/t/partitions/0/state": STATE,
    "/brokers/topics/t/partitions/1/state": STATE,
}
"""Two brokers, and a topic with two partitions."""

SETTINGS = {
    "zookeeper.metadata.migration.enable": "false",
    "inter.broker.protocol.version": "3.9-IV0",
    "broker.id.generation.enable": "true",
    "reserved.broker.max.id": "1000",
    "log.dirs": "/data",
}


def view_of(znodes: Mapping[str, Content]) -> ZnodeView:
    """These znodes; registrations are ephemeral, and so is /controller unless it is KRaft's."""
    tree = Tree()
    tree.load(
        {
            path: Znode(_bytes(content), 1, 1, 0, 0, 0, 0, _owner(path, content), 1)
            for path, content in znodes.items()
            if content is not None
        }
    )
    return ZnodeView(tree, "")


def _bytes(content: Content) -> bytes:
    return content.encode() if isinstance(content, str) else json.dumps(content).encode()


def _owner(path: str, content: Content) -> int:
    if path == "/controller":
        is_kraft = isinstance(content, dict) and content.get("kraftControllerEpoch", -1) > 0
        return 0 if is_kraft or "persistent" in str(content) else SESSION
    return SESSION if path.startswith("/brokers/ids/") else 0


def broker(
    number: int,
    settings: Mapping[str, str] | None = None,
    *,
    release: tuple[int, ...] = LATEST,
    fault: str = "",
) -> MigratingBroker:
    """A running broker, with these changes of its settings."""
    merged = {**SETTINGS, **(settings or {})}
    return MigratingBroker(broker=number, release=release, settings=merged, fault=fault)


def found(
    znodes: Mapping[str, Content] | None = None,
    brokers: list[MigratingBroker] | None = None,
    level: str | None = None,
) -> list[MigrationFinding]:
    """The problems of a cluster whose only faults are these znodes (None: deleted) and brokers."""
    view = view_of({**WELL, **(znodes or {})})
    answers = [broker(1), broker(2)] if brokers is None else brokers
    findings = findings_of(MigratingCluster(cluster_of(view, 0, ""), view, answers))
    return [one for one in findings if one.level != "ok" and level in (None, one.level)]


def problem(
    znodes: Mapping[str, Content] | None = None, brokers: list[MigratingBroker] | None = None
) -> MigrationFinding:
    """The only problem."""
    [one] = found(znodes, brokers)
    return one
