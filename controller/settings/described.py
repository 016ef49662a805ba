"""What the daemon tells of its settings when a tool asks it for them, as it asks a broker."""

from typing import Final

from controller.core.topic_configs import OF_BROKER, OF_KAFKA, ConfigEntry, default_of
from controller.settings.sources import Given, chosen
from controller.settings.table import BY_KEY, SETTINGS, TOPIC_KEYS, kafka_keys

_KAFKAS: Final = tuple(one.key for one in SETTINGS if one.key in kafka_keys())


def described(layers: list[list[Given]]) -> tuple[ConfigEntry, ...]:
    """Every setting that has a key of Kafka's, and where its value comes from: it was given, or is
    a default, which may be the daemon's own. No password is among them: refold has none."""
    *_, file = layers
    ours = {key: _entry(key, chosen(key, layers), BY_KEY[key].default) for key in _KAFKAS}
    of_topics = {one.key: one for one in file if one.text and one.key in TOPIC_KEYS}
    theirs = {key: _entry(key, of_topics.get(key), default_of(key)) for key in TOPIC_KEYS}
    return tuple(one for _, one in sorted((ours | theirs).items()))


def _entry(key: str, given: Given | None, default: str | None) -> ConfigEntry:
    if given is not None:
        return ConfigEntry(key, given.text, OF_BROKER)
    return ConfigEntry(key, default, OF_KAFKA)
