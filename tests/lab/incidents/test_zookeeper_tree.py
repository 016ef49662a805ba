"""Differences between two trees that count."""

import pytest

from tests.lab.incidents.zookeeper_tree import Tree, Znode, differences

TOPIC = "/brokers/topics/t"
STATE = f"{TOPIC}/partitions/0/state"


def tree(epoch: int) -> Tree:
    """A cluster with one partition, under the controller of that epoch."""
    return {
        "/controller_epoch": Znode(epoch, epoch, False),
        "/controller": Znode({"version": 2, "brokerid": epoch, "timestamp": "1"}, 0, True),
        "/brokers/ids/1": Znode({"host": "localhost", "port": epoch, "rack": "a"}, 1, True),
        TOPIC: Znode({"topic_id": 20 * "a" + f"{epoch:02}", "partitions": {"0": [1, 2]}}, 1, False),
        STATE: Znode(
            {"leader": 1, "leader_epoch": 3, "controller_epoch": epoch, "isr": [epoch, 3 - epoch]},
            4,
            False,
        ),
    }


def credential(of: str) -> Tree:
    """A cluster with a user whose credential has this salt and key."""
    config = {
        "producer_byte_rate": "5",
        "SCRAM-SHA-256": f"salt={of},stored_key={of},iterations=4096",
    }
    return tree(1) | {"/config/users/ann": Znode({"version": 1, "config": config}, 0, False)}


def test_credentials_are_compared_by_their_lengths() -> None:
    assert differences(credential("eHg="), credential("eXk=")) == []
    assert len(differences(credential("eHg="), credential("eXl5eQ=="))) == 1


def test_ids_ports_and_epochs_of_a_run_are_ignored() -> None:
    assert differences(tree(1), tree(2)) == []


@pytest.mark.parametrize(
    ("path", "znode", "text"),
    [
        (STATE, Znode({"leader": 1}, 5, False), f"{STATE} version: stock 4, refold 5"),
        (TOPIC, Znode({"topic_id": "short"}, 1, False), "refold 'short'"),
        ("/brokers/ids/1", Znode({"rack": "b"}, 1, True), "data.rack: stock 'a', refold 'b'"),
        ("/admin/left", Znode("", 0, False), "/admin/left version: stock None, refold 0"),
    ],
)
def test_different_field_is_reported(path: str, znode: Znode, text: str) -> None:
    other = tree(2)
    before = other.get(path)
    if before is not None and isinstance(znode.content, dict):
        znode = znode._replace(content=before.content | znode.content)
    found = differences(tree(1), other | {path: znode})
    assert text in "\n".join(map(str, found))


def test_state_of_an_earlier_controller_is_reported() -> None:
    other = tree(2)
    other[STATE] = other[STATE]._replace(content=other[STATE].content | {"controller_epoch": 1})
    [found] = differences(tree(1), other)
    assert str(found) == f"{STATE} data.controller_epoch: stock 0, refold -1"
