"""Every setting of refold: its key, how it is parsed, its default and its meaning.

docs/settings.md is generated from this table.
"""

from typing import Final

from controller.core.protocol_versions import LATEST
from controller.core.topic_configs import BROKER_KEYS
from controller.core.znodes.brokers import SECURITY_PROTOCOLS
from controller.security.passwords import Password
from controller.settings import parsing
from controller.settings.endpoint_limits import ENDPOINT_LIMITS
from controller.settings.setting import Setting
from eventstore.writer import SEGMENT_BYTES

SETTINGS: Final = (
    Setting(
        "zookeeper.connect",
        parsing.connect_string,
        None,
        "The ZooKeeper servers and the chroot of the cluster: HOST:PORT,HOST:PORT/chroot.",
        "--zookeeper",
        required=True,
    ),
    Setting(
        "broker.id",
        parsing.whole_number(0),
        None,
        "The id of the daemon. No broker may have it. In a broker's server.properties this key is "
        "the broker's id: give the daemon its own with refold.broker.id or --broker-id.",
        "--broker-id",
        required=True,
    ),
    Setting(
        "refold.log.dir",
        parsing.folder,
        None,
        "The folder for event logs; each run writes to a new subfolder. It must not be a log.dirs "
        "of a broker.",
        "--log-dir",
        required=True,
    ),
    Setting(
        "listeners",
        parsing.addresses,
        "PLAINTEXT://:9092",
        "The addresses that the daemon listens on, with the listener names of the brokers. In a "
        "broker's server.properties this key has the broker's addresses: give the daemon its own.",
        "--listeners",
    ),
    Setting(
        "advertised.listeners",
        parsing.addresses,
        None,
        "The addresses that brokers and clients connect to, if they differ from `listeners`.",
    ),
    Setting(
        "listener.security.protocol.map",
        parsing.protocol_map,
        ",".join(f"{one}:{one}" for one in SECURITY_PROTOCOLS),
        "The security protocol of each listener name.",
    ),
    Setting(
        "inter.broker.protocol.version",
        parsing.protocol_version,
        LATEST,
        "The protocol version that the brokers use among each other. It must be the same as the "
        "brokers'.",
        "--inter-broker-protocol-version",
    ),
    Setting(
        "inter.broker.listener.name",
        str.upper,
        None,
        "The brokers' listener that receives the controller's requests, unless there is a control "
        "plane listener.",
    ),
    Setting(
        "security.inter.broker.protocol",
        parsing.one_of(*SECURITY_PROTOCOLS),
        None,
        "Selects the listener with that name if inter.broker.listener.name is not set.",
    ),
    Setting(
        "control.plane.listener.name",
        str.upper,
        None,
        "The brokers' listener for the controller's requests, if they have one.",
    ),
    Setting(
        "broker.rack",
        str,
        None,
        "The rack of the daemon. Required if brokers have racks.",
    ),
    Setting(
        "zookeeper.session.timeout.ms",
        parsing.whole_number(1000),
        "18000",
        "After this time without contact to ZooKeeper the daemon loses the role. An append to the "
        "event log may take a third of it.",
    ),
    Setting(
        "zookeeper.connection.timeout.ms",
        parsing.whole_number(1),
        None,
        "How long the start waits for ZooKeeper. The default is the session timeout.",
    ),
    Setting(
        "zookeeper.max.in.flight.requests",
        parsing.whole_number(1),
        "1000",
        "The maximum number of unanswered requests to ZooKeeper. Kafka's default is 10.",
    ),
    Setting(
        "controller.socket.timeout.ms",
        parsing.whole_number(1),
        "30000",
        "How long a broker may take to accept a connection or to answer a request.",
    ),
    *ENDPOINT_LIMITS,
    Setting(
        "unclean.leader.election.enable",
        parsing.boolean,
        "false",
        "Whether a replica outside of the ISR may become leader of a topic without its own "
        "setting. As in Kafka it can be changed at run time, for all brokers or for a topic.",
    ),
    Setting(
        "num.partitions",
        parsing.whole_number(1),
        "1",
        "The number of partitions of a new topic, if the request does not name it.",
    ),
    Setting(
        "default.replication.factor",
        parsing.whole_number(1, 2**15 - 1),
        "1",
        "The number of replicas of a new topic, if the request does not name it.",
    ),
    Setting(
        "delete.topic.enable",
        parsing.boolean,
        "true",
        "Whether topics may be deleted. If not, requests for a deletion are removed.",
    ),
    Setting(
        "auto.leader.rebalance.enable",
        parsing.boolean,
        "true",
        "Whether the controller moves leaders back to the preferred replicas.",
    ),
    Setting(
        "kip-236.enable",
        parsing.boolean,
        "true",
        "Whether reassignments can be cancelled as a whole, extended and requested as KIP-236 "
        "describes (docs/kip-236.md). If not, and under Kafka's rules, its znodes have no effect.",
    ),
    Setting(
        "leader.imbalance.per.broker.percentage",
        parsing.whole_number(0),
        "10",
        "The controller moves leaders back to a broker if other brokers lead more than this "
        "percentage of the partitions for which the broker is the preferred replica.",
    ),
    Setting(
        "leader.imbalance.check.interval.seconds",
        parsing.whole_number(1),
        "300",
        "The interval of the check for leaders to move back.",
    ),
    Setting(
        "refold.take.over",
        parsing.boolean,
        "false",
        "Take the role from a live controller, at the start and whenever a session begins; with "
        "refold.standby only at the start. If not, the daemon waits until the role is free.",
        "--take-over",
    ),
    Setting(
        "refold.own.controller.znode",
        parsing.one_of("replace", "wait"),
        "replace",
        "The daemon's action if /controller still belongs to its previous session, which is over: "
        "replace the znode, or wait until ZooKeeper has deleted it, also with --take-over "
        "([operation.md](operation.md#the-daemons-own-controller-znode)).",
    ),
    Setting(
        "refold.standby",
        parsing.boolean,
        "false",
        "While another is controller, follow the cluster, so that a take-over is much faster "
        "([standby.md](standby.md)). Any number of daemons may be standbys, with the same id.",
        "--standby",
    ),
    Setting(
        "refold.wait.for.zookeeper",
        parsing.boolean,
        None,
        "At the start, wait until ZooKeeper answers, and try again after 1 to 30 s. If not, the "
        "daemon refuses to start. Default: true under systemd and Kubernetes (INVOCATION_ID or "
        "KUBERNETES_SERVICE_HOST is in the environment), otherwise false.",
        "--wait-for-zookeeper",
    ),
    Setting(
        "refold.registration.check.ms",
        parsing.limit,
        "30000",
        "After how long the daemon probes a broker that has lost its registration, or that is "
        "registered and unreachable. Two probes in a row must show that the registration is stuck "
        "([operation.md](operation.md#stuck-registrations)). It should be above half of the "
        "brokers' session timeout. -1: never.",
    ),
    Setting(
        "refold.rules",
        parsing.one_of("refold", "kafka"),
        "refold",
        "Whether known defects of Kafka's rules are avoided (refold) or kept (kafka). See "
        "docs/deviations.md.",
    ),
    Setting(
        "refold.log.segment.bytes",
        parsing.whole_number(1 << 20, 1 << 40),
        str(SEGMENT_BYTES),
        "The size at which an event log continues in a new file, as soon as no work is in "
        "progress. At least 1048576.",
    ),
    Setting(
        "refold.log.retention.bytes",
        parsing.limit,
        "-1",
        "The maximum total size of the logs in refold.log.dir; the oldest are deleted first. -1: "
        "no limit.",
    ),
    Setting(
        "refold.log.retention.ms",
        parsing.limit,
        "-1",
        "The maximum age of a log. -1: no limit.",
    ),
    Setting(
        "refold.status.socket",
        parsing.socket_path,
        None,
        "The path of the Unix socket on which the daemon answers `refold status`. Only the user "
        "of the daemon may connect. Default: a name in refold.log.dir.",
        "--status-socket",
    ),
    Setting(
        "refold.metrics.address",
        parsing.metrics_address,
        "127.0.0.1:9404",
        "HOST:PORT on which the daemon serves its metrics by HTTP, under /metrics "
        "([metrics.md](metrics.md)). There is no authentication: do not give an address that "
        "others can reach without a firewall. off: the daemon serves none.",
        "--metrics-address",
    ),
    Setting(
        "refold.mirror.bootstrap.servers",
        parsing.servers,
        None,
        "Brokers (HOST:PORT,HOST:PORT) of the cluster with the topic that logs are mirrored to: "
        "this cluster or another one. If unset, there is no mirror. Retention keeps what is not "
        "mirrored yet.",
        "--mirror",
    ),
    Setting(
        "refold.mirror.topic",
        parsing.topic,
        "refold-log",
        "The topic for mirrored logs, of any number of clusters. It is created if it does not "
        "exist.",
    ),
    Setting(
        "refold.mirror.client.config",
        parsing.folder,
        None,
        "A file with settings of a Kafka client (security.protocol, sasl.*, ssl.*), if the "
        "cluster of the mirror needs them.",
    ),
    Setting(
        "refold.login.config",
        parsing.folder,
        None,
        "A JAAS file, as Kafka's java.security.auth.login.config names it: its section Client is "
        "the login to ZooKeeper, KafkaServer the one to brokers ([security.md](security.md)).",
    ),
    Setting(
        "refold.zookeeper.login.section",
        str,
        "Client",
        "The section of refold.login.config for ZooKeeper. Without that section there is no login.",
    ),
    Setting(
        "refold.zookeeper.username",
        str,
        None,
        "The user of the login to ZooKeeper, if there is no JAAS file for it.",
    ),
    Setting(
        "refold.zookeeper.password",
        Password,
        None,
        "The password of that user.",
    ),
    Setting(
        "refold.zookeeper.auth.scheme",
        parsing.one_of("sasl", "digest"),
        "sasl",
        "How that user logs in: by SASL DIGEST-MD5, or by ZooKeeper's scheme digest, which sends "
        "the password: use it with TLS only.",
    ),
    Setting(
        "refold.messages",
        parsing.one_of("auto", "json", "text"),
        "auto",
        "The format of the daemon's messages on standard error: one JSON object per line, or "
        "text. auto: text on a terminal.",
        "--log-format",
    ),
    Setting(
        "refold.messages.level",
        parsing.one_of("info", "warning", "error"),
        "info",
        "The lowest level of the messages that the daemon writes to standard error. The event log "
        "has all notices.",
    ),
    Setting(
        "refold.messages.per.minute",
        parsing.limit,
        "100",
        "The maximum number of messages with the same code in a minute. The daemon then logs how "
        "many were left out; the event log has them. -1: no limit.",
    ),
)

