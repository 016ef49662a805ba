"""Settings for the tests of the operator's commands."""

from pathlib import Path

from controller.settings.settings import Settings, load
from controller.settings.sources import RawSetting

_NEEDED = {
    "zookeeper.connect": "zk1:2181/kafka",
    "broker.id": "1000",
    "refold.log.dir": "/logs",
    "listeners": "PLAINTEXT://h9:9190",
}


def settings(given: dict[str, str] | None = None, config: Path | None = None) -> Settings:
    """Valid settings, with these changes and those in the file `config`."""
    merged = {**_NEEDED, **(given or {})}
    flags = [RawSetting(key, text, "test") for key, text in merged.items()]
    return load(flags, {}, config).settings
