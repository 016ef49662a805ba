"""Every setting of refold: its key, what it may be, its default and what it is for.

The page docs/settings.md is made from this table.
"""

import re
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from controller.api.limits import Limits
from controller.core.protocol_versions import LATEST
from controller.core.topic_configs import BROKER_KEYS
from controller.settings import parsing
from eventstore.writer import SEGMENT_BYTES

OWN: Final = "refold."
"""Begins a key that is refold's own, or one of Kafka's that is meant for the daemon alone."""

_LIMITS: Final = Limits()


class Setting(NamedTuple):
    """One setting. `default` is text as it would be given; None: it may be left out, and is None
    then, or must be given (`required`)."""

    key: str
    parse: Callable[[str], Any]
    default: str | None
    about: str
    flag: str = ""
    required: bool = False

    @property
    def variable(self) -> str:
        """The environment variable that gives it."""
        return "REFOLD_" + re.sub("[.-]", "_", self.key.removeprefix(OWN).upper())


SETTINGS: Final = (
    Setting(
        "zookeeper.connect",
        parsing.connect_string,
        None,
        "ZooKeeper's servers and the cluster's chroot: HOST:PORT,HOST:PORT/chroot.",
        "--zookeeper",
        required=True,
    ),
    Setting(
        "broker.id",
        parsing.whole_number(0),
        None,
        "The daemon's own id, one that no broker has. The broker.id of a server.properties is a "
        "broker's: give the daemon its own.",
        "--broker-id",
        required=True,
    ),
    Setting(
        "refold.log.dir",
        parsing.folder,
        None,
        "Where event logs go, each run into a folder of its own. Not a log.dirs of a broker.",
        "--log-dir",
        required=True,
    ),
    Setting(
        "listeners",
        parsing.addresses,
        "PLAINTEXT://:9092",
        "Where the daemon listens, under the listener names that the brokers have. The listeners "
        "of a server.properties are a broker's: give the daemon its own.",
        "--listeners",
    ),
    Setting(
        "advertised.listeners",
        parsing.addresses,
        None,
        "What brokers and clients connect to, where that is not `listeners`.",
    ),
    Setting(
        "listener.security.protocol.map",
        parsing.protocol_map,
        ",".join(f"{one}:{one}" for one in parsing.SECURITY_PROTOCOLS),
        "The security protocol of each listener name.",
    ),
    Setting(
        "inter.broker.protocol.version",
        parsing.protocol_version,
        LATEST,
        "The version that the brokers speak with each other. It must be the one of the brokers.",
        "--inter-broker-protocol-version",
    ),
    Setting(
        "inter.broker.listener.name",
        str.upper,
        None,
        "The brokers' listener that requests to them go to, unless there is a control plane "
        "listener.",
    ),
    Setting(
        "security.inter.broker.protocol",
        parsing.one_of(*parsing.SECURITY_PROTOCOLS),
        None,
        "Stands for the listener of that name where inter.broker.listener.name is not given.",
    ),
    Setting(
        "control.plane.listener.name",
        str.upper,
        None,
        "The brokers' listener for requests of the controller, if they have one.",
    ),
    Setting(
        "broker.rack",
        str,
        None,
        "The daemon's rack; needed where brokers have racks.",
    ),
    Setting(
        "zookeeper.session.timeout.ms",
        parsing.whole_number(1000),
        "18000",
        "Without a sign of life for this long the daemon loses the role. A third of it is the "
        "longest that an append to the event log may take.",
    ),
    Setting(
        "zookeeper.connection.timeout.ms",
        parsing.whole_number(1),
        None,
        "How long the start waits for ZooKeeper; the session time-out where it is not given.",
    ),
    Setting(
        "zookeeper.max.in.flight.requests",
        parsing.whole_number(1),
        "1000",
        "Requests to ZooKeeper that may be unanswered at a time. Kafka's default is 10.",
    ),
    Setting(
        "controller.socket.timeout.ms",
        parsing.whole_number(1),
        "30000",
        "How long a broker may take to accept a connection or answer a request.",
    ),
    Setting(
        "max.connections",
        parsing.whole_number(1),
        str(_LIMITS.connections_max),
        "How many connections the endpoint has at a time, over all listeners; beyond it a new one "
        "takes the place of another. Kafka's default is no limit.",
    ),
    Setting(
        "max.connections.per.ip",
        parsing.whole_number(1),
        str(_LIMITS.connections_per_address_max),
        "How many of them may come from one address. Kafka's default is no limit.",
    ),
    Setting(
        "connections.max.idle.ms",
        parsing.limit,
        str(_LIMITS.connections_max_idle_ms),
        "How long a connection to the endpoint may be silent between two requests. -1: for ever.",
    ),
    Setting(
        "request.timeout.ms",
        parsing.whole_number(1),
        str(_LIMITS.request_timeout_ms),
        "How long a broker may take to answer a client's request that is passed on to it.",
    ),
    Setting(
        "socket.request.max.bytes",
        parsing.whole_number(1),
        str(_LIMITS.request_bytes_max),
        "How large a request to the endpoint may be; those that are not passed on have lower "
        "limits, too ([endpoint.md](endpoint.md#limits)).",
    ),
    Setting(
        "queued.max.requests",
        parsing.whole_number(1),
        str(_LIMITS.waiting_requests_max),
        "How many requests of brokers may wait for the controller's answer at a time, and as "
        "many of admin tools that create, grow and delete topics until they are carried out; of "
        "others a tenth of that.",
    ),
    Setting(
        "queued.max.request.bytes",
        parsing.limit,
        str(_LIMITS.whole_bytes_max),
        "How many bytes of large requests of brokers the endpoint holds at a time. -1: no limit, "
        "which is Kafka's default.",
    ),
    Setting(
        "unclean.leader.election.enable",
        parsing.boolean,
        "false",
        "Whether a replica outside the ISR may lead a topic that says nothing about it. May be "
        "changed while the cluster runs, for all brokers or for a topic, as in Kafka.",
    ),
    Setting(
        "num.partitions",
        parsing.whole_number(1),
        "1",
        "How many partitions a new topic gets where the request that creates it says nothing.",
    ),
    Setting(
        "default.replication.factor",
        parsing.whole_number(1, 2**15 - 1),
        "1",
        "How many replicas its partitions get then.",
    ),
    Setting(
        "delete.topic.enable",
        parsing.boolean,
        "true",
        "Whether topics may be deleted; without it what asks for a deletion is removed.",
    ),
    Setting(
        "auto.leader.rebalance.enable",
        parsing.boolean,
        "true",
        "Whether leadership goes back to the preferred replicas by itself.",
    ),
    Setting(
        "kip-236.enable",
        parsing.boolean,
        "true",
        "Whether reassignments can be cancelled as a whole, added to and requested as KIP-236 has "
        "it (docs/kip-236.md). Without it, and under Kafka's rules, its znodes mean nothing.",
    ),
    Setting(
        "leader.imbalance.per.broker.percentage",
        parsing.whole_number(0),
        "10",
        "Of the partitions that prefer a broker, how many percent others may lead before "
        "leadership goes back.",
    ),
    Setting(
        "leader.imbalance.check.interval.seconds",
        parsing.whole_number(1),
        "300",
        "How often that is looked at.",
    ),
    Setting(
        "refold.take.over",
        parsing.boolean,
        "false",
        "Take the role from a living controller at the start and whenever a session begins. "
        "Without it the daemon waits until the role is free.",
        "--take-over",
    ),
    Setting(
        "refold.rules",
        parsing.one_of("refold", "kafka"),
        "refold",
        "Whether known defects of Kafka's rules are avoided (refold) or kept (kafka).",
    ),
    Setting(
        "refold.log.segment.bytes",
        parsing.whole_number(1 << 20, 1 << 40),
        str(SEGMENT_BYTES),
        "The size at which an event log goes on in a new file, as soon as nothing is under way: at "
        "least 1048576.",
    ),
    Setting(
        "refold.log.retention.bytes",
        parsing.limit,
        "-1",
        "How large all logs in refold.log.dir may be together; the oldest go first. -1: no limit.",
    ),
    Setting(
        "refold.log.retention.ms",
        parsing.limit,
        "-1",
        "How old a log may become. -1: no limit.",
    ),
    Setting(
        "refold.mirror.bootstrap.servers",
        parsing.servers,
        None,
        "Brokers, HOST:PORT with commas between, of the cluster to whose topic logs are mirrored: "
        "this one or another one. Without it there is no mirror. What is not mirrored yet is not "
        "removed by retention.",
        "--mirror",
    ),
    Setting(
        "refold.mirror.topic",
        parsing.topic,
        "refold-log",
        "The topic for the logs of any number of clusters; it is made if it is not there.",
    ),
    Setting(
        "refold.mirror.client.config",
        parsing.folder,
        None,
        "A file with settings of a Kafka client (security.protocol, sasl.*, ssl.*), where the "
        "mirror's cluster asks for them.",
    ),
    Setting(
        "refold.messages",
        parsing.one_of("auto", "json", "text"),
        "auto",
        "The form of the messages on standard error: one JSON object a line, or text. auto: text "
        "on a terminal.",
        "--log-format",
    ),
)

