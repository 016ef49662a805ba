"""Whether the table is up to date with the topic, for its readers: DIR/status.json.

The job cannot know: it writes nothing if there are no new messages, and also if no broker answers.
A thread checks the topic every two seconds.
"""

import logging
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from threading import Event, Thread
from typing import Final

import anyio
from msgspec import Struct

from eventstore.errors import MirrorFailed
from eventstore.mirror.topic import MirrorTopic, ends_of, errors_of
from replay.fleet.live.folder import LiveFolder

LOOK_S: Final = 2.0
REPORT_AFTER_S: Final = 10.0
"""How long the topic is unreachable before it is reported."""
_ANSWER_S: Final = 5.0

Offsets = Mapping[int, int]
"""By partition, the offset after the last message."""


class Status(Struct, frozen=True):
    """The state of the table relative to the topic.

    `state` is `starting` (no batch yet), `up_to_date`, `behind`, `unreachable` (see `trouble`) or
    `ended`. `looked` is the time of the check. `as_of` is when the table last had all messages,
    both in UTC. `messages_behind` is how many messages it lacked.
    """

    state: str
    looked: datetime
    as_of: datetime | None = None
    messages_behind: int | None = None
    trouble: str | None = None
    pid: int = 0


class StatusTracker:
    """Derives a status from each check, and reports when the topic becomes unreachable and
    reachable."""

    def __init__(self, place: str, on_trouble: Callable[[str], None]) -> None:
        self._place = place
        self._on_trouble = on_trouble
        self._as_of: datetime | None = None
        self._gone_since: datetime | None = None
        self._is_reported = False

    def topic_reached(self, ends: Offsets, taken: Offsets | None, now: datetime) -> Status:
        """The topic was reached; `taken` are the offsets in the table, None before the first
        batch."""
        if self._is_reported and self._gone_since is not None:
            gone_s = (now - self._gone_since).total_seconds()
            self._on_trouble(f"{self._place} is reached again, after {gone_s:.0f} s")
        self._gone_since, self._is_reported = None, False
        if taken is None:
            return self._status("starting", now)
        lag = sum(max(0, end - taken.get(one, 0)) for one, end in ends.items())
        if not lag:
            self._as_of = now
        return self._status("behind" if lag else "up_to_date", now, lag)

    def unreachable(self, why: str, now: datetime) -> Status:
        """The topic was not reached."""
        self._gone_since = self._gone_since or now
        gone_s = (now - self._gone_since).total_seconds()
        if gone_s >= REPORT_AFTER_S and not self._is_reported:
            self._is_reported = True
            as_of = "never up to date"
            if self._as_of is not None:
                as_of = f"last up to date at {self._as_of:%H:%M:%S} UTC"
            self._on_trouble(f"{why}: not reached for {gone_s:.0f} s, the table was {as_of}")
        return self._status("unreachable", now, trouble=why)

    def ended(self, trouble: str | None, now: datetime) -> Status:
        """The job ended, because of `trouble` or on request."""
        return self._status("ended", now, trouble=trouble)

    def _status(
        self, state: str, now: datetime, lag: int | None = None, trouble: str | None = None
    ) -> Status:
        return Status(state, now, self._as_of, lag, trouble, os.getpid())


async def read_end_offsets(topic: MirrorTopic) -> Offsets:
    """The end offset of each partition of the topic. Raises MirrorFailed."""
    async with errors_of(topic):
        with anyio.fail_after(_ANSWER_S):
            return await ends_of(topic)


@contextmanager
def publishing_status(
    topic: MirrorTopic,
    folder: LiveFolder,
    taken: Callable[[], Offsets | None],
    on_trouble: Callable[[str], None],
    end_offsets: Callable[[MirrorTopic], Awaitable[Offsets]] = read_end_offsets,
) -> Iterator[None]:
    """While the block runs, a thread checks the topic and writes the status. `taken` returns the
    offsets in the table, `on_trouble` takes a line for people. `end_offsets` checks the topic."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    watch, is_over = StatusTracker(topic.place, on_trouble), Event()

    def look() -> Status:
        # The table's offsets are read first: messages that arrive in between are not a lag.
        seen = taken()
        try:
            ends = anyio.run(partial(end_offsets, topic))
        except MirrorFailed as error:
            return watch.unreachable(str(error), datetime.now(UTC))
        return watch.topic_reached(ends, seen, datetime.now(UTC))

    def poll() -> None:
        while not is_over.is_set():
            folder.write_status(look())
            is_over.wait(LOOK_S)

    thread = Thread(target=poll, name="watch", daemon=True)
    thread.start()
    trouble: str | None = None
    try:
        yield
    except Exception as error:
        trouble = " ".join(str(error).split())
        raise
    else:
        # The last batch may have ended after the last check.
        is_over.set()
        thread.join(_ANSWER_S + LOOK_S)
        look()
    finally:
        is_over.set()
        thread.join(_ANSWER_S + LOOK_S)
        folder.write_status(watch.ended(trouble, datetime.now(UTC)))
