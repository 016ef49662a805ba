"""The script: administrators' work with Kafka's tools, in an order that covers all tools.

Brokers 2, 3 and 4 are the bootstrap servers, except for requests to the controller. Topics with
random replicas are deleted before leaders are elected.
"""

import json

from tests.lab.stock_tools import admin_clients
from tests.lab.stock_tools.calls import (
    NODE,
    configs,
    elect,
    kill,
    log_dirs,
    reassign,
    start,
    stop,
    targets,
    topics,
)
from tests.lab.stock_tools.comparable_output import RANDOM, proposal
from tests.lab.stock_tools.configuration import CONFIGURATION
from tests.lab.stock_tools.credentials import CREDENTIALS
from tests.lab.stock_tools.harness import HEAVY
from tests.lab.stock_tools.steps import Action, Call, Change, Reads, Step

RECORDS = "".join(f"record-{number}\n" for number in range(50))
HEAVY_RECORDS = "".join(f"{number:04}-{'x' * 1000}\n" for number in range(1000))
THROTTLE = 5_000
"""Bytes per second, so that moving HEAVY_RECORDS takes longer than the calls meanwhile."""

NAMES_SINCE = (3, 3)
"""The first Kafka version with the present text for an invalid topic name."""

FILES = {
    "to-move.json": '{"version": 1, "topics": [{"topic": "moved"}, {"topic": "assigned"}]}',
    "first.json": targets(("moved", 0, [3, 4]), ("moved", 1, [4, 2]), ("assigned", 0, [3, 2])),
    "short.json": targets(("assigned", 0, [3, 2]), ("assigned", 1, [1, 4])),
    f"{HEAVY}.json": targets((HEAVY, 0, [3, 4])),
    f"{HEAVY}-too.json": targets((f"{HEAVY}-too", 0, [4, 1])),
    "nowhere.json": targets(("nowhere", 0, [1, 2])),
    "no-broker.json": targets(("moved", 0, [1, 77])),
    "twice.json": targets(("moved", 0, [1, 1])),
    "none.json": targets(),
    "log-dirs.json": targets(("assigned", 1, [2, 4]), log_dirs=["(lab)/broker-2/data", "any"]),
    "to-elect.json": json.dumps(
        {"partitions": [{"topic": "moved", "partition": one} for one in (0, 1)]}
    ),
    "to-elect-unclean.json": json.dumps({"partitions": [{"topic": "unclean-too", "partition": 0}]}),
}
"""The files that tools read, by name; (lab) is replaced by the folder of all brokers."""

