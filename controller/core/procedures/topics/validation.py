"""Validation of CreateTopics requests, as in Kafka (KB 11.8).

Checks, codes and messages are those of ZkAdminManager.createTopics and
AdminZkClient.validateTopicCreate, in their order.
"""

from typing import Final, NamedTuple

from controller.core import error_codes, topic_configs, topic_names, znodes
from controller.core.api_requests.topics import NOT_GIVEN, NewTopic
from controller.core.controller import Controller
from controller.core.deviations import EMPTY_ASSIGNMENT_REFUSED
from controller.core.errors import RequestRefused
from controller.core.procedures.topics.daemon_id import daemon_id_problem
from controller.core.releases import release_named
from controller.core.replica_assignment import check_counts
from controller.core.values import Broker

_BOTH_GIVEN: Final = (
    "Both numPartitions or replicationFactor and replicasAssignments were set. "
    "Both cannot be used at the same time."
)
_EMPTY: Final = "The manual partition assignment includes an empty replica list."
_PARTITION_BYTES_MIN: Final = len('"0":[],')
_REPLICA_BYTES_MIN: Final = len("0,")

Replicas = dict[int, tuple[int, ...]]
"""The replicas of each partition."""


class TopicPlan(NamedTuple):
    """A valid topic. `given`: its replicas, None if the controller chooses them."""

    name: str
    partitions: int
    replication_factor: int
    given: Replicas | None
    configs: dict[str, str]


class ExistingTopics:
    """The topics and deletion markers in ZooKeeper, and the names that collide with a topic's."""

    def __init__(self, topics: list[str], marked: list[str]) -> None:
        self.topics: dict[str, None] = {}
        self.marked = dict.fromkeys(marked)
        self._colliding: dict[str, list[str]] = {}
        for name in topics:
            self.add(name)

    def add(self, name: str) -> None:
        """Add a topic that exists, or is about to be created."""
        self.topics[name] = None
        self._colliding.setdefault(topic_names.unify_collision_chars(name), []).append(name)

    def colliding(self, name: str) -> list[str]:
        """The topics whose names differ from this one only in periods and underscores."""
        return sorted(self._colliding.get(topic_names.unify_collision_chars(name), ()))


def check_request(name: str, count: int) -> None:
    """The checks of KafkaApis.handleCreateTopicsRequest: the name, and how often it is requested.

    Raises RequestRefused.
    """
    if name == topic_names.CLUSTER_METADATA:
        text = f"Creation of internal topic {name} is prohibited."
        raise RequestRefused(error_codes.INVALID_REQUEST, text)
    if count > 1:
        text = "Found multiple entries for this topic."
        raise RequestRefused(error_codes.INVALID_REQUEST, text)


def judge(
    controller: Controller, requested: NewTopic, names: ExistingTopics, brokers: list[Broker]
) -> TopicPlan:
    """The topic to create. Raises RequestRefused, which has the error message."""
    name = requested.name
    if controller.context.is_in_metadata(name):
        raise topic_exists_error(name)
    nulls = [key for key, value in requested.configs if value is None]
    if nulls:
        text = f"Null value not supported for topic configs: {','.join(nulls)}"
        raise RequestRefused(error_codes.INVALID_CONFIG, text)
    given = dict(requested.assignments) if requested.assignments else None
    if given is None:
        partitions, replication_factor = _counts(controller, requested, brokers)
    elif (requested.partitions, requested.replication_factor) != (NOT_GIVEN, NOT_GIVEN):
        raise RequestRefused(error_codes.INVALID_REQUEST, _BOTH_GIVEN)
    else:
        partitions, replication_factor = len(given), len(next(iter(given.values())))
    _check_name(name, names)
    if given is not None:
        _check_assignment(controller, requested.name, given)
    configs = {key: value for key, value in requested.configs if value is not None}
    _check_configs(controller, configs)
    check_size(name, znodes.write_config(configs))
    return TopicPlan(name, partitions, replication_factor, given, configs)


