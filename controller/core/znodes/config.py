"""/config/topics/$topic, /config/brokers/$id, /config/users/$user: dynamic configurations."""

from typing import Final
from urllib.parse import quote

import msgspec
from msgspec import Struct

from controller.core.znodes.schema import decode_znode

CONFIGS: Final = "/config"
TOPIC_CONFIGS: Final = f"{CONFIGS}/topics"
BROKER_CONFIGS: Final = f"{CONFIGS}/brokers"
USER_CONFIGS: Final = f"{CONFIGS}/users"
CLIENT_CONFIGS: Final = f"{CONFIGS}/clients"
IP_CONFIGS: Final = f"{CONFIGS}/ips"


def config_path(entity: str) -> str:
    """Where the configuration of an entity such as "topics/t" is stored."""
    return f"{CONFIGS}/{entity}"


def config_entity(path: str) -> str:
    """The entity whose configuration is stored in a znode, as notifications name it."""
    return path.removeprefix(f"{CONFIGS}/")


def topic_config_path(topic: str) -> str:
    """Where the configuration overrides of a topic are stored."""
    return f"{TOPIC_CONFIGS}/{topic}"


def broker_config_path(broker: int | None) -> str:
    """Where the dynamic configuration of a broker is stored; None: of all brokers."""
    return f"{BROKER_CONFIGS}/{'<default>' if broker is None else broker}"


def user_entity(user: str) -> str:
    """The user as notifications name them: "users/" and the name as Kafka spells it in paths
    (Sanitizer.sanitize)."""
    return f"users/{sanitized(user)}"


def sanitized(name: str) -> str:
    """A user or client id as Kafka spells it in paths (Sanitizer.sanitize)."""
    return quote(name, safe="").replace("~", "%7E")


def user_config_path(user: str) -> str:
    """Where the configuration of a user is stored."""
    return config_path(user_entity(user))


class _ConfigZnode(Struct, frozen=True):
    config: dict[str, str] = {}


_config_decoder = msgspec.json.Decoder(_ConfigZnode)


def read_config(path: str, data: bytes | None) -> dict[str, str]:
    """The configuration overrides; none where there is no data. Raises ZnodeError."""
    return decode_znode(_config_decoder, path, "a configuration", data).config if data else {}


def write_config(overrides: dict[str, str]) -> bytes:
    """The content of a configuration's znode (ConfigEntityZNode.encode)."""
    return msgspec.json.encode({"version": 1, "config": overrides})
