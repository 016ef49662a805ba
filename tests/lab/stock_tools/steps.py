"""What a script consists of: tools that run, admin clients that ask, deeds done to the cluster."""

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tests.lab.stock_tools.plain_words import of_tool, outcome
from tests.lab.stock_tools.stage import Stage

Shape = Callable[[str], str]
"""Leaves out of what was said what is open."""


class Reason(NamedTuple):
    """Why the two sides may say different things, and what of it is the same all the same."""

    name: str
    text: str
    shape: Shape


WORDS_OF_39 = Reason(
    "words of 3.9",
    "The same error and exit status. refold uses the text of Kafka 3.9 for all broker versions; "
    "this older controller has another text.",
    outcome,
)
OLDEST = (2, 8)


class Row(NamedTuple):
    """One thing asked and what was said, as the comparison and its page have it."""

    tool: str
    asked: str
    said: str
    reason: Reason | None = None


class Step(Protocol):
    """`changes`: it changes the cluster, which has to settle before the next one."""

    @property
    def changes(self) -> bool: ...

    @property
    def what(self) -> str: ...

    async def play(self, stage: Stage) -> list[Row]:
        """Do it; what was asked and said."""
        ...


@dataclass(frozen=True)
class Call:
    """One run of a tool. Words in braces in its arguments are those of `Stage.words`; {id of T} is
    a topic's id. `since`: the first Kafka version whose tools can do this. `alike_since`: the first
    one whose controller has the words of that of 3.9."""

    tool: str
    arguments: str
    given: str = ""
    reason: Reason | None = None
    since: tuple[int, int] = OLDEST
    alike_since: tuple[int, int] = OLDEST
    shape: Shape = str

    async def run(self, stage: Stage) -> list[Row]:
        """Nothing where the version is too old."""
        if version_of(stage) < self.since:
            return []
        words: Mapping[str, str] = stage.words()
        arguments = []
        for one in shlex.split(self.arguments):
            if one.startswith("{id of "):
                one = await stage.topic_id(one.removeprefix("{id of ").removesuffix("}"))
            arguments.append(one.format_map(words))
        said = await stage.tools.run(self.tool, *arguments, given=self.given)
        text = self.shape(of_tool(said, stage))
        reason = WORDS_OF_39 if version_of(stage) < self.alike_since else self.reason
        return [Row(self.tool, self.arguments, text, reason)]


@dataclass(frozen=True)
class Reads:
    """Calls that change nothing, three at a time."""

    calls: tuple[Call, ...]
    changes: bool = False

    @property
    def what(self) -> str:
        return f"{self.calls[0].tool} {self.calls[0].arguments}, ..."

    async def play(self, stage: Stage) -> list[Row]:
        places = asyncio.Semaphore(3)

        async def run(call: Call) -> list[Row]:
            async with places:
                return await call.run(stage)

        answers = await asyncio.gather(*(run(call) for call in self.calls))
        return [row for rows in answers for row in rows]


@dataclass(frozen=True)
class Change:
    """A call that changes the cluster."""

    call: Call
    changes: bool = True

    @property
    def what(self) -> str:
        return f"{self.call.tool} {self.call.arguments}"

    async def play(self, stage: Stage) -> list[Row]:
        return await self.call.run(stage)


@dataclass(frozen=True)
class Deed:
    """Something that is done without a tool."""

    what: str
    act: Callable[[Stage], Awaitable[list[Row]]]
    changes: bool = True

    async def play(self, stage: Stage) -> list[Row]:
        return await self.act(stage)


def version_of(stage: Stage) -> tuple[int, int]:
    """Kafka's version, of brokers and tools."""
    major, minor, *_ = stage.lab.kafka.split(".")
    return int(major), int(minor)
