"""Parses Kafka's `zookeeper.connect`: several servers and one chroot, "h1:2181,h2:2181/chroot"."""

from typing import NamedTuple

from controller.zookeeper.errors import BadConnectString

DEFAULT_PORT = 2181


class ServerAddress(NamedTuple):
    """The address of one ZooKeeper server."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class ConnectString(NamedTuple):
    """The servers in the given order, and the chroot: "" or "/a/b" without a trailing slash."""

    servers: tuple[ServerAddress, ...]
    chroot: str

    def __str__(self) -> str:
        return f"{','.join(map(str, self.servers))}{self.chroot}"


def parse_connect_string(text: str) -> ConnectString:
    """Parse `zookeeper.connect`. The default port is 2181. Raises BadConnectString."""
    hosts, slash, chroot = text.strip().partition("/")
    servers = tuple(_server(one.strip(), text) for one in hosts.split(",") if one.strip())
    if not servers:
        raise BadConnectString(f"{text!r} names no ZooKeeper server: give HOST:PORT,.../chroot")
    chroot = f"{slash}{chroot}".rstrip("/")
    if "//" in chroot:
        raise BadConnectString(f"the chroot {chroot!r} in {text!r} has an empty part")
    if "," in chroot:
        raise BadConnectString(f"{text!r}: add the chroot once, after the last server")
    return ConnectString(servers, chroot)


def _server(one: str, text: str) -> ServerAddress:
    if one.startswith("["):
        host, _, rest = one[1:].partition("]")
        port = rest.removeprefix(":")
    else:
        host, _, port = one.partition(":")
    port = port or str(DEFAULT_PORT)
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise BadConnectString(f"{one!r} in {text!r} is not HOST:PORT")
    return ServerAddress(host, int(port))
