"""Transactions of a stock cluster are described in words, with paths below the chroot."""

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
def test_chroot_is_removed_from_the_path(path: str, chroot: str, known: str) -> None:
    assert created(path, chroot) == f"create {known}"
