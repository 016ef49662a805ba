"""/brokers/ids/$id: the registration of a broker."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from controller.core.errors import ZnodeError
from controller.core.values import Broker, Endpoint
from controller.core.znodes.schema import Int32, decode_znode, parse_natural

BROKERS: Final = "/brokers"
BROKER_IDS: Final = f"{BROKERS}/ids"
BROKER_SEQUENCE: Final = f"{BROKERS}/seqid"
"""Brokers without an id draw one from it; no controller reads it."""

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PORT_MAX: Final = 65535

Port = Annotated[int, Meta(ge=-1, le=_PORT_MAX)]


def broker_path(broker: int) -> str:
    """Where a broker registers."""
    return f"{BROKER_IDS}/{broker}"


def is_broker_id(text: str) -> bool:
    """Whether the name of a znode is a broker id."""
    return parse_natural(text) is not None


class _BrokerZnode(Struct, frozen=True):
    version: Int32
    host: str | None = None
    port: Port = -1
    endpoints: list[str] | None = None
    rack: str | None = None
    listener_security_protocol_map: dict[str, str] = {}


_broker_decoder = msgspec.json.Decoder(_BrokerZnode)


def read_broker(broker: int, data: bytes | None, epoch: int) -> Broker:
    """A broker's registration (BrokerIdZNode.decode). Raises ZnodeError."""
    path = broker_path(broker)
    znode = decode_znode(_broker_decoder, path, "a broker", data)
    if znode.version < 1:
        raise ZnodeError(f"{path}: version {znode.version} is not known")
    if znode.version == 1 or znode.endpoints is None:
        if znode.host is None or znode.port < 0:
            raise ZnodeError(f"{path}: neither endpoints nor a host and port")
        endpoints: tuple[Endpoint, ...] = (
            Endpoint("PLAINTEXT", "PLAINTEXT", znode.host, znode.port),
        )
    else:
        protocols = znode.listener_security_protocol_map
        endpoints = tuple(_endpoint(path, one, protocols) for one in znode.endpoints)
    return Broker(broker, epoch, endpoints, znode.rack)


def registration_version(data: bytes | None) -> int:
    """The version of a registration that `read_broker` has read."""
    return _broker_decoder.decode(data or b"").version


def _endpoint(path: str, text: str, protocols: dict[str, str]) -> Endpoint:
    listener, _, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    number = parse_natural(port)
    if not colon or number is None or number > _PORT_MAX:
        raise ZnodeError(f"{path}: endpoint {text[:80]!r} is not LISTENER://host:port")
    # A listener that the map lacks: its name is the protocol's (Kafka's default map).
    protocol = protocols.get(listener, listener)
    if protocol not in SECURITY_PROTOCOLS:
        raise ZnodeError(f"{path}: listener {listener} has no known security protocol")
    return Endpoint(listener, protocol, host.strip("[]"), number)