BY_KEY: Final = {setting.key: setting for setting in SETTINGS}

TOPIC_KEYS: Final = tuple(key for key in BROKER_KEYS if key not in BY_KEY)
"""Keys of Kafka that say what holds for topics, and nothing of the daemon: of use to judge topics'
configurations, and to tell tools of them. A file may give them, under these names only: the event
log's settings have some of them behind `refold.`."""

POLICIES: Final = ("create.topic.policy.class.name", "alter.config.policy.class.name")
"""Plugins that brokers ask and refold cannot: where one has any it does not take the role."""

REFUSED: Final = {
    "create.topic.policy.class.name": "it is a plugin, and refold cannot ask it before a topic is "
    "created. Take it out of the daemon's file if topics may be created without it; if not, leave "
    "the role with a stock controller",
    "alter.config.policy.class.name": "it is a plugin, and refold cannot ask it before a "
    "configuration changes. Take it out of the daemon's file: brokers change configurations, and "
    "ask their own",
    "authorizer.class.name": "it is a plugin, and refold cannot ask it: what it forbids, refold's "
    "endpoint would allow. The brokers' own go on without it here",
    "client.quota.callback.class": "it is a plugin, and refold cannot ask it: refold has no client "
    "quotas. The brokers' own go on without it here",
    "process.roles": "it is a KRaft setting, and refold is a controller for ZooKeeper mode",
    "zookeeper.metadata.migration.enable": "the cluster is migrating to KRaft; the controller's "
    "role belongs to a KRaft controller then",
    "zookeeper.ssl.client.enable": "refold does not speak TLS with ZooKeeper",
    "zookeeper.set.acl": "refold does not authenticate to ZooKeeper and would make znodes that "
    "anybody may change",
}
"""Keys of Kafka that must not be set, or not to true: what they stand for, refold does not do."""