CREATION: tuple[Step, ...] = (
    Reads(
        (
            Call("kafka-cluster", "cluster-id --bootstrap-server {brokers}"),
            Call("kafka-cluster", "cluster-id --bootstrap-server {controller}"),
            Call("kafka-cluster", "unregister --bootstrap-server {brokers} --id 4"),
            topics("--list"),
            topics("--describe"),
        )
    ),
    Change(
        topics(
            "--create --topic assigned --replica-assignment 2:3,3:4,4:1 "
            "--config retention.ms=86400000 --config cleanup.policy=delete"
        )
    ),
    Change(topics(f"--create --topic {RANDOM} --partitions 8 --replication-factor 2")),
    Change(topics(f"--create --topic {RANDOM}-by-default", via="controller")),
    Change(topics("--create --topic under.score --replica-assignment 1:2")),
    Change(topics("--create --topic unknown-broker --replica-assignment 2:9")),
    Change(
        topics(
            "--create --topic strict --replica-assignment 3:4,4:3 --config min.insync.replicas=2"
        )
    ),
    Change(
        topics(
            "--create --topic __consumer_offsets --replica-assignment 1:2,2:1,1:2 "
            "--config cleanup.policy=compact"
        )
    ),
    Change(topics("--create --topic moved --replica-assignment 1:2,2:3", via="controller")),
    Change(topics("--create --topic doomed --replica-assignment 2:4")),
    Change(topics("--create --topic unclean --replica-assignment 3:4")),
    Change(topics("--create --topic unclean-too --replica-assignment 3:4")),
    Change(topics(f"--create --topic {HEAVY} --replica-assignment 1:2")),
    Change(topics(f"--create --topic {HEAVY}-too --replica-assignment 1:2")),
    Reads(
        (
            topics("--create --topic assigned --partitions 1 --replication-factor 1"),
            topics("--create --topic assigned --partitions 1 --if-not-exists"),
            topics("--create --topic under_score --partitions 1 --replication-factor 1"),
            topics("--create --topic a --partitions 1 --replication-factor 5"),
            topics("--create --topic a --partitions 1 --replication-factor 9", via="controller"),
            topics("--create --topic a --partitions 0 --replication-factor 1"),
            topics("--create --topic a --partitions 1 --replication-factor 0"),
            topics(
                "--create --topic 'a b' --partitions 1 --replication-factor 1",
                alike_since=NAMES_SINCE,
            ),
            topics(
                "--create --topic .. --partitions 1 --replication-factor 1", alike_since=NAMES_SINCE
            ),
            topics("--create --topic a --partitions 1 --config retention.ms=soon"),
            topics("--create --topic a --partitions 1 --config retention.ms=-2"),
            topics("--create --topic a --partitions 1 --config cleanup.policy=sweep"),
            topics("--create --topic a --replica-assignment 1:2,3"),
            topics("--create --topic a --replica-assignment 2:2"),
            Call(
                "kafka-topics",
                "--bootstrap-server {brokers} --create --topic __cluster_metadata --partitions 1",
                # Earlier versions create it as any topic, or require an authorization.
                since=(3, 9),
            ),
        )
    ),
)

DESCRIPTION: tuple[Step, ...] = (
    Reads(
        (
            topics("--list"),
            topics("--list --exclude-internal", via="controller"),
            topics("--list --topic 'u.*'"),
            topics("--describe"),
            topics("--describe", via="controller"),
            topics("--describe --topic assigned"),
            topics("--describe --topic 'un.*' --exclude-internal"),
            topics("--describe --topics-with-overrides"),
            topics("--describe --under-replicated-partitions"),
            topics("--describe --under-min-isr-partitions"),
            topics("--describe --at-min-isr-partitions"),
            topics("--describe --unavailable-partitions"),
            topics("--describe --topic nowhere"),
            topics("--describe --topic nowhere --if-exists"),
            Call(
                "kafka-topics",
                "--bootstrap-server {controller} --describe --topic-id '{id of assigned}'",
                since=(3, 3),
            ),
        )
    ),
)

TRAFFIC: tuple[Step, ...] = (
    Change(
        Call(
            "kafka-console-producer",
            "--bootstrap-server {brokers} --topic moved --request-required-acks all",
            given=RECORDS,
        )
    ),
    Change(
        Call(
            "kafka-console-producer",
            f"--bootstrap-server {{controller}} --topic {HEAVY}",
            given=HEAVY_RECORDS,
        )
    ),
    Change(
        Call(
            "kafka-console-producer",
            f"--bootstrap-server {{brokers}} --topic {HEAVY}-too",
            given=HEAVY_RECORDS,
        )
    ),
    Change(
        Call(
            "kafka-console-consumer",
            "--bootstrap-server {controller} --topic moved --from-beginning --max-messages 50 "
            "--group readers",
            shape=lambda output: "\n".join(sorted(output.splitlines())),
        )
    ),
    Reads(
        (
            Call(
                "kafka-console-consumer",
                "--bootstrap-server {brokers} --topic moved --from-beginning --timeout-ms 5000 "
                "--group readers",
            ),
        )
    ),
)

