"""Free loopback ports for servers that keep their port over a restart."""

import random
import socket
from pathlib import Path

HOST = "127.0.0.1"
_DEFAULT_EPHEMERAL_FIRST = 32768
_FIRST = 15000
_given: set[int] = set()


def free_port() -> int:
    """A port that nothing listens on; each port is returned once per process.

    It is below the ephemeral ports, which an outgoing connection could use while the server is
    down.
    """
    while True:
        port = random.randrange(_FIRST, _ephemeral_first())
        if port not in _given and _can_bind(port):
            _given.add(port)
            return port


def _can_bind(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _ephemeral_first() -> int:
    setting = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first = int(setting.read_text().split()[0]) if setting.exists() else _DEFAULT_EPHEMERAL_FIRST
    return first if first > _FIRST + 1000 else 65536