RELOADED: Final = (
    "refold.messages",
    "refold.messages.level",
    "refold.messages.per.minute",
    "refold.log.retention.bytes",
    "refold.log.retention.ms",
)
"""Settings that a running daemon reads again at SIGHUP. None of them affects decisions."""

BY_KEY: Final = {setting.key: setting for setting in SETTINGS}

TOPIC_KEYS: Final = tuple(key for key in BROKER_KEYS if key not in BY_KEY)
"""Kafka's keys that are defaults of topics. They serve to validate and report topic configurations.
Only a file may set them, and only under these names: some of them with the prefix `refold.` are
settings of the event log."""

POLICIES: Final = ("create.topic.policy.class.name", "alter.config.policy.class.name")
"""Policies are plugins that brokers apply and refold cannot. If a broker has one, refold does
not take the role."""

AUTHORIZER: Final = "authorizer.class.name"
"""Selects what decides who may do what at a broker, and at the endpoint."""

DECIDING: Final = (
    "unclean.leader.election.enable",
    "min.insync.replicas",
    "num.partitions",
    "default.replication.factor",
    "delete.topic.enable",
    "auto.leader.rebalance.enable",
    "leader.imbalance.per.broker.percentage",
    "leader.imbalance.check.interval.seconds",
)
"""Settings by which a controller decides. A controller takes them from its own configuration, not
from that of the other brokers."""

REFUSED: Final = {
    "create.topic.policy.class.name": "it is a plugin that refold cannot apply to topic creations. "
    "Remove it from the daemon's file if topics may be created without it; if not, leave the role "
    "with a stock controller",
    "alter.config.policy.class.name": "it is a plugin that refold cannot apply to configuration "
    "changes. Remove it from the daemon's file: brokers change configurations and apply theirs",
    "client.quota.callback.class": "it is a plugin that refold cannot apply: refold would limit "
    "topic creations and deletions by the quotas in ZooKeeper",
    "process.roles": "it is a KRaft setting, and refold is a controller for ZooKeeper mode",
    "zookeeper.metadata.migration.enable": "the cluster is migrating to KRaft; the controller's "
    "role belongs to a KRaft controller then",
}
"""Keys of Kafka that must not be set, or not to true, because refold does not support them."""

CLASSES: Final = (
    "create.topic.policy.class.name",
    "alter.config.policy.class.name",
    "client.quota.callback.class",
)
"""Refused keys that name a class for Kafka, which must not be empty (ConfigDef.parseType)."""
