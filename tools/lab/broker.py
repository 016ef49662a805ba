"""A real Kafka broker in ZooKeeper mode."""

import ssl
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio
from anyio.abc import ByteStream

from controller.settings.security import uses_tls
from tools.lab.java import java_command
from tools.lab.ports import HOST, free_port
from tools.lab.server import START_SECONDS_MAX, Server
from tools.lab.zookeeper import ZooKeeperServer

MAIN_CLASS = "kafka.Kafka"
_API_VERSIONS_REQUEST = struct.pack(">ihhih", 10, 18, 0, 0, -1)
"""Size, API key, version 0, correlation id, no client id. Every broker answers it."""

_TRACED = {"kafka.controller": "controller", "state.change.logger": "state-change"}


class KafkaBroker(Server):
    """A broker with settings for a small machine; `config` overrides any of them.

    Each listener has a separate port; the first is `port`, the inter-broker listener. Listeners are
    plain text unless `config` says otherwise. Changes of `config` and `java_options` count from the
    next start on.
    """

    def __init__(
        self,
        broker_id: int,
        folder: Path,
        jars: Path,
        *,
        zookeeper: ZooKeeperServer,
        chroot: str = "",
        inter_broker_protocol: str | None = None,
        rack: str | None = None,
        listeners: Sequence[str] = ("PLAINTEXT",),
        config: Mapping[str, str] | None = None,
        java_options: Sequence[str] = ("-Xmx384m",),
        quick_start: bool = True,
    ) -> None:
        self.listeners = {name: free_port() for name in listeners}
        super().__init__(f"broker-{broker_id}", folder, self.listeners[listeners[0]])
        self.broker_id = broker_id
        self.config = self._defaults(zookeeper.connect + chroot)
        if inter_broker_protocol is not None:
            self.config["inter.broker.protocol.version"] = inter_broker_protocol
        if rack is not None:
            self.config["broker.rack"] = rack
        self.config.update(config or {})
        self._jars = jars
        self._zookeeper = zookeeper
        self._registration = f"{chroot}/brokers/ids/{broker_id}"
        self.java_options = tuple(java_options)
        self._quick_start = quick_start

    def _defaults(self, zookeeper: str) -> dict[str, str]:
        addresses = ",".join(f"{name}://{HOST}:{port}" for name, port in self.listeners.items())
        plain = ",".join(f"{name}:PLAINTEXT" for name in self.listeners)
        return {
            "broker.id": str(self.broker_id),
            "listeners": addresses,
            "advertised.listeners": addresses,
            "listener.security.protocol.map": plain,
            "inter.broker.listener.name": next(iter(self.listeners)),
            "log.dirs": str(self.folder / "data"),
            "zookeeper.connect": zookeeper,
            "zookeeper.session.timeout.ms": "6000",
            "zookeeper.connection.timeout.ms": "30000",
            "num.network.threads": "2",
            "num.io.threads": "4",
            "log.cleaner.dedupe.buffer.size": "2097152",
            "log.cleaner.io.buffer.size": "65536",
            "offsets.topic.num.partitions": "3",
            "transaction.state.log.num.partitions": "3",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
        }

    def _command(self) -> Sequence[str]:
        properties = self.folder / "server.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in self.config.items()))
        return java_command(
            self._jars,
            MAIN_CLASS,
            str(properties),
            folder=self.folder,
            options=self.java_options,
            quick_start=self._quick_start,
            traced=_TRACED,
        )

    async def start(self, *, wait: bool = True) -> None:
        """Start the broker after ZooKeeper has removed its last registration.

        A broker that is restarted before the session of its killed process expires exits with
        NodeExists. Raises LabError as `Server.start` does.
        """

        async def forgotten() -> bool:
            return self._registration not in await self._zookeeper.ephemerals()

        await self._wait_until(forgotten, START_SECONDS_MAX, "is still registered in ZooKeeper")
        await super().start(wait=wait)

    async def _answers(self) -> bool:
        listener = next(iter(self.listeners))
        given = self.config["listener.security.protocol.map"]
        protocols = dict(one.split(":") for one in given.split(","))
        return await answers_versions(self.port, has_tls=uses_tls(protocols.get(listener, "")))


async def answers_versions(port: int, *, has_tls: bool = False) -> bool:
    """Whether a server of Kafka answers ApiVersions, which means more than accepting
    connections, and which needs no login."""
    try:
        with anyio.fail_after(2):
            async with await _open_connection(port, has_tls=has_tls) as stream:
                await stream.send(_API_VERSIONS_REQUEST)
                return bool(await stream.receive())
    except (OSError, anyio.EndOfStream, anyio.BrokenResourceError):
        return False


async def _open_connection(port: int, *, has_tls: bool) -> ByteStream:
    if not has_tls:
        return await anyio.connect_tcp(HOST, port)
    anyone = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anyone.check_hostname = False
    anyone.verify_mode = ssl.CERT_NONE
    return await anyio.connect_tcp(HOST, port, ssl_context=anyone, tls_standard_compatible=False)
