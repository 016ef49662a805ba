"""The incident of `make demo` on a secured cluster, and what clients without rights get.

ZooKeeper has TLS and SASL, three stock brokers have SASL_SSL and Kafka's ACLs, and refold is their
controller with such an endpoint. All certificates are made here. A client needs an ACL for what it
does; the brokers' user is a super user.
"""

import ssl
from collections.abc import Mapping
from pathlib import Path

import typer
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from aiozk.exc import NoAuth

from controller.core import znodes
from tools.demo.incident import BROKER_CONFIG, TOPIC, DemoIncident
from tools.demo.stage import BROKERS, DAEMON_ID, DemoFailed, ServersFolder, Stage, perform
from tools.lab import Lab
from tools.lab.kafka_tools import KafkaTools, ToolResult
from tools.lab.ports import HOST, free_port
from tools.lab.refold import Refold
from tools.lab.secured import BROKER_PASSWORD, CLIENT, CLIENT_PASSWORD, LISTENER, USER, SecuredFiles

_REFUSED_MS_MAX = 3000
_REFUSED = "not_authorized"


class SecuredStage(Stage):
    """A secured cluster. Its observer reads ZooKeeper's port in plain text, without a login."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        super().__init__(lab, folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.files = SecuredFiles(folder / "certificates")
        self._port = free_port()
        self._tools = KafkaTools(lab.kafka)
        self.client_security = self.login(CLIENT_PASSWORD)

    def login(self, password: str) -> Mapping[str, object]:
        """How the client logs in, as arguments of aiokafka."""
        return {
            "security_protocol": "SASL_SSL",
            "ssl_context": ssl.create_default_context(cafile=str(self.files.authority.pem)),
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": CLIENT,
            "sasl_plain_password": password,
        }

    async def _start_servers(self, config: Mapping[str, str], protocol: str | None) -> None:
        self.say("starting ZooKeeper with TLS and SASL, and three brokers with SASL_SSL and ACLs")
        await self.files.start_zookeeper(self.lab)
        jaas = self.files.client_jaas()
        await self.lab.start_brokers(
            BROKERS,
            inter_broker_protocol=protocol,
            listeners=[LISTENER],
            config={**config, **self.files.authorized_config()},
            java_options=("-Xmx384m", f"-Djava.security.auth.login.config={jaas}"),
        )

    def new_daemon(self, log_dir: Path) -> Refold:
        stock = (self.lab.brokers[0].folder / "server.properties").read_text()
        config = self.folder / "refold.properties"
        config.write_text(f"{stock}\nrefold.login.config={self.files.client_jaas()}\n")
        return Refold(
            self.files.zookeeper_connect,
            DAEMON_ID,
            log_dir,
            *("--config", str(config), "--take-over"),
            listeners=f"{LISTENER}://{HOST}:{self._port}",
        )

    async def refuse_strangers(self) -> None:
        """Try clients that do not log in, log in with a wrong password, or have no rights. Raises
        DemoFailed."""
        endpoint = f"{HOST}:{self._port}"
        await self._require_refusal(endpoint, {})
        self.say("a client without TLS gets no connection to refold")
        await self._require_refusal(endpoint, self.login("wrong"))
        self.say(f"{CLIENT} with a wrong password gets no connection to refold")
        znode = znodes.CONTROLLER_EPOCH
        try:
            await self.view.overwrite(znode, "9")
        except NoAuth:
            self.say(f"ZooKeeper denies a stranger the write of {znode}")
        else:
            raise DemoFailed(f"a stranger may write {znode}")

    async def _require_refusal(self, address: str, security: Mapping[str, object]) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=address, request_timeout_ms=_REFUSED_MS_MAX, **security
        )
        try:
            await producer.start()
        except KafkaError:
            return
        finally:
            await producer.stop()
        raise DemoFailed(f"{address} serves a client that did not log in")

    async def deny_and_allow(self) -> None:
        """The client creates a topic, before and after it has the right. Raises DemoFailed."""
        denied = await self._create_topic("audits")
        if denied.status == 0 or "TopicAuthorizationException" not in denied.problems:
            raise DemoFailed(f"{CLIENT} may create a topic without a right: {denied}")
        logged = [one["message"] for one in self._refold.messages() if one.get("code") == _REFUSED]
        if not any(f"User:{CLIENT} " in one for one in logged):
            raise DemoFailed(f"refold has not refused {CLIENT}: {logged}")
        self.say(f"{CLIENT} without rights may not create a topic; refold logs: {logged[-1]}")
        rights = ("--add", "--allow-principal", f"User:{CLIENT}")
        for resource in ("audits", TOPIC):
            for role in (("--producer",), ("--operation", "Read")):
                await self._require(
                    await self._run_tool("acls", USER, *rights, *role, "--topic", resource)
                )
        self.say(f"kafka-acls allows {CLIENT} to create, write and read {TOPIC} and audits")
        await self._require(await self._create_topic("audits"))
        self.say(f"{CLIENT} may create the topic now")

    async def _create_topic(self, topic: str) -> ToolResult:
        return await self._run_tool("topics", CLIENT, "--create", "--topic", topic)

    async def _run_tool(self, tool: str, user: str, *arguments: str) -> ToolResult:
        """Run one of Kafka's tools as a user."""
        password = {USER: BROKER_PASSWORD, CLIENT: CLIENT_PASSWORD}[user]
        config = self.folder / f"{user}.properties"
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        config.write_text(
            "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nssl.truststore.type=PEM\n"
            f"ssl.truststore.location={self.files.authority.pem}\n"
            f'sasl.jaas.config={module} required username="{user}" password="{password}";\n'
        )
        given = ("--bootstrap-server", self.lab.bootstrap, "--command-config", str(config))
        return await self._tools.run(f"kafka-{tool}", *given, *arguments)

    async def _require(self, result: ToolResult) -> None:
        if result.status != 0:
            raise DemoFailed(f"a tool failed: {result.output} {result.problems}")


app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def main(
    folder: ServersFolder = None,
) -> None:
    """Show refold on a secured cluster. Exit status: 0 all checks passed, 1 one failed."""

    async def play(stage: SecuredStage) -> None:
        await stage.start(BROKER_CONFIG)
        await stage.take_over()
        await stage.refuse_strangers()
        await stage.deny_and_allow()
        await DemoIncident(stage).play()

    perform(play, folder, "demo-secure", SecuredStage)


if __name__ == "__main__":
    app()
