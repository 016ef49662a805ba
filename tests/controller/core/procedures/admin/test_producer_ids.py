"""Blocks of producer ids (KB 11.4)."""

import json

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.api_requests.producer_ids import AllocateProducerIdsResponse
from controller.core.commands import WriteZnodes
from tests.controller.core.cluster import Cluster
from tests.controller.core.endpoint import allocate_producer_ids
from tests.controller.core.procedures.reassignment.interrupting import WriteRejectingCluster


def block(cluster: Cluster) -> tuple[int, str, str]:
    znode = json.loads(cluster.data(znodes.PRODUCER_IDS) or b"")
    return znode["broker"], znode["block_start"], znode["block_end"]


def test_each_block_starts_after_the_previous_one() -> None:
    cluster = Cluster(1, 2).start()
    first = allocate_producer_ids(cluster, 1)
    assert first == AllocateProducerIdsResponse(first.request, codes.NONE, 0, 1000)
    assert block(cluster) == (1, "0", "999")
    second = allocate_producer_ids(cluster, 2)
    assert (second.start, second.length) == (1000, 1000)
    assert block(cluster) == (2, "1000", "1999")


def test_block_allocated_by_another_controller_meanwhile_is_skipped() -> None:
    cluster = Cluster(1).start()
    allocate_producer_ids(cluster, 1)
    taken = znodes.write_producer_ids(znodes.ProducerIds(9, 1000, 1999))

    def take() -> None:
        cluster.put_quietly(znodes.PRODUCER_IDS, taken)

    cluster.once(lambda issued: isinstance(issued.command, WriteZnodes), take)
    assert allocate_producer_ids(cluster, 1).start == 2000


def test_unregistered_broker_or_stale_epoch_is_rejected() -> None:
    cluster = Cluster(1).start()
    assert allocate_producer_ids(cluster, 77, 5).error == codes.BROKER_ID_NOT_REGISTERED
    for epoch in (cluster.broker_epoch(1) - 1, cluster.broker_epoch(1) + 1):
        assert allocate_producer_ids(cluster, 1, epoch).error == codes.STALE_BROKER_EPOCH
    assert cluster.data(znodes.PRODUCER_IDS) is None


def test_exhausted_or_unreadable_block_is_an_error_and_is_not_changed() -> None:
    cluster = Cluster(1).start()
    last = znodes.write_producer_ids(znodes.ProducerIds(1, 2**63 - 1000, 2**63 - 1))
    for content in (last, b"no json", b'{"version":1,"broker":1}'):
        cluster.put(znodes.PRODUCER_IDS, content)
        seen = cluster.seen()
        answer = allocate_producer_ids(cluster, 1)
        assert (answer.error, answer.length) == (codes.UNKNOWN_SERVER_ERROR, 0)
        assert cluster.data(znodes.PRODUCER_IDS) == content
        assert seen.notices() == [("no_producer_ids", znodes.PRODUCER_IDS)]


def test_last_block_is_allocated() -> None:
    cluster = Cluster(1).start()
    block_before = znodes.ProducerIds(1, 2**63 - 2000, 2**63 - 1001)
    cluster.put(znodes.PRODUCER_IDS, znodes.write_producer_ids(block_before))
    answer = allocate_producer_ids(cluster, 1)
    assert (answer.error, answer.start) == (codes.NONE, 2**63 - 1000)
    assert block(cluster) == (1, str(2**63 - 1000), str(2**63 - 1))


def test_rejected_write_is_an_error_and_is_not_repeated() -> None:
    cluster = WriteRejectingCluster(1)
    cluster.start()
    only_the_first = iter([True])
    cluster.refuses = lambda issued: next(only_the_first, False)
    seen = cluster.seen()
    answer = allocate_producer_ids(cluster, 1)
    assert (answer.error, answer.length) == (codes.UNKNOWN_SERVER_ERROR, 0)
    assert cluster.data(znodes.PRODUCER_IDS) is None
    assert "ZooKeeper refuses the write (code -102)" in seen.texts_of("no_producer_ids")[0]
