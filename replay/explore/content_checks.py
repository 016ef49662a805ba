"""Checks what the inputs and znodes of a scenario contain: assignments, configurations and paths.

A request to the controller may have any content: the controller rejects what is wrong. An error in
what a tool writes to ZooKeeper would be reported as a violation.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from controller.core import topic_configs, topic_names, znodes
from controller.core.errors import ZnodeError
from controller.core.topic_configs import MIN_INSYNC_REPLICAS
from replay.world.inputs import (
    ChangeBrokerConfig,
    ChangeTopicConfig,
    CreatePartitions,
    CreateTopic,
    DeleteZnode,
    Input,
    WriteZnode,
)
from replay.znode_tree.paths import ROOT, is_valid

_OF_PROCESSES: Final = (znodes.BROKER_IDS, znodes.CONTROLLER)


def bad_content(one: Input) -> Iterator[str]:
    """The reasons why an input that a tool writes to ZooKeeper cannot be used."""
    match one:
        case CreateTopic(route="api") | CreatePartitions(route="api"):
            pass
        case CreateTopic(topic=topic, assignment=assignment, configs=configs):
            illegal = topic_names.problem_of(topic)
            if illegal:
                yield f"topic: {illegal}"
            yield from _bad_replicas("assignment", assignment)
            yield from _bad_configs(configs)
        case CreatePartitions(added=added):
            yield from _bad_replicas("added", added)
        case ChangeTopicConfig(configs=configs):
            yield from _bad_configs(configs)
        case ChangeBrokerConfig(configs=configs):
            given = configs.get(MIN_INSYNC_REPLICAS)
            yield from _bad_configs({} if given is None else {MIN_INSYNC_REPLICAS: given})
        case WriteZnode(path=path) | DeleteZnode(path=path):
            if not is_valid(path) or path == ROOT:
                yield f"path {path!r} must be the path of a znode, such as /admin/reassign_cancel"
        case _:
            pass


def _bad_replicas(field: str, assignment: Sequence[Sequence[int]]) -> Iterator[str]:
    if not assignment:
        yield f"{field} must have one or more partitions"
    for replicas in assignment:
        if not replicas or len(set(replicas)) < len(replicas) or min(replicas) < 0:
            yield (
                f"{field}: the replicas {list(replicas)} of a partition must be the ids of one or"
                " more brokers, each once"
            )


def _bad_configs(configs: Mapping[str, str]) -> Iterator[str]:
    known = {one.name for one in topic_configs.TOPIC_CONFIGS}
    # A cluster may have configurations of others than Kafka.
    of_kafka = {name: value for name, value in configs.items() if name in known}
    invalid = topic_configs.validate(of_kafka, {})
    if invalid:
        yield f"configs: {invalid}"


def znode_problem(path: str, data: str) -> str | None:
    """Why a scenario cannot begin with this znode; None if it can."""
    if not is_valid(path) or path == ROOT:
        return f"{path!r} must be the path of a znode, such as /admin/reassign_cancel"
    if any(path == one or path.startswith(f"{one}/") for one in _OF_PROCESSES):
        return f"{path}: brokers and controllers create it when they start"
    try:
        if path == znodes.CONTROLLER_EPOCH:
            znodes.read_controller_epoch(data.encode())
    except ZnodeError as error:
        return str(error)
    return None
