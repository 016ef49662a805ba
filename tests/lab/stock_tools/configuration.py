"""Part of the script: the configuration of topics, brokers, users, clients, addresses; features."""

from tests.lab.stock_tools.calls import NO_LOGGERS, NODE, configs, controller_by_name, log_dirs
from tests.lab.stock_tools.steps import Call, Change, Reads, Step

CONFIGURATION: tuple[Step, ...] = (
    Change(
        configs(
            "--alter --entity-type topics --entity-name assigned "
            "--add-config retention.bytes=1000000,max.message.bytes=50000 "
            "--delete-config cleanup.policy"
        )
    ),
    Change(
        configs(
            "--alter --entity-type brokers --entity-name 2 --add-config max.connections.per.ip=900"
        )
    ),
    Change(
        configs("--alter --entity-type brokers --entity-default --add-config max.connections=900")
    ),
    Change(
        configs(
            "--alter --entity-type users --entity-name ann --add-config producer_byte_rate=9000000"
        )
    ),
    Change(
        configs("--alter --entity-type clients --entity-default --add-config request_percentage=99")
    ),
    Change(
        configs(
            "--alter --entity-type ips --entity-name 127.0.0.9 "
            "--add-config connection_creation_rate=900"
        )
    ),
    Change(
        Call(
            "kafka-configs",
            "--bootstrap-server {controller} --alter --entity-type topics --entity-name strict "
            "--add-config segment.bytes=2000000",
        )
    ),
    Reads(
        (
            configs("--describe --entity-type topics"),
            configs("--describe --entity-type topics --entity-name assigned --all"),
            configs("--describe --entity-type brokers --entity-name 2"),
            configs("--describe --entity-type brokers", reason=NODE),
            configs("--describe --entity-type brokers --entity-default"),
            configs(
                "--describe --entity-type brokers --entity-name {controller_id}",
                shape=controller_by_name,
            ),
            configs("--describe --entity-type users"),
            configs("--describe --entity-type clients"),
            configs("--describe --entity-type ips"),
            configs("--describe --entity-type ips --entity-name 127.0.0.9"),
            configs(
                "--alter --entity-type broker-loggers --entity-name {controller_id} "
                "--add-config kafka.controller.KafkaController=INFO",
                reason=NO_LOGGERS,
            ),
            configs(
                "--alter --entity-type broker-loggers --entity-name 2 "
                "--add-config kafka.server.KafkaApis=INFO"
            ),
            configs(
                "--alter --entity-type topics --entity-name assigned --add-config retention.ms=soon"
            ),
            configs(
                "--alter --entity-type topics --entity-name nowhere --add-config retention.ms=1"
            ),
            configs("--alter --entity-type topics --entity-name assigned --add-config no.such=1"),
        )
    ),
    Change(
        configs("--alter --entity-type brokers --entity-default --delete-config max.connections")
    ),
    Change(
        configs(
            "--alter --entity-type ips --entity-name 127.0.0.9 "
            "--delete-config connection_creation_rate"
        )
    ),
    Reads(
        (
            log_dirs("--topic-list assigned,moved,strict", reason=NODE),
            log_dirs("--broker-list 1,2 --topic-list assigned,moved"),
            Call("kafka-features", "--bootstrap-server {brokers} describe", since=(3, 3)),
            Call("kafka-features", "--bootstrap-server {controller} describe", since=(3, 3)),
            Call(
                "kafka-features",
                "--bootstrap-server {brokers} upgrade --feature no.such=1",
                since=(3, 3),
            ),
            Call(
                "kafka-features",
                "--bootstrap-server {brokers} upgrade --feature metadata.version=7",
                since=(3, 3),
            ),
            Call(
                "kafka-features",
                "--bootstrap-server {brokers} disable --feature no.such",
                since=(3, 3),
            ),
        )
    ),
)
