"""Settings that are changed while the cluster runs: unclean leader election (KB 3.10).

Brokers hear of changes through /config/changes; the daemon does the same while it is controller.
"""

import re

from controller.core import znodes
from controller.core.controller import Controller
from controller.core.errors import ZnodeError
from controller.core.operations import OK
from controller.core.procedures.role.notifications import list_notifications
from controller.core.triggers import TopicUncleanLeaderElectionEnable, UncleanLeaderElectionEnable
from controller.core.zookeeper_io import read_znodes

_RULE = "dynamic configuration"
_KEY = "unclean.leader.election.enable"
_TOPIC = "topics/"
_BROKER = "brokers/"
_NUMBERED = re.compile(rf"{znodes.CONFIG_CHANGES}/config_change_[0-9]{{10}}")


async def read_dynamic_configuration(controller: Controller) -> None:
    """What holds now; changes from here on are notifications that come later."""
    controller.context.config_change = max(await _list(controller), default="")
    await _read_default(controller)


async def process_config_changes(controller: Controller) -> None:
    """Notifications appeared: those of unclean leader election lead to elections."""
    context = controller.context
    new = [path for path in await _list(controller) if path > context.config_change]
    if not new:
        return
    context.config_change = new[-1]
    entities = await _entities(controller, new)
    if any(one.startswith(_BROKER) for one in entities):
        before = context.unclean_default
        await _read_default(controller)
        if context.unclean_default and not before:
            controller.enqueue(UncleanLeaderElectionEnable())
    topics = [one.removeprefix(_TOPIC) for one in entities if one.startswith(_TOPIC)]
    overrides = await _read(controller, [znodes.topic_config_path(topic) for topic in topics])
    for topic, of_topic in zip(topics, overrides, strict=True):
        if _is_true(of_topic.get(_KEY)):
            controller.enqueue(TopicUncleanLeaderElectionEnable(topic))


async def _list(controller: Controller) -> list[str]:
    """The notifications in order; another name would stand behind all that come later."""
    paths = await list_notifications(controller, znodes.CONFIG_CHANGES, _RULE)
    return [path for path in paths if _NUMBERED.fullmatch(path)]


async def _entities(controller: Controller, paths: list[str]) -> dict[str, None]:
    """The entities that notifications name, such as "topics/t", each once."""
    found = await read_znodes(controller, paths, _RULE)
    entities: dict[str, None] = {}
    for path, error, data in zip(paths, found.errors, found.data, strict=True):
        if error == OK:
            try:
                entities[znodes.read_config_change(path, data)] = None
            except ZnodeError as unreadable:
                controller.notice("error", "unreadable_znode", path, f"{unreadable}; skipped")
    return entities


async def _read_default(controller: Controller) -> None:
    """What counts for topics that say nothing: the broker's own, of all brokers, the daemon's."""
    configuration = controller.configuration
    default = configuration.unclean_leader_election_enable
    paths = [znodes.broker_config_path(None), znodes.broker_config_path(configuration.broker_id)]
    for overrides in await _read(controller, paths):
        setting = overrides.get(_KEY)
        default = default if setting is None else _is_true(setting)
    controller.context.unclean_default = default


async def _read(controller: Controller, paths: list[str]) -> list[dict[str, str]]:
    """The overrides in each znode; none where it is missing or unreadable."""
    found = await read_znodes(controller, paths, _RULE)
    overrides: list[dict[str, str]] = []
    for path, data in zip(paths, found.data, strict=True):
        try:
            overrides.append(znodes.read_config(path, data))
        except ZnodeError as unreadable:
            controller.notice("error", "unreadable_znode", path, f"{unreadable}; skipped")
            overrides.append({})
    return overrides


def _is_true(setting: str | None) -> bool:
    return setting is not None and setting.strip().lower() == "true"
