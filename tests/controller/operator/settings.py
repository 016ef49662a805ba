"""Settings for the tests of the operator's commands."""

from controller.settings.settings import Settings, load
from controller.settings.sources import RawSetting

_NEEDED = {
    "zookeeper.connect": "zk1:2181/kafka",
    "broker.id": "1000",
    "refold.log.dir": "/logs",
    "listeners": "PLAINTEXT://h9:9190",
}


def settings(given: dict[str, str] | None = None) -> Settings:
    """Valid settings, with these changes."""
    merged = {**_NEEDED, **(given or {})}
    return load([RawSetting(key, text, "test") for key, text in merged.items()], {}, None).settings
