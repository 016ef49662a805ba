"""A secured lab: ZooKeeper with TLS and SASL DIGEST-MD5, brokers with SASL_SSL."""

from collections.abc import Mapping
from pathlib import Path

from kazoo.client import KazooClient

from tools.lab.certificates import PASSWORD, CertificateAuthority, Identity
from tools.lab.lab import Lab
from tools.lab.ports import HOST, free_port
from tools.lab.zookeeper import ZooKeeperServer

USER = "kafka"
ZOOKEEPER_PASSWORD = "zookeeper-secret"
BROKER_PASSWORD = "broker-secret"
CLIENT = "alice"
CLIENT_PASSWORD = "alice-secret"
LISTENER = "SECURE"


class SecuredFiles:
    """The certificates and JAAS files of one lab. Every server and client has a certificate of
    `authority`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = CertificateAuthority(folder)
        self.secure_port = free_port()

    @property
    def zookeeper_connect(self) -> str:
        """host:port of ZooKeeper's TLS port. The server's other port is in plain text."""
        return f"{HOST}:{self.secure_port}"

    async def start_zookeeper(
        self, lab: Lab, identity: Identity | None = None, **config: str
    ) -> ZooKeeperServer:
        """Start a server with SASL on both of its ports."""
        settings, login = self.zookeeper_server(identity)
        return await lab.start_zookeeper(config=settings | config, java_options=(login,))

    def zookeeper_server(self, identity: Identity | None = None) -> tuple[dict[str, str], str]:
        """The settings of such a server, and its Java option."""
        identity = identity or self.authority.issue("zookeeper")
        jaas = self.jaas(
            "Server",
            f'org.apache.zookeeper.server.auth.DigestLoginModule required user_{USER}="'
            f'{ZOOKEEPER_PASSWORD}"',
        )
        settings = {
            "secureClientPort": str(self.secure_port),
            "secureClientPortAddress": HOST,
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
            "ssl.keyStore.location": str(identity.pkcs12),
            "ssl.keyStore.password": PASSWORD,
            "ssl.trustStore.location": str(self.authority.pkcs12),
            "ssl.trustStore.password": PASSWORD,
            "ssl.clientAuth": "none",
            # Kafka's default for clients is TLSv1.2, the server's is TLSv1.3.
            "ssl.enabledProtocols": "TLSv1.2,TLSv1.3",
        }
        return settings, f"-Djava.security.auth.login.config={jaas}"

    async def start_brokers(self, lab: Lab, count: int, config: Mapping[str, str]) -> None:
        """Start brokers with the listener `LISTENER`, which log in to ZooKeeper by `client_jaas`.
        `config`: that of `broker_config` or `authorized_config`, and more."""
        login = f"-Djava.security.auth.login.config={self.client_jaas()}"
        await lab.start_brokers(
            count, listeners=[LISTENER], config=config, java_options=("-Xmx384m", login)
        )

    def broker_config(self) -> Mapping[str, str]:
        """The settings of brokers with one listener, `LISTENER`, and Kafka's ACLs in ZooKeeper."""
        identity = self.authority.issue("broker")
        login = (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'username="{USER}" password="{BROKER_PASSWORD}" user_{USER}="{BROKER_PASSWORD}";'
        )
        return {
            "listener.security.protocol.map": f"{LISTENER}:SASL_SSL,PLAINTEXT:PLAINTEXT",
            "inter.broker.listener.name": LISTENER,
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            f"listener.name.{LISTENER.lower()}.plain.sasl.jaas.config": login,
            "ssl.keystore.location": str(identity.pkcs12),
            "ssl.keystore.password": PASSWORD,
            "ssl.key.password": PASSWORD,
            "ssl.keystore.type": "PKCS12",
            "ssl.truststore.location": str(self.authority.pkcs12),
            "ssl.truststore.password": PASSWORD,
            "ssl.truststore.type": "PKCS12",
            **self.zookeeper_config(),
        }

    def authorized_config(self) -> Mapping[str, str]:
        """The settings of brokers with one listener, `LISTENER`, the user `CLIENT`, SCRAM, and
        Kafka's authorizer."""
        listener = f"listener.name.{LISTENER.lower()}"
        config = self.broker_config()
        login = config[f"{listener}.plain.sasl.jaas.config"].removesuffix(";")
        return {
            **config,
            f"{listener}.plain.sasl.jaas.config": f'{login} user_{CLIENT}="{CLIENT_PASSWORD}";',
            f"{listener}.scram-sha-512.sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            ),
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": f"User:{USER}",
        }

    def zookeeper_config(self) -> Mapping[str, str]:
        """Kafka's settings of a client of ZooKeeper, which logs in by `client_jaas`."""
        return {
            "zookeeper.connect": self.zookeeper_connect,
            "zookeeper.set.acl": "true",
            "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.ssl.truststore.location": str(self.authority.pkcs12),
            "zookeeper.ssl.truststore.password": PASSWORD,
            "zookeeper.ssl.truststore.type": "PKCS12",
        }

    def client_jaas(self, password: str = ZOOKEEPER_PASSWORD) -> Path:
        """A JAAS file with the login to ZooKeeper."""
        return self.jaas(
            "Client",
            "org.apache.zookeeper.server.auth.DigestLoginModule required "
            f'username="{USER}" password="{password}"',
        )

    def kazoo(self, password: str = ZOOKEEPER_PASSWORD) -> KazooClient:
        """Another client of ZooKeeper with the same login, not yet started."""
        login = {"mechanism": "DIGEST-MD5", "username": USER, "password": password}
        return KazooClient(
            self.zookeeper_connect, use_ssl=True, ca=str(self.authority.pem), sasl_options=login
        )

    def jaas(self, section: str, entry: str) -> Path:
        """A JAAS file with one section."""
        file = self.folder / f"{section.lower()}.jaas"
        file.write_text(f"{section} {{ {entry}; }};\n")
        return file
