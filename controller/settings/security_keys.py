"""Kafka's security keys that only a file can set, and the plugins among them that are refused."""

import re
from typing import Final

_STORE: Final = "PEM and PKCS12 files, by their content; JKS is refused"

OF_ZOOKEEPER: Final = {
    "zookeeper.ssl.client.enable": "connect to ZooKeeper with TLS",
    "zookeeper.ssl.truststore.location": f"the certificates to trust: {_STORE}. Default: the "
    "system's authorities",
    "zookeeper.ssl.truststore.password": "of a PKCS12 file",
    "zookeeper.ssl.truststore.type": "needed for PEM without a BEGIN line only",
    "zookeeper.ssl.keystore.location": f"the client certificate and its key: {_STORE}",
    "zookeeper.ssl.keystore.password": "of a PKCS12 file",
    "zookeeper.ssl.keystore.type": "as for the truststore",
    "zookeeper.ssl.protocol": "the version, without enabled.protocols. Default: TLSv1.2 and "
    "TLSv1.3; Kafka's is TLSv1.2 alone",
    "zookeeper.ssl.enabled.protocols": "the lowest and the highest version of TLS are taken from "
    "it",
    "zookeeper.ssl.cipher.suites": "IANA names, as in Kafka. A list without TLS 1.3 suites forbids "
    "TLS 1.3",
    "zookeeper.ssl.endpoint.identification.algorithm": "https, the default: the certificate must "
    "have the host of zookeeper.connect; empty: any name",
    "zookeeper.ssl.crl.enable": "true is refused",
    "zookeeper.ssl.ocsp.enable": "true is refused",
    "zookeeper.clientCnxnSocket": "not needed, ignored",
    "zookeeper.set.acl": "znodes that refold creates belong to its login; everyone may read those "
    "without secrets",
}
"""Keys for the connection to ZooKeeper, and what they mean here."""

OF_BROKERS: Final = {
    "ssl.truststore.location": OF_ZOOKEEPER["zookeeper.ssl.truststore.location"],
    "ssl.truststore.password": OF_ZOOKEEPER["zookeeper.ssl.truststore.password"],
    "ssl.truststore.type": OF_ZOOKEEPER["zookeeper.ssl.truststore.type"],
    "ssl.truststore.certificates": "the certificates to trust, as PEM text",
    "ssl.keystore.location": OF_ZOOKEEPER["zookeeper.ssl.keystore.location"],
    "ssl.keystore.password": OF_ZOOKEEPER["zookeeper.ssl.keystore.password"],
    "ssl.keystore.type": OF_ZOOKEEPER["zookeeper.ssl.keystore.type"],
    "ssl.keystore.certificate.chain": "the client certificate, as PEM text",
    "ssl.keystore.key": "its private key, as PEM text in PKCS8 format",
    "ssl.key.password": "of a private key in PEM",
    "ssl.enabled.protocols": OF_ZOOKEEPER["zookeeper.ssl.enabled.protocols"]
    + ". Default: TLSv1.2,TLSv1.3",
    "ssl.cipher.suites": OF_ZOOKEEPER["zookeeper.ssl.cipher.suites"],
    "ssl.endpoint.identification.algorithm": "https, the default: the certificate must have the "
    "host that the broker advertises; empty: any name",
    "sasl.mechanism.inter.broker.protocol": "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER. "
    "Kafka's default, GSSAPI, is refused. If refold's endpoint has the listener, the mechanism "
    "must be one of sasl.enabled.mechanisms",
    "listener.name.<listener>.<mechanism>.sasl.jaas.config": "the login. Without it, the section "
    "`<listener>.KafkaServer` or `KafkaServer` of refold.login.config",
}
"""Keys for the listener of the brokers that the daemon connects to. Those that begin with `ssl.`
may have the prefix `listener.name.<listener>.`, which takes precedence."""

OF_ENDPOINT: Final = {
    "ssl.client.auth": "none, requested or required: whether clients need a certificate. With "
    "SASL_SSL only with the prefix, as in Kafka",
    "ssl.principal.mapping.rules": "how principals are made of the names in certificates",
    "sasl.enabled.mechanisms": "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER. Others are "
    "refused, as is Kafka's default, GSSAPI. OAUTHBEARER accepts Kafka's unsecured tokens, which "
    "nothing signs",
    "sasl.server.max.receive.size": "the size of a request before the login is complete; at most "
    "65536 bytes are allowed",
    "connection.failed.authentication.delay.ms": "how long a client whose login failed waits for "
    "the response",
    "connections.max.reauth.ms": "a client that does not log in again within this time is "
    "disconnected at its next request. 0, the default: never. Also with the prefix "
    "`listener.name.<listener>.<mechanism>.`",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer, or empty: everything is "
    "allowed. Others are refused",
    "super.users": "principals that may do everything: User:admin;User:broker",
    "allow.everyone.if.no.acl.found": "whether everybody may use what has no ACL",
    "authorizer.zookeeper.url": "refused: ACLs must be in the ZooKeeper of the cluster",
}
"""Keys for the endpoint's listeners, in addition to those of TLS and JAAS in `OF_BROKERS`."""

OF_AUTHORIZER: Final = frozenset(
    {"super.users", "allow.everyone.if.no.acl.found", "authorizer.zookeeper.url"}
)
"""Keys that a broker's authorizer reads; Kafka does not list them."""

_CALLBACK: Final = "refold cannot run callback handlers"
PLUGINS: Final = {
    "principal.builder.class": "refold cannot run it: refold would know clients by other names",
    "sasl.client.callback.handler.class": _CALLBACK,
    "sasl.login.callback.handler.class": f"{_CALLBACK}, and asks no token endpoint",
    "sasl.login.class": "refold cannot run login classes",
    "sasl.server.callback.handler.class": _CALLBACK,
    "security.providers": "refold has Python's TLS and no Java security providers",
    "ssl.engine.factory.class": "refold has Python's TLS and cannot run an engine factory",
}
"""Keys that select a class of the operator, and why refold refuses it. They are refused for single
listeners and mechanisms, too."""

TOKENS: Final = ("delegation.token.master.key", "delegation.token.secret.key")
"""Keys that let clients log in to a broker with delegation tokens. They are reported."""

OF_TOKENS: Final = {
    **dict.fromkeys(
        TOKENS,
        "no effect, and the daemon warns about it: brokers issue and accept delegation tokens, "
        "refold's endpoint refuses a login with one",
    ),
    "delegation.token.max.lifetime.ms": "ignored: refold issues no tokens",
    "delegation.token.expiry.time.ms": "ignored: refold issues no tokens",
    "delegation.token.expiry.check.interval.ms": "ignored: a stock controller deletes expired "
    "tokens from ZooKeeper, refold does not",
    "<mechanism>.sasl.jaas.config with tokenauth=true": "refused: refold logs in to brokers with a "
    "user and a password",
}
"""Keys of delegation tokens, for docs/settings.md."""

KAFKAS_OWN: Final = (
    "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
    "org.apache.kafka.common.security.ssl.DefaultSslEngineFactory",
)
"""Kafka's defaults, which may be set."""

PLUGIN_KEY: Final = re.compile(
    rf"(?:refold\.)?(?:listener\.name\.[^.]+\.)?(?:[\w-]+\.)?({'|'.join(map(re.escape, PLUGINS))})"
)
"""A key of `PLUGINS`, its only group, with any prefixes."""
