"""Whether the table has all that is on the topic, for who reads it: DIR/status.json.

The job itself cannot tell: with nothing new it writes nothing, and so it does where no broker
answers. Beside it the topic is looked at every two seconds.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from threading import Event, Thread
from typing import Final

import anyio
from msgspec import Struct

from eventstore.errors import MirrorFailed
from eventstore.mirror.topic import Topic, ends_of, errors_of
from replay.fleet.live.folder import LiveFolder

LOOK_S: Final = 2.0
TOLD_S: Final = 10.0
"""So long the topic cannot be reached before it is told."""
_ANSWER_S: Final = 5.0

Offsets = Mapping[int, int]
"""By partition: behind the last message."""


class Status(Struct, frozen=True):
    """How the table stands to the topic.

    `state`: `starting` (no batch yet), `up_to_date`, `behind`, `unreachable` (why: `trouble`),
    `ended`. `looked` is when this was found out, `as_of` when the table last had all that was on
    the topic, both in UTC; `messages_behind` are those that it lacked then."""

    state: str
    looked: datetime
    as_of: datetime | None = None
    messages_behind: int | None = None
    trouble: str | None = None
    pid: int = 0


class Watch:
    """Makes a status of what each look finds, and tells where the topic is gone and back."""

    def __init__(self, place: str, tell: Callable[[str], None]) -> None:
        self._place = place
        self._tell = tell
        self._as_of: datetime | None = None
        self._gone_since: datetime | None = None
        self._is_told = False

    def found(self, ends: Offsets, taken: Offsets | None, now: datetime) -> Status:
        """The topic answered; `taken` is what the table has of it, None before the first batch."""
        if self._is_told and self._gone_since is not None:
            gone_s = (now - self._gone_since).total_seconds()
            self._tell(f"{self._place} is reached again, after {gone_s:.0f} s")
        self._gone_since, self._is_told = None, False
        if taken is None:
            return self._status("starting", now)
        behind = sum(max(0, end - taken.get(one, 0)) for one, end in ends.items())
        if not behind:
            self._as_of = now
        return self._status("behind" if behind else "up_to_date", now, behind)

    def not_found(self, why: str, now: datetime) -> Status:
        """The topic did not answer."""
        self._gone_since = self._gone_since or now
        gone_s = (now - self._gone_since).total_seconds()
        if gone_s >= TOLD_S and not self._is_told:
            self._is_told = True
            as_of = "as it was" if self._as_of is None else f"as of {self._as_of:%H:%M:%S} UTC"
            self._tell(f"{why}: not reached for {gone_s:.0f} s, the table stands {as_of}")
        return self._status("unreachable", now, trouble=why)

    def ended(self, trouble: str | None, now: datetime) -> Status:
        """The job ended, by `trouble` or because it was asked to."""
        return self._status("ended", now, trouble=trouble)

    def _status(
        self, state: str, now: datetime, behind: int | None = None, trouble: str | None = None
    ) -> Status:
        return Status(state, now, self._as_of, behind, trouble, os.getpid())


@contextmanager
def watched(
    topic: Topic,
    folder: LiveFolder,
    taken: Callable[[], Offsets | None],
    tell: Callable[[str], None],
) -> Iterator[None]:
    """While the block goes on, a thread looks at the topic and keeps the status up; `taken` says
    what the table has, `tell` takes a line for people."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    watch, is_over = Watch(topic.place, tell), Event()

    def go_on() -> None:
        while not is_over.is_set():
            # What the table has is asked first: what comes in between is no lag.
            has = taken()
            try:
                ends = anyio.run(partial(_look, topic))
            except MirrorFailed as error:
                status = watch.not_found(str(error), datetime.now(UTC))
            else:
                status = watch.found(ends, has, datetime.now(UTC))
            folder.tell(status)
            is_over.wait(LOOK_S)

    thread = Thread(target=go_on, name="watch", daemon=True)
    thread.start()
    trouble: str | None = None
    try:
        yield
    except Exception as error:
        trouble = " ".join(str(error).split())
        raise
    finally:
        is_over.set()
        thread.join(_ANSWER_S + LOOK_S)
        folder.tell(watch.ended(trouble, datetime.now(UTC)))


async def _look(topic: Topic) -> Offsets:
    async with errors_of(topic):
        with anyio.fail_after(_ANSWER_S):
            return await ends_of(topic)