def _check_configs(controller: Controller, configs: dict[str, str]) -> None:
    """Check that every live broker can read the configuration. Raises RequestRefused.

    A broker that cannot read it may lose healthy partitions and not start again. A broker of
    unknown release has at least the release of the protocol version.
    """
    context, settings = controller.context, controller.configuration.broker_settings
    wrong = topic_configs.validate(configs, settings, context.oldest_release())
    unknown = [str(broker) for broker in context.brokers if broker not in context.releases]
    if not wrong and unknown:
        wrong = topic_configs.validate(configs, settings, release_named(controller.protocol.name))
        if wrong:
            wrong += f" (brokers whose release is not known yet: {', '.join(unknown)}; ask again)"
    if wrong:
        raise RequestRefused(error_codes.INVALID_CONFIG, wrong)


def _counts(controller: Controller, requested: NewTopic, brokers: list[Broker]) -> tuple[int, int]:
    """The numbers of partitions and replicas, with the configured defaults. Raises
    RequestRefused."""
    partitions, replication_factor = requested.partitions, requested.replication_factor
    if partitions == NOT_GIVEN:
        partitions = controller.configuration.num_partitions
    if replication_factor == NOT_GIVEN:
        replication_factor = controller.configuration.default_replication_factor
    check_counts(brokers, partitions, replication_factor)
    check_size_of_counts(requested.name, partitions, replication_factor)
    return partitions, replication_factor


def check_size_of_counts(topic: str, partitions: int, replication_factor: int) -> None:
    """Check that a znode can hold the number of replicas, before they are assigned. Raises
    RequestRefused."""
    bytes_min = partitions * (_PARTITION_BYTES_MIN + _REPLICA_BYTES_MIN * replication_factor)
    if bytes_min > znodes.DATA_BYTES_MAX:
        raise _too_large(topic)


def check_size(topic: str, data: bytes) -> None:
    """Check that a znode can hold the data. Raises RequestRefused.

    Kafka still writes it, again and again: the server breaks the connection each time.
    """
    if len(data) > znodes.DATA_BYTES_MAX:
        raise _too_large(topic)


def _too_large(topic: str) -> RequestRefused:
    text = f"Topic '{topic}' would need more than the {znodes.DATA_BYTES_MAX} bytes of a znode."
    return RequestRefused(error_codes.INVALID_REQUEST, text)


def topic_exists_error(name: str) -> RequestRefused:
    """The error that the topic exists."""
    return RequestRefused(error_codes.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")


def _check_name(name: str, names: ExistingTopics) -> None:
    """Validate a name. Raises RequestRefused."""
    illegal = topic_names.problem_of(name)
    if illegal:
        raise RequestRefused(error_codes.INVALID_TOPIC_EXCEPTION, illegal)
    if name in names.marked:
        text = f"Topic '{name}' is marked for deletion."
        raise RequestRefused(error_codes.TOPIC_ALREADY_EXISTS, text)
    if name in names.topics:
        raise topic_exists_error(name)
    colliding = names.colliding(name)
    if colliding:
        text = f"Topic '{name}' collides with existing topics: {', '.join(colliding)}"
        raise RequestRefused(error_codes.INVALID_TOPIC_EXCEPTION, text)


def _check_assignment(controller: Controller, topic: str, given: Replicas) -> None:
    """Validate an assignment; brokers need not be known, as in Kafka. Raises RequestRefused."""
    refused = error_codes.INVALID_REPLICA_ASSIGNMENT
    sizes = dict.fromkeys(map(len, given.values()))
    if len(sizes) != 1:
        text = "All partitions should have the same number of replicas"
        raise RequestRefused(refused, text)
    if 0 in sizes and EMPTY_ASSIGNMENT_REFUSED.applies(controller.configuration):
        controller.observer.deviates(EMPTY_ASSIGNMENT_REFUSED, topic)
        raise RequestRefused(refused, _EMPTY)
    if any(len(set(replicas)) != len(replicas) for replicas in given.values()):
        raise RequestRefused(refused, f"Duplicate replica assignment found: {_as_scala(given)}")
    # Kafka checks the sum of the numbers, which accepts some negative ones that no broker can read.
    if sorted(given) != list(range(len(given))):
        text = "partitions should be a consecutive 0-based integer sequence"
        raise RequestRefused(refused, text)
    names_own_id = daemon_id_problem(controller, (one for all in given.values() for one in all))
    if names_own_id:
        raise RequestRefused(refused, names_own_id)


def _as_scala(given: Replicas) -> str:
    """The text of a mutable map of buffers in Scala."""
    spelt = (f"{n} -> ArrayBuffer({', '.join(map(str, given[n]))})" for n in sorted(given))
    return f"HashMap({', '.join(spelt)})"
