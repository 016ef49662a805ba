"""Which keys Kafka has, which a file may contain, and which the daemon uses."""

from functools import cache
from importlib.resources import files

from controller.settings.config_providers import is_of_providers
from controller.settings.security_keys import OF_AUTHORIZER, OF_BROKERS, OF_ENDPOINT, OF_ZOOKEEPER
from controller.settings.setting import OF_LISTENER, OWN
from controller.settings.table import BY_KEY, TOPIC_KEYS


@cache
def kafka_keys() -> frozenset[str]:
    """All keys that Kafka 3.9 documents for brokers."""
    listing = files("controller.settings").joinpath("kafka_keys.txt").read_text(encoding="utf-8")
    return frozenset(listing.split())


def is_known(key: str) -> bool:
    """Whether a file may contain this key: a key of refold or of a broker."""
    own = key.removeprefix(OWN)
    if key == own:
        return key in BY_KEY or is_of_broker(key)
    return key in BY_KEY or own in BY_KEY or _is_of_security(own)


def is_used(key: str) -> bool:
    """Whether the daemon uses this key of a file."""
    own = key.removeprefix(OWN)
    is_setting = key in BY_KEY or own in BY_KEY or key in TOPIC_KEYS
    return is_setting or _is_of_security(own) or is_of_providers(key) or key in OF_AUTHORIZER


def _is_of_security(key: str) -> bool:
    tables = (OF_ZOOKEEPER, OF_BROKERS, OF_ENDPOINT)
    return any(key in one for one in tables) or key.startswith(OF_LISTENER)


def is_of_broker(key: str) -> bool:
    """Whether Kafka has this key; a listener may have separate settings, and the names of config
    providers are the operator's."""
    is_kafkas = key in kafka_keys() or key in OF_AUTHORIZER
    return is_kafkas or key.startswith(OF_LISTENER) or is_of_providers(key)
