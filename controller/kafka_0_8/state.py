"""Replica and Partition, as the design defines them (docs/design-0.8.md)."""

from collections import deque
from typing import NamedTuple

from controller.core.commands import CommandId
from controller.core.values import ANY_VERSION, NO_LEADER

NO_EPOCH = 0
"""Below the first leader epoch."""

NO_EPOCH_ZNODE = -1
"""The version of /brokers/epoch while that znode does not exist."""

UNKNOWN_LEO = -1
"""The log end offset of a replica that has not fetched in this leadership."""

Name = tuple[str, int]
"""A partition by topic and number."""


class PendingProduce(NamedTuple):
    """A produce request in the commitQ: its number, and the offset after its last record."""

    request: int
    end: int


class PendingAppend(NamedTuple):
    """Records on their way into the local log: of a produce request, or fetched (`request` is 0).
    `epoch` is the leader epoch at that time."""

    name: Name
    epoch: int
    request: int
    acks: int


class Replica:
    """A replica of `partition`.

    `is_local`: it is on this broker. `hw` is the offset after the last committed record, `leo` the
    log end offset. Of a replica on another broker the leader knows only `leo`, when the replica had
    all records (`caught_up_ms`), and the version of the replicas znode since which it is assigned
    (`assigned_at`; 0: since before the leadership), and the run of its broker in which it has
    fetched last (`run`). `stale_run` is a run that a write of the ISR has found to be outdated,
    until a fetch with it is rejected. The log itself is on the broker's disk, not in the fold.
    """

    __slots__ = (
        "assigned_at",
        "broker_id",
        "caught_up_ms",
        "hw",
        "is_local",
        "leo",
        "partition",
        "run",
        "stale_run",
    )

    def __init__(
        self,
        broker_id: int,
        partition: "Partition",
        *,
        is_local: bool,
        now_ms: int = 0,
        assigned_at: int = 0,
    ) -> None:
        self.broker_id = broker_id
        self.partition = partition
        self.is_local = is_local
        self.hw = 0
        self.leo = 0 if is_local else UNKNOWN_LEO
        self.caught_up_ms = now_ms
        self.assigned_at = assigned_at
        self.run = ANY_VERSION
        self.stale_run = ANY_VERSION


class Partition:
    """A partition with a replica on this broker.

    - `leader`, `epoch`: the leader that this broker follows or is, NO_LEADER if there is none.
    - `local`: the replica on this broker; `is_open`: its log is open.
    - `czxid`: the transaction that created the replicas znode for which the log was opened. After
      the deletion and creation of the partition, the znode has another one.
    - `address`: host:port of the leader; `fetch`, `append`: the command in flight, while following.
    - `leader_hw`: the high watermark in the last fetch response.
    - `replicas_version`: the version of the replicas znode.

    The leader maintains:

    - `ar`: the assigned replicas in their order; `isr` and `rar` as broker ids. `cur` is the rest
      of `ar`.
    - `joining`: replicas of the CUR that an unfinished write adds to the ISR. They count for the
      high watermark already.
    - `isr_version`: the version of the ISR znode.
    - `rar_version`: the version of the znode with the RAR.
    - `epoch_version`: a version of /brokers/epoch at which this broker was the leader; None: it is
      unknown.
    - `start_leo`: the log end offset at the beginning of the leadership.
    - `commit_queue`: the commitQ.
    """

    def __init__(self, name: Name, broker_id: int) -> None:
        self.name = name
        self.local = Replica(broker_id, self, is_local=True)
        self.is_open = False
        self.leader = NO_LEADER
        self.epoch = NO_EPOCH
        self.czxid = 0
        self.address = ""
        self.fetch: CommandId | None = None
        self.append: CommandId | None = None
        self.leader_hw = 0
        self.ar: dict[int, Replica] = {}
        self.isr: tuple[int, ...] = ()
        self.rar: tuple[int, ...] = ()
        self.joining: tuple[int, ...] = ()
        self.isr_version = ANY_VERSION
        self.rar_version = ANY_VERSION
        self.epoch_version: int | None = None
        self.replicas_version = ANY_VERSION
        self.start_leo = 0
        self.commit_queue: deque[PendingProduce] = deque()

    @property
    def is_leader(self) -> bool:
        """Whether this broker is the leader."""
        return self.leader == self.local.broker_id

    @property
    def cur(self) -> tuple[int, ...]:
        """The replicas that are catching up: those assigned that are not in the ISR."""
        return tuple(one for one in self.ar if one not in self.isr)

    def assign(self, brokers: tuple[int, ...], now_ms: int, assigned_at: int) -> None:
        """Set the assigned replicas; known ones keep their state. `assigned_at`: that of the
        others."""
        known = {**self.ar, self.local.broker_id: self.local}
        self.ar = {
            one: known.get(one)
            or Replica(one, self, is_local=False, now_ms=now_ms, assigned_at=assigned_at)
            for one in brokers
        }

    def forget_leader(self) -> None:
        """The partition has no leader that is known; this broker neither leads nor follows."""
        self.leader = NO_LEADER
        self.address = ""
        self.fetch = self.append = None
        self.ar, self.isr, self.rar, self.joining = {}, (), (), ()