ALTERATION: tuple[Step, ...] = (
    Change(topics(f"--alter --topic {RANDOM} --partitions 12")),
    Change(topics("--alter --topic moved --partitions 3 --replica-assignment 1:2,2:3,3:1")),
    Reads(
        (
            topics("--alter --topic moved --partitions 2"),
            topics("--alter --topic moved --partitions 3", via="controller"),
            topics("--alter --topic nowhere --partitions 3"),
            topics("--alter --topic nowhere --partitions 3 --if-exists"),
            topics("--alter --topic moved --partitions 4 --replica-assignment 1:2,2:3,3:1,3:9"),
            topics("--alter --topic moved --partitions 4 --replica-assignment 1:2,2:3,3:1,3"),
            topics("--alter --topic moved --partitions 5 --replica-assignment 1:2,2:3,3:1,3:4"),
            topics(f"--describe --topic {RANDOM}"),
            topics("--describe --topic moved"),
        )
    ),
)

REASSIGNMENT: tuple[Step, ...] = (
    Reads(
        (
            reassign(
                "--generate --topics-to-move-json-file {folder}/to-move.json --broker-list 1,2,3,4",
                shape=proposal,
            ),
            reassign("--execute --reassignment-json-file {folder}/nowhere.json"),
            reassign("--execute --reassignment-json-file {folder}/no-broker.json"),
            reassign("--execute --reassignment-json-file {folder}/twice.json"),
            reassign("--execute --reassignment-json-file {folder}/none.json"),
        )
    ),
    Change(
        reassign("--execute --reassignment-json-file {folder}/first.json --throttle 10000000"),
    ),
    Reads(
        (
            topics("--describe --topic moved"),
            configs("--describe --entity-type topics --entity-name moved"),
            configs("--describe --entity-type brokers --entity-name 3"),
            reassign("--list"),
        )
    ),
    Change(reassign("--verify --reassignment-json-file {folder}/first.json", reason=NODE)),
    Change(
        reassign(
            "--execute --reassignment-json-file {folder}/log-dirs.json --throttle 10000000 "
            "--replica-alter-log-dirs-throttle 20000000"
        ),
    ),
    Reads((configs("--describe --entity-type brokers --entity-name 2"),)),
    Change(reassign("--verify --reassignment-json-file {folder}/log-dirs.json", reason=NODE)),
    Change(
        reassign(
            f"--execute --reassignment-json-file {{folder}}/{HEAVY}.json --throttle {THROTTLE}"
        ),
    ),
    Reads(
        (
            reassign("--list"),
            reassign(f"--verify --reassignment-json-file {{folder}}/{HEAVY}.json"),
            topics(f"--describe --topic {HEAVY}"),
            topics("--describe --under-replicated-partitions"),
            topics(f"--alter --topic {HEAVY} --partitions 2"),
            reassign("--execute --reassignment-json-file {folder}/first.json"),
        )
    ),
    Action("kafka-python lists reassignments", admin_clients.kafka_python_lists, changes=False),
    Change(
        reassign(
            f"--execute --additional --reassignment-json-file {{folder}}/{HEAVY}-too.json "
            f"--throttle {THROTTLE + 1}"
        ),
    ),
    Reads((reassign("--list"), topics(f"--describe --topic '{HEAVY}.*'"))),
    Change(
        reassign(f"--cancel --preserve-throttles --reassignment-json-file {{folder}}/{HEAVY}.json")
    ),
    Reads((reassign("--list"), topics(f"--describe --topic '{HEAVY}.*'"))),
    Change(reassign(f"--cancel --reassignment-json-file {{folder}}/{HEAVY}-too.json", reason=NODE)),
    Change(reassign(f"--cancel --reassignment-json-file {{folder}}/{HEAVY}.json", reason=NODE)),
    Reads(
        (
            reassign("--list"),
            topics(f"--describe --topic '{HEAVY}.*'"),
        )
    ),
)

DELETION: tuple[Step, ...] = (
    Change(topics(f"--delete --topic '{RANDOM}.*'")),
    Change(topics("--delete --topic under.score", via="controller")),
    Reads(
        (
            topics("--delete --topic nowhere"),
            topics("--delete --topic nowhere --if-exists"),
            topics("--list"),
        )
    ),
)