CLASSES: Final = (
    "create.topic.policy.class.name",
    "alter.config.policy.class.name",
    "client.quota.callback.class",
)
"""Those of them that name a class for Kafka, which cannot be an empty name (ConfigDef.parseType);
authorizer.class.name is a text that may be empty."""

IGNORED: Final = {
    "max.connections.per.ip.overrides": "refold has one limit for all addresses, "
    "max.connections.per.ip",
    "max.connection.creation.rate": "refold does not limit how often clients connect; "
    "max.connections limits how many of them there are",
}
"""Keys of Kafka that have no effect here, which the operator ought to know."""

IGNORED_FOR_ONE_LISTENER: Final = {
    "max.connections": "refold has one limit for all its listeners together, max.connections",
    "max.connection.creation.rate": IGNORED["max.connection.creation.rate"],
}
"""The same for keys that Kafka has for one listener, too: listener.name.<listener>.<key>."""


@cache
def kafka_keys() -> frozenset[str]:
    """Every key that Kafka 3.9 documents for a broker."""
    listing = files("controller.settings").joinpath("kafka_keys.txt").read_text(encoding="utf-8")
    return frozenset(listing.split())


def is_known(key: str) -> bool:
    """Whether a file may hold this key: one of refold's, or one of a broker's."""
    own = key.removeprefix(OWN)
    return key in BY_KEY or (key != own and own in BY_KEY) or is_of_broker(key)


def is_of_broker(key: str) -> bool:
    """Whether Kafka has this key; a listener may have settings of its own."""
    return key in kafka_keys() or key.startswith("listener.name.")
