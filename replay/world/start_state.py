"""The znodes that a scenario begins with."""

from typing import Final

import msgspec

from controller.core import znodes
from controller.core.operations import NODE_EXISTS, OK, Create, SetData
from controller.core.protocol_versions import ProtocolVersion
from controller.core.values import ANY_VERSION, Assignment
from controller.core.znodes.topics import TopicContent, write_topic
from replay.world.draws import Draws
from replay.world.scenario import Scenario
from replay.world.scheduler import WALL_START_MS
from replay.world.zookeeper import ZooKeeper

CLUSTER_ID: Final = "worldworldworldworldwo"

PERSISTENT: Final = (
    znodes.ADMIN,
    znodes.DELETE_TOPICS,
    znodes.BROKERS,
    znodes.BROKER_IDS,
    znodes.BROKER_SEQUENCE,
    znodes.TOPICS,
    znodes.CLUSTER,
    znodes.CONFIGS,
    znodes.BROKER_CONFIGS,
    znodes.CONFIG_CHANGES,
    znodes.CLIENT_CONFIGS,
    znodes.IP_CONFIGS,
    znodes.TOPIC_CONFIGS,
    znodes.USER_CONFIGS,
    znodes.CONSUMERS,
    znodes.ISR_CHANGES,
    znodes.LOG_DIR_EVENTS,
)
"""The znodes that brokers create when they start (ZkData.PersistentZkPaths, KB 1.1)."""


def start_state(scenario: Scenario) -> ZooKeeper:
    """A server with the znodes of a cluster whose brokers and controllers are down."""
    server = ZooKeeper()
    session = server.create_session()
    for path, data in _znodes(scenario).items():
        _put_znode(server, session, path, data)
    server.end_session(session)
    return server


def _znodes(scenario: Scenario) -> dict[str, bytes]:
    found = dict.fromkeys(PERSISTENT, b"")
    found[znodes.CLUSTER_ID] = msgspec.json.encode({"version": "1", "id": CLUSTER_ID})
    draws = Draws(scenario.seed, "start")
    has_ids = ProtocolVersion(scenario.protocol).has_topic_ids
    for topic in scenario.topics:
        content = TopicContent(
            {number: Assignment(replicas) for number, replicas in enumerate(topic.assignment)},
            draws.topic_id() if has_ids else None,
        )
        found[znodes.topic_path(topic.name)] = write_topic(content)
        found[znodes.topic_config_path(topic.name)] = znodes.write_config(topic.configs)
    for path in scenario.znodes:
        found[path] = scenario.znodes[path].encode()
    return found


def _put_znode(server: ZooKeeper, session: int, path: str, data: bytes) -> None:
    parts = path.split("/")
    for end in range(2, len(parts)):
        server.apply(session, Create("/".join(parts[:end])), WALL_START_MS)
    created = server.apply(session, Create(path, data), WALL_START_MS).result.error
    if created == NODE_EXISTS:
        created = server.apply(
            session, SetData(path, data, ANY_VERSION), WALL_START_MS
        ).result.error
    assert created == OK, (path, created)
