"""The steps of a script: calls of tools and admin clients, and actions on the cluster."""

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tests.lab.stock_tools.comparable_output import of_tool, outcome
from tests.lab.stock_tools.harness import Harness

Shape = Callable[[str], str]
"""Removes the parts of an output that are not compared."""


class Reason(NamedTuple):
    """Why outputs may differ; `shape` keeps the part that must be equal."""

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
    """A command and its output in the comparison and on its page."""

    tool: str
    command: str
    output: str
    reason: Reason | None = None


class Step(Protocol):
    """`changes`: the step changes the cluster, which must settle before the next step."""

    @property
    def changes(self) -> bool: ...

    @property
    def what(self) -> str: ...

    async def play(self, harness: Harness) -> list[Row]:
        """Executes the step; returns its commands and outputs."""
        ...


@dataclass(frozen=True)
class Call:
    """One run of a tool. Braces in the arguments are replaced by `Harness.placeholders`; {id of T}
    by a topic's id. `since`: the first Kafka version whose tools have the option.
    `alike_since`: the first version whose controller has the error texts of 3.9."""

    tool: str
    arguments: str
    given: str = ""
    reason: Reason | None = None
    since: tuple[int, int] = OLDEST
    alike_since: tuple[int, int] = OLDEST
    shape: Shape = str

    async def run(self, harness: Harness) -> list[Row]:
        """Returns no row if the version is too old."""
        if version_of(harness) < self.since:
            return []
        placeholders: Mapping[str, str] = harness.placeholders()
        arguments = []
        for one in shlex.split(self.arguments):
            if one.startswith("{id of "):
                one = await harness.topic_id(one.removeprefix("{id of ").removesuffix("}"))
            arguments.append(one.format_map(placeholders))
        result = await harness.tools.run(self.tool, *arguments, given=self.given)
        text = self.shape(of_tool(result, harness))
        reason = WORDS_OF_39 if version_of(harness) < self.alike_since else self.reason
        return [Row(self.tool, self.arguments, text, reason)]


@dataclass(frozen=True)
class Reads:
    """Calls that change nothing, three at the same time."""

    calls: tuple[Call, ...]
    changes: bool = False

    @property
    def what(self) -> str:
        return f"{self.calls[0].tool} {self.calls[0].arguments}, ..."

    async def play(self, harness: Harness) -> list[Row]:
        places = asyncio.Semaphore(3)

        async def run(call: Call) -> list[Row]:
            async with places:
                return await call.run(harness)

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

    async def play(self, harness: Harness) -> list[Row]:
        return await self.call.run(harness)


@dataclass(frozen=True)
class Action:
    """Something that is done without a tool."""

    what: str
    execute: Callable[[Harness], Awaitable[list[Row]]]
    changes: bool = True

    async def play(self, harness: Harness) -> list[Row]:
        return await self.execute(harness)


def version_of(harness: Harness) -> tuple[int, int]:
    """The Kafka version of brokers and tools."""
    major, minor, *_ = harness.lab.kafka.split(".")
    return int(major), int(minor)