ELECTION: tuple[Step, ...] = (
    stop(3),
    Reads(
        (
            topics("--describe --under-replicated-partitions"),
            topics("--describe --under-min-isr-partitions"),
            topics("--describe --at-min-isr-partitions"),
            elect("--election-type preferred --topic assigned --partition 0"),
            topics("--create --topic a --partitions 1 --replication-factor 4"),
        )
    ),
    start(3),
    Change(elect("--election-type preferred --topic assigned --partition 0")),
    Change(elect("--election-type preferred --path-to-json-file {folder}/to-elect.json")),
    Change(elect("--election-type preferred --all-topic-partitions")),
    Reads(
        (
            elect("--election-type preferred --topic nowhere --partition 0"),
            elect("--election-type preferred --topic moved --partition 9"),
            elect("--election-type preferred --topic moved --partition 0"),
        )
    ),
    kill(4),
    Change(topics("--delete --topic doomed")),
    Reads(
        (
            topics("--list"),
            topics("--describe --topic doomed"),
            topics(
                "--create --topic doomed --partitions 1 --replication-factor 1", alike_since=(3, 3)
            ),
            topics("--describe --under-replicated-partitions"),
        )
    ),
    kill(3),
    Reads(
        (
            topics("--describe --unavailable-partitions"),
            topics("--describe --topic unclean"),
            topics("--create --topic a --partitions 1 --replication-factor 3"),
        )
    ),
    start(4),
    Reads(
        (
            topics("--describe --unavailable-partitions"),
            elect("--election-type preferred --topic unclean --partition 0"),
        )
    ),
    Change(elect("--election-type unclean --topic unclean --partition 0")),
    Change(elect("--election-type unclean --path-to-json-file {folder}/to-elect-unclean.json")),
    start(3),
    Change(elect("--election-type unclean --all-topic-partitions")),
    Change(elect("--election-type preferred --all-topic-partitions")),
    Reads((topics("--list"), topics("--describe"))),
)

CLIENTS: tuple[Step, ...] = (
    Action("aiokafka's admin client", admin_clients.of_aiokafka),
    Action("kafka-python's admin client", admin_clients.of_kafka_python),
)

END: tuple[Step, ...] = (
    Change(topics("--delete --topic assigned,moved,strict,unclean,unclean-too,unknown-broker")),
    Reads((topics("--list"), topics("--describe"))),
)

SCRIPT: tuple[Step, ...] = (
    *CREATION,
    *DESCRIPTION,
    *TRAFFIC,
    *ALTERATION,
    *CONFIGURATION,
    *CREDENTIALS,
    *REASSIGNMENT,
    *DELETION,
    *ELECTION,
    *CLIENTS,
    *END,
)

SHORT: tuple[Step, ...] = (
    *CREATION[1:3],
    Reads(
        (
            topics("--list"),
            topics(f"--describe --topic {RANDOM}"),
            topics("--create --topic assigned --partitions 1", via="controller"),
            topics("--create --topic a --partitions 1 --replication-factor 5"),
        )
    ),
    Change(topics("--alter --topic assigned --partitions 4 --replica-assignment 2:3,3:4,4:1,1:2")),
    Change(
        reassign("--execute --reassignment-json-file {folder}/short.json --throttle 10000000"),
    ),
    Change(reassign("--verify --reassignment-json-file {folder}/short.json", reason=NODE)),
    Change(elect("--election-type preferred --all-topic-partitions")),
    Reads(
        (
            topics("--describe --topic assigned", via="controller"),
            log_dirs("--topic-list assigned", reason=NODE),
            reassign("--list"),
        )
    ),
    CREDENTIALS[1],
    *CREDENTIALS[3:],
    Change(topics("--delete --topic assigned")),
    *CLIENTS,
)
"""The script that takes three minutes with both controllers."""
