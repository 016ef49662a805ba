"""A cluster in plain text becomes a secured one while it serves, with refold in control.

The steps are those of the docs (docs/security.md#from-plain-text-to-secured)."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from aiozk.exc import NoAuth

from controller.core import znodes
from tests.controller.daemon.lab_cluster import timed
from tools.demo.incident import BROKER_CONFIG, PARTITIONS, TOPIC
from tools.demo.secured import SecuredStage
from tools.demo.stage import BROKERS, DAEMON_ID
from tools.lab import KafkaBroker, Lab
from tools.lab.kafka_tools import run_main_class
from tools.lab.ports import HOST, free_port
from tools.lab.refold import Refold
from tools.lab.secured import CLIENT_PASSWORD, LISTENER, SecuredFiles
from tools.lab.traffic import Traffic

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

PLAIN = "PLAINTEXT"


class MovingCluster(SecuredStage):
    """The cluster. `settings` are those of brokers and refold at the present step."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        super().__init__(lab, folder)
        self.ports = {PLAIN: free_port(), LISTENER: free_port()}
        self.refold_settings: Mapping[str, str] = {}
        self.refold_listeners = [PLAIN]
        self.connect_string = ""

    async def start_plain(self) -> None:
        """ZooKeeper offers TLS and SASL, which no broker and no client uses yet."""
        server = await self.files.start_zookeeper(self.lab)
        self.connect_string = server.connect
        brokers = await self.lab.start_brokers(
            BROKERS,
            listeners=[PLAIN],
            config={**BROKER_CONFIG, "controlled.shutdown.enable": "true"},
        )
        for broker in brokers:
            broker.listeners[LISTENER] = free_port()
        await self.connect()

    def new_daemon(self, log_dir: Path) -> Refold:
        config = self.folder / "refold.properties"
        stock = dict(self.lab.brokers[0].config) | self.refold_settings
        config.write_text("".join(f"{key}={text}\n" for key, text in stock.items()))
        listeners = [f"{one}://{HOST}:{self.ports[one]}" for one in self.refold_listeners]
        return Refold(
            self.connect_string,
            DAEMON_ID,
            log_dir,
            *("--config", str(config), "--take-over"),
            listeners=",".join(listeners),
        )

    async def change_refold(self, *listeners: str, **settings: str) -> None:
        """Restart refold with other listeners and more settings."""
        await self.hand_back()
        self.refold_listeners = list(listeners)
        self.refold_settings = {**self.refold_settings, **settings}
        await self.take_over()

    async def change_brokers(
        self, *listeners: str, java_options: tuple[str, ...] = (), **settings: str
    ) -> None:
        """Restart the brokers one by one with other listeners and settings."""
        for broker in self.lab.brokers:
            addresses = ",".join(f"{one}://{HOST}:{broker.listeners[one]}" for one in listeners)
            broker.config |= {"listeners": addresses, "advertised.listeners": addresses, **settings}
            broker.java_options += java_options
            await broker.stop()
            _answer_at(broker, listeners[0])
            await broker.start()
            await self.until_in_sync(TOPIC, partitions=PARTITIONS)

    @property
    def bootstrap(self) -> str:
        """The brokers' secured listeners."""
        return ",".join(f"{HOST}:{one.listeners[LISTENER]}" for one in self.lab.brokers)


def _answer_at(broker: KafkaBroker, listener: str) -> None:
    """The lab asks the broker's first listener whether it serves."""
    ports = broker.listeners
    broker.listeners = {listener: ports[listener], **ports}
    broker.port = ports[listener]


async def test_cluster_becomes_secured_while_it_serves(tmp_path: Path) -> None:
    async with Lab(tmp_path / "cluster") as lab, MovingCluster(lab, tmp_path / "run") as cluster:
        files = cluster.files
        secured = dict(files.authorized_config())
        authorizer = {one: secured.pop(one) for one in ("authorizer.class.name", "super.users")}
        of_zookeeper = {
            one: text for one, text in secured.items() if one.startswith("zookeeper.")
        } | {"zookeeper.set.acl": "false"}
        of_brokers = {
            one: text for one, text in secured.items() if not one.startswith("zookeeper.")
        } | {"inter.broker.listener.name": PLAIN}
        login = {"refold.login.config": str(files.client_jaas())}
        jaas = (f"-Djava.security.auth.login.config={files.client_jaas()}",)
        own_acls = {"zookeeper.set.acl": "true"}

        await cluster.start_plain()
        await cluster.take_over()
        async with Traffic(lab.bootstrap, TOPIC) as traffic:
            await cluster.until_in_sync(TOPIC, partitions=PARTITIONS)
            # 1: the brokers get a second listener.
            await cluster.change_brokers(PLAIN, LISTENER, **of_brokers)
            # 2: refold gets it as well, and logs in to ZooKeeper.
            cluster.connect_string = files.zookeeper_connect
            await cluster.change_refold(PLAIN, LISTENER, **of_zookeeper, **login)
            # 3: the brokers log in to ZooKeeper, and use the new listener among themselves.
            inter_broker = {"inter.broker.listener.name": LISTENER}
            await cluster.change_brokers(
                PLAIN, LISTENER, java_options=jaas, **of_zookeeper, **inter_broker
            )
            # 4: so does refold, for requests to brokers.
            rights = {**authorizer, "allow.everyone.if.no.acl.found": "true"}
            await cluster.change_refold(PLAIN, LISTENER, **inter_broker, **own_acls, **rights)
            lost = await traffic.finish()
        assert traffic.acknowledged
        assert (lost, traffic.refused) == (set(), 0)
        # 5: the clients use the new listener.
        kafka = cluster.login(CLIENT_PASSWORD)
        async with Traffic(cluster.bootstrap, TOPIC, security=kafka) as traffic:
            # 6: the old listener ends, rights count, znodes get ACLs.
            await cluster.change_brokers(LISTENER, **own_acls, **rights)
            await cluster.change_refold(LISTENER)
            await secure_znodes(lab, files)
            victim = lab.brokers[1]
            victim.kill()

            async def replaced() -> bool:
                states = (await cluster.view.states(TOPIC)).values()
                return all(one["leader"] not in (-1, victim.broker_id) for one in states)

            await timed(replaced, "new leaders")
            await victim.start()
            await cluster.until_in_sync(TOPIC, partitions=PARTITIONS)
            lost = await traffic.finish()
        assert traffic.acknowledged
        assert (lost, traffic.refused) == (set(), 0)
        for path in (
            znodes.state_path(TOPIC, 0),
            znodes.topic_path(TOPIC),
            znodes.CONTROLLER_EPOCH,
        ):
            with pytest.raises(NoAuth):
                await cluster.view.overwrite(path, "{}")
        await cluster.hand_back()
        await cluster.replay()


async def secure_znodes(lab: Lab, files: SecuredFiles) -> None:
    """Give the znodes from before their ACLs, with Kafka's own tool."""
    config = files.folder / "zookeeper-client.properties"
    content = {
        one: text
        for one, text in files.zookeeper_config().items()
        if ".ssl." in one or "Cnxn" in one
    }
    config.write_text("".join(f"{one}={text}\n" for one, text in content.items()))
    done = await run_main_class(
        lab.kafka,
        "kafka.admin.ZkSecurityMigrator",
        "--zookeeper.acl=secure",
        f"--zookeeper.connect={files.zookeeper_connect}",
        f"--zk-tls-config-file={config}",
        java_options=(f"-Djava.security.auth.login.config={files.client_jaas()}",),
    )
    assert done.status == 0, done
