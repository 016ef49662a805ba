"""Polls partitions in ZooKeeper every 50 ms and records violations of three invariants:

- the ISR is never smaller than min(`min.insync.replicas`, its size when the watch began);
- refold elects no replica outside of the ISR, unless the topic allows unclean leaders;
- while a cancellation exists, refold elects no replica outside of the originals, unless none of
  the originals was in the ISR.

The ISR is that in ZooKeeper. The controller epoch in the state identifies the controller that
elected a leader: elections by a stock controller are ignored.
"""

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from aiozk.exc import ZKError

from controller.core import znodes
from controller.core.znodes import REASSIGN_CANCEL
from tools.lab.cluster_view import ClusterReader

POLL_SECONDS = 0.05


@dataclass
class Watched:
    """Partition 0 of a topic: its originals, and what the polls found."""

    originals: Sequence[int]
    allows_unclean: bool = False
    floor: int = 0
    lowest_isr: int = 0
    last: dict[str, Any] | None = None
    shrunk: list[str] = field(default_factory=list)
    elected: list[tuple[int, str]] = field(default_factory=list)
    """Elections outside of the ISR or the originals, with their controller epochs."""

    def judge(self, state: dict[str, Any], at: str, *, cancelled: bool) -> None:
        """Note the violations by a state that was found at a time. `cancelled`: a cancellation
        existed shortly before the state was read."""
        before, self.last = self.last, state
        assert before is not None
        isr, leader = state["isr"], state["leader"]
        self.lowest_isr = min(self.lowest_isr, len(isr))
        if len(isr) < min(self.floor, len(before["isr"])):
            self.shrunk.append(
                f"{at}: the ISR {before['isr']} becomes {isr}, fewer than {self.floor}"
            )
        if leader in (-1, before["leader"]):
            return
        epoch = state["controller_epoch"]
        elected = f"{at}: {leader} is elected while {before['isr']} are in the ISR"
        if leader not in before["isr"] and not self.allows_unclean:
            self.elected.append((epoch, f"{elected}, and the topic allows no unclean leader"))
        has_original = any(one in before["isr"] for one in self.originals)
        if cancelled and leader not in self.originals and has_original:
            text = f"{elected} and the cancellation to {list(self.originals)} exists"
            self.elected.append((epoch, text))


class PartitionWatch:
    """An async context manager: polls during the block. `began` is when the block was entered."""

    def __init__(
        self,
        connect: str,
        originals: Mapping[str, Sequence[int]],
        *,
        min_insync: int,
        unclean: Collection[str] = (),
    ) -> None:
        """`unclean`: the topics that allow unclean leaders."""
        self.partitions = {
            topic: Watched(one, topic in unclean) for topic, one in originals.items()
        }
        self.began = 0.0
        self._view = ClusterReader(connect)
        self._min_insync = min_insync
        self._task: asyncio.Task[None] | None = None
        self.longest_pause = 0.0
        """Between two polls, in seconds, because the machine may be too busy for 50 ms."""
        self.stock_epochs: set[int] = set()
        """The controller epochs of stock controllers, which the caller adds."""

    def violations(self, topic: str) -> list[str]:
        """The violations by a topic's partition."""
        watched = self.partitions[topic]
        elected = [text for epoch, text in watched.elected if epoch not in self.stock_epochs]
        return [*watched.shrunk, *elected]

    async def __aenter__(self) -> Self:
        await self._view.__aenter__()
        for topic, watched in self.partitions.items():
            state = await self._state(topic)
            assert state is not None, f"{topic}-0 has no state"
            watched.last = state
            watched.lowest_isr = len(state["isr"])
            watched.floor = min(self._min_insync, len(state["isr"]))
        self.began = time.monotonic()
        self._task = asyncio.create_task(self._poll())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])
        await self._view.__aexit__()

    async def _poll(self) -> None:
        last = time.monotonic()
        while True:
            try:
                await self._look()
            except ZKError:
                continue
            now = time.monotonic()
            self.longest_pause = max(self.longest_pause, now - last)
            last = now
            await asyncio.sleep(POLL_SECONDS)  # The states are sampled.

    async def _look(self) -> None:
        """The cancellation is read first, so that a state can only be newer."""
        cancelled = await self._view.exists(REASSIGN_CANCEL)
        states = await asyncio.gather(*map(self._state, self.partitions))
        for watched, state in zip(self.partitions.values(), states, strict=True):
            if state is not None and state != watched.last:
                at = f"{time.monotonic() - self.began:.2f} s"
                watched.judge(state, at, cancelled=cancelled)

    async def _state(self, topic: str) -> dict[str, Any] | None:
        found: dict[str, Any] | None = await self._view.content(znodes.state_path(topic, 0))
        return found
