"""Parsers for the text of settings. Each raises ValueError with a description of the allowed
values.
"""

import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from controller.core import config_types, topic_names
from controller.core.client_address import canonical_address
from controller.core.errors import ConfigurationError
from controller.core.protocol_versions import ProtocolVersion
from controller.core.znodes.brokers import SECURITY_PROTOCOLS
from controller.zookeeper.errors import BadConnectString
from controller.zookeeper.servers import ConnectString, parse_connect_string

SOCKET_PATH_BYTES_MAX: Final = 106 if sys.platform == "linux" else 102
"""The longest path of a status socket. The system stores 108 bytes (Linux) or 104 (BSD, macOS): one
more for the name under which the daemon creates the socket, and one for the end."""


class Address(NamedTuple):
    """One entry of `listeners`; an empty host means every interface."""

    listener: str
    host: str
    port: int


class HostAndPort(NamedTuple):
    """A host and a port to listen on."""

    host: str
    port: int


def boolean(text: str) -> bool:
    """true or false, in any case, as Kafka parses it."""
    try:
        return config_types.boolean(text)
    except ValueError:
        raise ValueError("true or false") from None


def whole_number(least: int, most: int = 2**31 - 1) -> Callable[[str], int]:
    """A parser of whole numbers in a range, including both ends."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise ValueError(f"a whole number from {least} to {most}")
        return number

    return parse


def limit(text: str) -> int | None:
    """A number above 0; -1 means no limit, as in Kafka's log.retention.bytes."""
    if text == "-1":
        return None
    try:
        return whole_number(1, 2**63 - 1)(text)
    except ValueError:
        raise ValueError("a whole number above 0, or -1 for no limit") from None


def one_of(*allowed: str) -> Callable[[str], str]:
    """A parser that accepts one of these words."""

    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(" or ".join(allowed))
        return text

    return parse


def folder(text: str) -> Path:
    """A folder; ~ is the home folder."""
    try:
        found = Path(text).expanduser()
    except RuntimeError:
        raise ValueError("a folder; ~ and ~user must be existing home folders") from None
    if "\0" in text:
        raise ValueError("a folder without a null character in its name")
    return found


def socket_path(text: str) -> Path:
    """The path of a Unix socket; ~ is the home folder."""
    found = folder(text)
    if len(os.fsencode(found)) > SOCKET_PATH_BYTES_MAX:
        raise ValueError(f"a path of at most {SOCKET_PATH_BYTES_MAX} bytes, as of a Unix socket")
    return found


def connect_string(text: str) -> ConnectString:
    """Servers and chroot of ZooKeeper."""
    try:
        found = parse_connect_string(text)
    except BadConnectString as error:
        raise ValueError(f"HOST:PORT,HOST:PORT/chroot ({error})") from None
    for server in found.servers:
        _check_host(server.host)
    return found


def protocol_version(text: str) -> str:
    """An inter.broker.protocol.version, as its full name."""
    try:
        return ProtocolVersion(text).name
    except ConfigurationError:
        raise ValueError("a version from 2.4 to 3.9, such as 2.8 or 2.8-IV1") from None


def addresses(text: str) -> tuple[Address, ...]:
    """LISTENER://host:port, comma-separated."""
    found = tuple(_address(one.strip()) for one in text.split(",") if one.strip())
    names = [one.listener for one in found]
    if not found or len(set(names)) < len(names):
        raise ValueError("LISTENER://host:port, comma-separated, each LISTENER once")
    return found


def _address(text: str) -> Address:
    listener, found, place = text.partition("://")
    host, colon, port = place.rpartition(":")
    if not (listener and found and colon and port.isascii() and port.isdigit()):
        raise ValueError(f"LISTENER://host:port, but {text!r} is not")
    if int(port) > 65535:
        raise ValueError(f"a port up to 65535, but {port} is not")
    _check_host(host)
    return Address(listener.upper(), host.strip("[]"), int(port))


def _check_host(host: str) -> None:
    """Reject names that no resolver accepts, since it would raise an error that is no OSError."""
    try:
        host.encode("idna")
    except UnicodeError:
        text = "a host name with 1 to 63 characters between two dots"
        raise ValueError(f"{text}, but {host[:80]!r} is not") from None


def counts_by_address(text: str) -> dict[str, int]:
    """HOST:COUNT, comma-separated: the count of each address of the hosts, which are resolved as by
    Kafka (ConnectionQuotas)."""
    found: dict[str, int] = {}
    for one in text.split(","):
        host, _, count = one.strip().rpartition(":")
        if not host or not (count.isascii() and count.isdigit()):
            raise ValueError(f"HOST:COUNT, comma-separated, but {one.strip()!r} is not")
        _check_host(host)
        try:
            resolved = socket.getaddrinfo(host.strip("[]"), None, proto=socket.IPPROTO_TCP)
        except OSError as error:
            raise ValueError(f"hosts with an address, but {host} has none: {error}") from None
        found |= {canonical_address(str(place[0])): int(count) for *_, place in resolved}
    return found


def servers(text: str) -> str:
    """HOST:PORT, comma-separated."""
    found = [one.strip() for one in text.split(",")]
    for one in found:
        host, _, port = one.rpartition(":")
        if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) <= 65535:
            raise ValueError(f"HOST:PORT, comma-separated, but {one!r} is not")
        _check_host(host)
    return ",".join(found)


def metrics_address(text: str) -> HostAndPort | None:
    """HOST:PORT, or off; port 0 is any free port."""
    if text == "off":
        return None
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ValueError("HOST:PORT, or off")
    _check_host(host)
    return HostAndPort(host.strip("[]"), int(port))


def topic(text: str) -> str:
    """A topic name."""
    if problem := topic_names.problem_of(text):
        raise ValueError(f"a topic name ({problem})")
    return text


def protocol_map(text: str) -> dict[str, str]:
    """LISTENER:PROTOCOL, comma-separated."""
    found = {}
    for one in text.split(","):
        listener, _, protocol = one.strip().partition(":")
        if not listener or protocol.upper() not in SECURITY_PROTOCOLS:
            allowed = ", ".join(SECURITY_PROTOCOLS)
            raise ValueError(f"LISTENER:PROTOCOL, comma-separated, with PROTOCOL one of {allowed}")
        found[listener.upper()] = protocol.upper()
    return found
