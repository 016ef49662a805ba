"""The transactions that an ensemble has committed."""

from typing import NamedTuple

from replay.world.ensemble.protocol import CloseSession, CreateSession
from replay.world.requests import Multi, Reply, Write
from replay.world.zookeeper import Changes


class Transaction(NamedTuple):
    """One transaction, refused ones included. `cause`: the delivery that caused it, see Network."""

    zxid: int
    at_us: int
    now_ms: int
    """The wall-clock time, for the times of znodes."""
    process: str
    """The process that started the session."""
    session: int
    request: Write | Multi | CreateSession | CloseSession
    reply: Reply
    changes: Changes
    """The changes of the transaction, in order; empty if it was refused."""
    cause: int
