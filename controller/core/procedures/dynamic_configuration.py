"""Configurations that are changed while the cluster runs: unclean leader election (KB 3.10) and
min.insync.replicas.

Notifications in /config/changes inform brokers and the active daemon of changes.
"""

from collections.abc import Iterable

from controller.core import znodes
from controller.core.controller import Controller
from controller.core.topic_configs import MIN_INSYNC_REPLICAS, UNCLEAN, is_true, least_in_sync
from controller.core.triggers import TopicUncleanLeaderElectionEnable, UncleanLeaderElectionEnable
from controller.core.zookeeper_io import list_numbered_notifications, read_contents

_RULE = "dynamic configuration"
_TOPIC = "topics/"
_BROKER = "brokers/"


async def read_dynamic_configuration(controller: Controller) -> None:
    """Read the current default; later changes come as notifications."""
    controller.context.config_change = max(await _list(controller), default="")
    await _read_unclean_default(controller)


async def process_config_changes(controller: Controller) -> dict[str, None] | None:
    """Process new notifications: those of unclean leader election lead to elections. Returns the
    entities that they name, such as "topics/t"; None if there is no new notification."""
    context = controller.context
    new = [path for path in await _list(controller) if path > context.config_change]
    if not new:
        return None
    context.config_change = new[-1]
    entities = await _entities(controller, new)
    if any(one.startswith(_BROKER) for one in entities):
        before = context.unclean_default
        await _read_unclean_default(controller)
        if context.unclean_default and not before:
            controller.enqueue(UncleanLeaderElectionEnable())
    topics = [one.removeprefix(_TOPIC) for one in entities if one.startswith(_TOPIC)]
    paths = [znodes.topic_config_path(topic) for topic in topics]
    overrides = await _read_overrides(controller, paths, _RULE)
    for topic, of_topic in zip(topics, overrides, strict=True):
        if is_true(of_topic.get(UNCLEAN)):
            controller.enqueue(TopicUncleanLeaderElectionEnable(topic))
    return entities


async def _list(controller: Controller) -> list[str]:
    return await list_numbered_notifications(controller, znodes.CONFIG_CHANGES, _RULE)


async def _entities(controller: Controller, paths: list[str]) -> dict[str, None]:
    """The entities that notifications name, such as "topics/t", each once."""
    changes = await read_contents(controller, paths, _RULE, znodes.read_config_change)
    return dict.fromkeys(changes.values())


async def _read_unclean_default(controller: Controller) -> None:
    """Read the default for topics without a setting: of this broker, else of all brokers, else the
    daemon's."""
    configuration = controller.configuration
    default = configuration.unclean_leader_election_enable
    paths = [znodes.broker_config_path(None), znodes.broker_config_path(configuration.broker_id)]
    for overrides in await _read_overrides(controller, paths, _RULE):
        setting = overrides.get(UNCLEAN)
        default = default if setting is None else is_true(setting)
    controller.context.unclean_default = default


async def _read_overrides(
    controller: Controller, paths: list[str], rule: str
) -> list[dict[str, str]]:
    """The overrides in each znode; none where it is missing or unreadable."""
    overrides = await read_contents(controller, paths, rule, znodes.read_config)
    return [overrides.get(path, {}) for path in paths]


async def read_min_insync_replicas(
    controller: Controller, topics: Iterable[str], rule: str
) -> dict[str, int]:
    """The min.insync.replicas of each topic: its setting, else the cluster's dynamic default, else
    the daemon's, else Kafka's."""
    names = list(dict.fromkeys(topics))
    if not names:
        return {}
    paths = [*map(znodes.topic_config_path, names), znodes.broker_config_path(None)]
    overrides = await _read_overrides(controller, paths, rule)
    settings = [one.get(MIN_INSYNC_REPLICAS) for one in overrides]
    own = controller.configuration.broker_settings.get(MIN_INSYNC_REPLICAS)
    return {
        name: least_in_sync([of_topic, settings[-1], own])
        for name, of_topic in zip(names, settings[:-1], strict=True)
    }
