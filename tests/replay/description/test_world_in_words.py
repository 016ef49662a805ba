"""What a stock cluster's transactions are in plain words, with the paths that Kafka knows."""

import pytest

from replay.description.imported_events import transaction_in_words
from replay.stock_clusters.zookeeper_log.transactions import OPEN_ACL, Create, OpCode, Transaction


def created(path: str, chroot: str) -> str:
    content = Create(path, b"", OPEN_ACL, False, 1)
    return transaction_in_words(Transaction(7, 9, 1, 1000, OpCode.CREATE, content), chroot)


@pytest.mark.parametrize(
    ("path", "chroot", "known"),
    [
        ("/brokers/ids", "", "/brokers/ids"),
        ("/kafka/brokers/ids", "/kafka", "/brokers/ids"),
        ("/kafka", "/kafka", "/"),
        ("/kafka2/brokers/ids", "/kafka", "/kafka2/brokers/ids"),
        ("/zookeeper/config", "/kafka", "/zookeeper/config"),
    ],
)
def test_path_is_as_kafka_knows_it(path: str, chroot: str, known: str) -> None:
    assert created(path, chroot) == f"create {known}"
