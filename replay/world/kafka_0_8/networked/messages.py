"""The requests between brokers of the 0.8 design. Those of clients are in
`replay.world.broker.messages`."""

from msgspec import Struct

from replay.world.observer import Name


class ReplicaFetch(Struct, frozen=True):
    """A follower asks for the records of a partition from `offset` on. `epoch` is the leader epoch
    that it follows, `replicas_version` the version of the replicas znode that it has read last,
    `run` the run of its broker."""

    number: int
    replica: int
    name: Name
    offset: int
    epoch: int
    replicas_version: int
    run: int


class ReplicaFetchResponse(Struct, frozen=True):
    """The response of the leader: an error, or records with its high watermark and log end."""

    number: int
    error: int
    records: tuple[int, ...]
    hw: int
    leo: int
