"""The min.insync.replicas that holds for topics, as their leaders see it."""

from collections.abc import Iterable

from controller.core import znodes
from controller.core.controller import Controller
from controller.core.errors import ZnodeError
from controller.core.topic_configs import MIN_INSYNC_REPLICAS, least_in_sync
from controller.core.zookeeper_io import read_znodes


async def read_min_insync_replicas(
    controller: Controller, topics: Iterable[str], rule: str
) -> dict[str, int]:
    """Each topic's own, else the cluster's dynamic default, else the daemon's, else Kafka's."""
    names = list(dict.fromkeys(topics))
    if not names:
        return {}
    paths = [*map(znodes.topic_config_path, names), znodes.broker_config_path(None)]
    found = await read_znodes(controller, paths, rule)
    settings: list[str | None] = []
    for path, data in zip(paths, found.data, strict=True):
        setting = None
        try:
            setting = znodes.read_config(path, data).get(MIN_INSYNC_REPLICAS)
        except ZnodeError as unreadable:
            controller.notice("error", "unreadable_znode", path, f"{unreadable}; skipped")
        settings.append(setting)
    own = controller.configuration.broker_settings.get(MIN_INSYNC_REPLICAS)
    return {
        name: least_in_sync([of_topic, settings[-1], own])
        for name, of_topic in zip(names, settings[:-1], strict=True)
    }
