"""The interrupted procedures: a cancellation, a conflict in the extra znode, and a drop.

A throttle of 1 B/s keeps replicas out of the ISR until it is removed; each topic names the brokers
whose replicas are throttled. Kafka does not throttle a replica that has reached the high watermark.
Therefore the originals of every topic have more data than one fetch returns (`BROKER_CONFIG`), and
the high watermark is after these data, before a throttled replica is added.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from controller.core.znodes import CANCEL_CONTENT, REASSIGN_CANCEL
from controller.core.znodes import REASSIGN_PARTITIONS_EXTRA as EXTRA
from tests.lab.interrupted.moving import Moving

FIRST_TARGET = [4, 5, 6]
THROTTLED = (6, 7)
"""Brokers whose replicas are throttled from the beginning: reassignments stay in progress."""

BROKER_CONFIG = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.max.bytes": "2000",
    "zookeeper.session.timeout.ms": "30000",
    # Leaders are elected only by the procedures.
    "auto.leader.rebalance.enable": "false",
}
RECORDS = 10
RECORD_BYTES = 4000
"""The first records of each topic are larger than `replica.fetch.max.bytes`."""


class Successor(StrEnum):
    """The controllers after the crash."""

    REFOLD = "refold"
    STOCK = "stock, then refold"


@dataclass(frozen=True)
class Situation:
    """The state of a partition when its procedure begins.

    `lags`: one of two originals is alive and out of sync, so that fewer originals are in sync than
    min.insync.replicas requires. `completes`: the target of the partition is no longer throttled
    when a stock controller has the role.
    """

    name: str
    leader: int = 1
    lags: bool = False
    completes: bool = False

    @property
    def originals(self) -> list[int]:
        """The replicas before the reassignment."""
        return [1, 7] if self.lags else [1, 2, 3]

    @property
    def isr(self) -> list[int]:
        """The ISR when the procedure begins."""
        return [1, 4, 5] if self.lags else [1, 2, 3, 4, 5]


@dataclass(frozen=True)
class Topic:
    """One topic of a cell, with one partition."""

    name: str
    situation: Situation
    unclean: bool


@dataclass(frozen=True)
class Procedure:
    """A procedure and the situations in which it is interrupted.

    It ends with `second_target` if there is one, otherwise with the originals. A stock controller
    may bring a partition to `stock_end`, which is a complete end as well.
    """

    key: str
    title: str
    situations: tuple[Situation, ...]
    second_target: tuple[int, ...] = ()
    stock_end: tuple[int, ...] = ()

    async def begin(self, moving: Moving, topics: Sequence[Topic]) -> None:
        """Requests the first target."""
        if self.key == "drop":
            await moving.request({one.name: {0: FIRST_TARGET} for one in topics})
        else:
            await moving.submit({(one.name, 0): FIRST_TARGET for one in topics})

    async def interrupt(self, moving: Moving, topics: Sequence[Topic]) -> None:
        """Starts the procedure that is interrupted."""
        match self.key:
            case "cancellation":
                await moving.view.create(REASSIGN_CANCEL, CANCEL_CONTENT.decode())
            case "conflict":
                await moving.submit({(one.name, 0): self.second_target for one in topics}, EXTRA)
            case "drop":
                await moving.request({one.name: {0: self.second_target} for one in topics})

    def ends(self, topic: Topic, successor: Successor) -> list[list[int]]:
        """The assignments with which a topic's partition may end."""
        wanted = [list(self.second_target) or topic.situation.originals]
        if successor is Successor.STOCK and self.stock_end:
            wanted.append(list(self.stock_end))
        return wanted


_ORIGINAL = Situation("led by an original")
_TARGET = Situation("led by a target", leader=4)
_LAGS = Situation("one of two originals lags", lags=True)
_COMPLETES = Situation("the stock controller may complete it", completes=True)

CANCELLATION = Procedure(
    "cancellation",
    "a cancellation",
    (_ORIGINAL, _TARGET, _LAGS, _COMPLETES),
    stock_end=tuple(FIRST_TARGET),
)
CONFLICT = Procedure(
    "conflict",
    "a conflict in the extra znode",
    (_COMPLETES,),
    second_target=(3, 6, 7),
)
DROP = Procedure(
    "drop",
    "a changed target that drops an intermediate replica",
    (_COMPLETES,),
    second_target=(4, 7),
)
PROCEDURES = (CANCELLATION, CONFLICT, DROP)
