"""A follower as its leader sees it (Replica and ReplicaState of Kafka)."""

from typing import Final, Protocol

_LONG_AGO: Final = -(1 << 60)


class FollowerSession(Protocol):
    """The fetch session of a follower."""

    @property
    def fetch_us(self) -> int:
        """When its last fetch arrived."""


class RemoteReplica:
    """The log end offset of a follower, and when it was at the end of the leader's log.

    A follower that is at the end fetches again and again from there. Only the session remembers the
    time of these fetches; `take_over_last_fetch` copies it before the leader's log grows, and
    before it is used.
    """

    __slots__ = ("caught_up_us", "end", "fetch_end", "fetch_us", "id", "session")

    def __init__(self, id: int) -> None:
        self.id = id
        self.end = -1
        self.caught_up_us = _LONG_AGO
        self.fetch_us = _LONG_AGO
        self.fetch_end = 0
        self.session: FollowerSession | None = None
        """The session that fetches at the current leader epoch, None if there is none."""

    def reset(self, now_us: int, leader_end: int, is_new_leader: bool, is_in_sync: bool) -> None:
        """A leader epoch begins (resetReplicaState). A follower outside of the ISR must not hold
        the high watermark back."""
        self.caught_up_us = now_us if is_in_sync else _LONG_AGO
        if is_new_leader:
            self.end, self.fetch_end, self.fetch_us = -1, -1, _LONG_AGO
        else:
            self.fetch_end = leader_end
            self.fetch_us = now_us if is_in_sync else _LONG_AGO
        self.session = None

    def fetched(self, offset: int, leader_end: int, now_us: int, session: FollowerSession) -> None:
        """A fetch at `offset` was answered without an error (updateFetchStateOrThrow)."""
        self.take_over_last_fetch(leader_end)
        if offset >= leader_end:
            self.caught_up_us = max(self.caught_up_us, now_us)
        elif offset >= self.fetch_end:
            self.caught_up_us = max(self.caught_up_us, self.fetch_us)
        self.end = offset
        self.fetch_end = max(leader_end, self.fetch_end)
        self.fetch_us = now_us
        self.session = session

    def take_over_last_fetch(self, leader_end: int) -> None:
        """Take over the time of the last fetch at the end of the leader's log."""
        session = self.session
        if session is not None and self.end >= leader_end and session.fetch_us > self.fetch_us:
            self.caught_up_us = self.fetch_us = session.fetch_us

    def is_caught_up(self, leader_end: int, now_us: int, lag_us: int) -> bool:
        """Whether the follower may be in the ISR (isCaughtUp)."""
        self.take_over_last_fetch(leader_end)
        return self.end == leader_end or now_us - self.caught_up_us <= lag_us
