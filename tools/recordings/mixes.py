"""Mixes: the kind of cluster, and the weights of operations."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tools.recordings.operations import (
    Operation,
    by_hand,
    combined,
    partitions,
    perform,
    servers,
    settings,
    topics,
)
from tools.recordings.recorded_cluster import RecordedCluster

_FIRST_TOPICS = 3
_PAUSES_SECONDS = (0.0, 0.1, 0.5, 1.0, 2.0, 3.0, 5.0)

_TOPICS: Mapping[Operation, int] = {
    topics.create_topic: 5,
    topics.delete_topic: 4,
    topics.add_partitions: 3,
    topics.join_group: 1,
    settings.change_topic_config: 1,
}
_REASSIGNMENTS: Mapping[Operation, int] = {
    partitions.reassign: 5,
    partitions.reassign_by_znode: 2,
    partitions.cancel_reassignments: 3,
}
_ELECTIONS: Mapping[Operation, int] = {partitions.elect_leaders: 3, partitions.elect_by_znode: 2}
_BROKERS: Mapping[Operation, int] = {
    servers.kill_broker: 3,
    servers.stop_broker: 3,
    servers.pause_broker: 3,
    servers.kill_controller: 1,
    servers.stop_controller: 1,
    servers.pause_controller: 1,
}


@dataclass(frozen=True)
class Mix:
    """`weights` is how often each operation happens, `overlap` the share of operations that run in
    parallel with the next ones. `first` are operations before all others, `setup` fields of Setup
    that the mix fixes."""

    weights: Mapping[Operation, int]
    overlap: float = 0.4
    first: tuple[Operation, ...] = ()
    setup: Mapping[str, Any] = field(default_factory=dict)

    async def run(self, cluster: RecordedCluster, rng: Random, seconds: float) -> None:
        """Perform one operation after the other for this time. Acts in the background may still be
        running."""
        end = time.monotonic() + seconds
        for operation in (*(topics.create_topic,) * _FIRST_TOPICS, *self.first):
            await perform(operation, cluster, _own(rng))
        choices = list(self.weights)
        while time.monotonic() < end:
            operation = rng.choices(choices, list(self.weights.values()))[0]
            doing = perform(operation, cluster, _own(rng))
            if rng.random() < self.overlap:
                cluster.in_background(doing)
            else:
                await doing
            await asyncio.sleep(rng.choice(_PAUSES_SECONDS))


def _own(rng: Random) -> Random:
    """A separate Random for an operation, so that its draws do not change the following ones."""
    return Random(rng.random())


MIXES: Mapping[str, Mix] = {
    "crashes": Mix(
        {**_BROKERS, combined.lose_two: 3, topics.create_topic: 2, partitions.elect_leaders: 1}
    ),
    "pauses": Mix(
        {servers.pause_broker: 4, servers.pause_controller: 4, **_TOPICS, **_REASSIGNMENTS}
    ),
    "restarts": Mix(
        {servers.roll: 2, servers.stop_controller: 3, servers.stop_broker: 3, **_ELECTIONS}
    ),
    "topics": Mix({**_TOPICS, servers.kill_broker: 1, combined.delete_under_way: 1}, overlap=0.7),
    "reassignments": Mix(
        {
            **_REASSIGNMENTS,
            settings.throttle: 1,
            servers.kill_broker: 1,
            combined.delete_under_way: 1,
        },
        first=(settings.throttle,),
    ),
    "unclean": Mix(
        {
            combined.lose_two: 4,
            servers.kill_broker: 3,
            settings.allow_unclean: 6,
            partitions.elect_leaders: 4,
            topics.create_topic: 2,
        }
    ),
    "rebalance": Mix(
        {**_BROKERS, **_ELECTIONS, topics.create_topic: 2, partitions.reassign: 2},
        setup={
            "config": {
                "auto.leader.rebalance.enable": "true",
                "leader.imbalance.check.interval.seconds": "3",
            }
        },
    ),
    "controller": Mix(
        {
            combined.lose_controller_within: 6,
            by_hand.delete_controller_znode: 4,
            servers.pause_controller: 2,
            **_TOPICS,
            settings.throttle: 1,
        }
    ),
    "zookeeper": Mix(
        {servers.restart_zookeeper: 2, **_TOPICS, **_REASSIGNMENTS, **_BROKERS}, overlap=0.3
    ),
    "log-dirs": Mix(
        {
            servers.lose_log_dir: 5,
            **_TOPICS,
            **_REASSIGNMENTS,
            servers.kill_broker: 1,
            servers.roll: 1,
        },
        setup={"log_dirs": 2},
    ),
    "registrations": Mix(
        {
            settings.change_listeners: 5,
            settings.update_features: 1,
            settings.take_producer_ids: 3,
            servers.roll_protocol: 1,
            by_hand.delete_controller_znode: 1,
            **_TOPICS,
            **_ELECTIONS,
        }
    ),
    "by-hand": Mix(
        {
            by_hand.delete_controller_znode: 1,
            by_hand.delete_registration: 2,
            by_hand.delete_marker: 3,
            by_hand.write_no_json: 1,
            by_hand.touch_topic: 3,
            by_hand.overwrite_state: 3,
            servers.kill_broker: 2,
            **_TOPICS,
            **_REASSIGNMENTS,
            **_ELECTIONS,
        }
    ),
    "no-deletion": Mix(
        {**_TOPICS, topics.delete_topic: 6, servers.kill_controller: 1, partitions.reassign: 2},
        setup={"config": {"delete.topic.enable": "false"}},
    ),
    "shadow": Mix(
        {
            **_TOPICS,
            **_REASSIGNMENTS,
            **_ELECTIONS,
            servers.kill_broker: 3,
            servers.stop_broker: 3,
            servers.kill_controller: 2,
            servers.stop_controller: 1,
        },
        setup={
            "chroot": "",
            "zookeeper": {"tickTime": "1000", "snapCount": "700", "preAllocSize": "64"},
        },
    ),
    "chaos": Mix(
        {
            **_BROKERS,
            **_TOPICS,
            **_REASSIGNMENTS,
            **_ELECTIONS,
            settings.allow_unclean: 2,
            settings.change_listeners: 1,
            by_hand.delete_controller_znode: 2,
            combined.delete_under_way: 1,
            combined.lose_controller_within: 3,
            servers.lose_log_dir: 1,
            combined.lose_two: 1,
            settings.take_producer_ids: 1,
            settings.throttle: 1,
        },
        setup={"log_dirs": 2},
    ),
}
"""By name. See the operations for details."""
