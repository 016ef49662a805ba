"""The required state at the end of an incident, in ZooKeeper and in the brokers' metadata."""

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any

from aiokafka.errors import KafkaError

from controller.core.znodes import PREFERRED_ELECTION, REASSIGN_PARTITIONS
from tests.lab.incidents.zookeeper_tree import Tree
from tools.lab import KafkaBroker
from tools.lab.broker_view import BrokerPartition, topics

_TOPICS = "/brokers/topics"
_REQUESTS = (REASSIGN_PARTITIONS, PREFERRED_ELECTION)


def wrong_in_zookeeper(whole: Tree, expected: Iterable[str]) -> list[str]:
    """Partitions without a full ISR or a leader, and remains of completed operations."""
    wrong = [f"{path} exists" for path in _REQUESTS if path in whole]
    for parent in (_TOPICS, "/config/topics"):
        found, wanted = set(_children(whole, parent)), set(expected)
        wrong += [f"{parent}/{one} is left over" for one in sorted(found - wanted)]
        wrong += [f"{parent}/{one} is missing" for one in sorted(wanted - found)]
    wrong += [f"{one} waits for its deletion" for one in _children(whole, "/admin/delete_topics")]
    for topic in _children(whole, _TOPICS):
        wrong += _wrong_with(whole, topic)
    return wrong


def _children(whole: Tree, parent: str) -> list[str]:
    below = [path.removeprefix(f"{parent}/") for path in whole if path.startswith(f"{parent}/")]
    return [name for name in below if "/" not in name]


def _wrong_with(whole: Tree, topic: str) -> Iterator[str]:
    content = whole[f"{_TOPICS}/{topic}"].content
    for field in ("adding_replicas", "removing_replicas"):
        if any(content.get(field, {}).values()):
            yield f"{topic} has {field} {content[field]}"
    numbers = set(_children(whole, f"{_TOPICS}/{topic}/partitions"))
    if numbers - content["partitions"].keys():
        yield f"{topic} has partitions {sorted(numbers)}, not {sorted(content['partitions'])}"
    for number, replicas in content["partitions"].items():
        znode = whole.get(_state_path(topic, number))
        if znode is None:
            yield f"{topic}-{number} has no state"
            continue
        state = znode.content
        if set(state["isr"]) != set(replicas) or state["leader"] not in replicas:
            yield f"{topic}-{number} on {replicas} is led by {state['leader']}, ISR {state['isr']}"


def _state_path(topic: str, number: str) -> str:
    return f"{_TOPICS}/{topic}/partitions/{number}/state"


async def wrong_on_brokers(
    whole: Tree, brokers: Sequence[KafkaBroker], paused: Container[int]
) -> list[str]:
    """Topics for which a broker's metadata differs from ZooKeeper, if ZooKeeper is as required.

    Brokers that were paused may know deleted topics. A broker that lost its session and continues
    is never informed of deletions, because UpdateMetadata contains existing partitions only.
    """
    wanted = _partitions(whole)
    wrong: list[str] = []
    for broker in brokers:
        try:
            known = await topics(broker)
        except (KafkaError, OSError) as error:
            wrong.append(f"{broker.name} does not answer: {error!r}")
            continue
        names = wanted.keys() if broker.broker_id in paused else known.keys() | wanted.keys()
        wrong += [
            f"{broker.name} has {known.get(name)} of {name}, ZooKeeper {wanted.get(name)}"
            for name in sorted(names)
            if known.get(name) != wanted.get(name)
        ]
    return wrong


def _partitions(whole: Tree) -> dict[str, dict[int, BrokerPartition]]:
    return {
        topic: {
            int(number): _view(replicas, whole[_state_path(topic, number)].content)
            for number, replicas in whole[f"{_TOPICS}/{topic}"].content["partitions"].items()
        }
        for topic in _children(whole, _TOPICS)
    }


def _view(replicas: list[int], state: Any) -> BrokerPartition:
    return BrokerPartition(state["leader"], replicas, set(state["isr"]))
