"""Znodes as an imported log has them, and Kafka's writes."""

import json
from typing import Any

from controller.core import operations
from replay.agreement.decisions.write_batch import StockDecision
from replay.stock_clusters.zookeeper_log.restoring import ZooKeeperState
from replay.stock_clusters.zookeeper_log.transactions import (
    OPEN_ACL,
    Check,
    CloseSession,
    Content,
    Create,
    CreateSession,
    Delete,
    Error,
    Multi,
    OpCode,
    Operation,
    SetData,
    Transaction,
)
from replay.znode_view import ZnodeView

TOPIC = "/brokers/topics/t"
STATE = f"{TOPIC}/partitions/0/state"
OTHER = f"{TOPIC}/partitions/1/state"

_TYPES = {
    Create: OpCode.CREATE,
    SetData: OpCode.SET_DATA,
    Delete: OpCode.DELETE,
    Check: OpCode.CHECK,
    Error: OpCode.ERROR,
    CreateSession: OpCode.CREATE_SESSION,
    CloseSession: OpCode.CLOSE_SESSION,
}


Written = Operation | CreateSession | CloseSession


def create(path: str, data: bytes = b"") -> Create:
    return Create(path, data, OPEN_ACL, False, 1)


def state_json(leader: int, epoch: int, *isr: int, **more: Any) -> bytes:
    """A partition's state as Kafka writes it."""
    content = {"controller_epoch": 1, "leader": leader, "version": 1, "leader_epoch": epoch}
    return json.dumps(content | {"isr": isr} | more).encode()


def topic_json(*replicas: list[int], **more: Any) -> bytes:
    """A topic's znode, with a list of replicas for each partition."""
    partitions = {str(number): one for number, one in enumerate(replicas)}
    content = {"version": 3, "partitions": partitions, "topic_id": "pPIRp0EbRlmoyqCvGidCAQ"}
    return json.dumps(content | {"adding_replicas": {}, "removing_replicas": {}} | more).encode()


def transaction(
    zxid: int, *written: Written, session: int = 7, cxid: int = 1, time_ms: int = 0
) -> Transaction:
    """A transaction with one operation, or with a multi of several."""
    content: Content = written[0]
    opcode = _TYPES[type(written[0])]
    if len(written) > 1:
        content = Multi(tuple(int(_TYPES[type(one)]) for one in written), written)  # type: ignore[arg-type]
        opcode = OpCode.MULTI
    return Transaction(zxid, session, cxid, time_ms, int(opcode), content)


class Tree:
    """A tree of znodes with the view that a comparison has of them."""

    def __init__(self, chroot: str = "") -> None:
        self.state = ZooKeeperState()
        self.view = ZnodeView(self.state.tree, chroot)
        self._chroot = chroot
        levels = chroot.split("/")[1:]
        for depth in range(len(levels)):
            self._apply(create("/" + "/".join(levels[: depth + 1])))

    def put(self, path: str, data: bytes = b"") -> None:
        """Creates a znode and missing parents, or sets an existing znode."""
        parent = path.rpartition("/")[0]
        if parent and self.view.find(parent) is None:
            self.put(parent)
        znode = self.view.find(path)
        where = self._chroot + path
        self._apply(
            create(where, data) if znode is None else SetData(where, data, znode.version + 1)
        )

    def remove(self, path: str) -> None:
        """Deletes a znode."""
        self._apply(Delete(self._chroot + path))

    def _apply(self, operation: Operation) -> None:
        self.state.apply(transaction(self.state.zxid + 1, operation))


def decision(
    *written: Operation, what: str = "partition_state", error: int = 0, zxid: int = 100
) -> StockDecision:
    """A decision of Kafka in one transaction."""
    paths = ["" if isinstance(one, Error) else one.path for one in written]
    return StockDecision(9, zxid, 5000, what, error, tuple(zip(paths, written, strict=True)))


def set_state(data: bytes, version: int = 0, path: str = STATE) -> operations.SetData:
    """The fold's write of a state at a version."""
    return operations.SetData(path, data, version)
