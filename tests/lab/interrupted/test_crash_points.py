"""The daemon is killed between every two writes and requests of a cancellation, of a conflict in
the extra znode, and of a drop. Then refold continues, or a stock controller followed by refold.

A run without a crash finds the crash points of a procedure, and is also the crash after the last
command. failpoint.py defines the crash points, crash_procedures.py the situations of partitions,
and partition_watch.py the invariants.

REFOLD_CRASH_TABLE=FILE collects the table (crash_table.py). REFOLD_CRASH_POINTS=3,4,9 selects crash
points, for debugging.
"""

import asyncio
import os
from collections.abc import Callable, Sequence

import pytest

from tests.lab.interrupted import crash_table
from tests.lab.interrupted.crash_cell import Cell, Run, throttle_brokers
from tests.lab.interrupted.crash_procedures import PROCEDURES, Procedure, Successor
from tests.lab.interrupted.moving import Moving
from tools.lab.refold import Refold

pytestmark = [pytest.mark.lab]

POINTS_VARIABLE = "REFOLD_CRASH_POINTS"
TRIES = 3
"""A concurrent change of an ISR shifts the numbers of commands: the same number is tried again."""

Record = Callable[[str, object], None]
Task = tuple[Successor, int | None]
"""A crash before this command, or after the last command."""

each_procedure = pytest.mark.parametrize("procedure", PROCEDURES, ids=lambda one: one.key)


class Table:
    """Runs the cells of a procedure on several clusters at the same time, and keeps them."""

    def __init__(self, lab_clusters: Sequence[Moving], procedure: Procedure) -> None:
        self.cells: dict[tuple[Successor, int], Cell] = {}
        self.last: dict[Successor, Cell] = {}
        self._scenes = lab_clusters
        self._procedure = procedure
        self._daemons: dict[int, Refold] = {}

    async def set_up(self) -> None:
        """Finds the crash points for each successor."""
        for lab_cluster in self._scenes:
            await throttle_brokers(lab_cluster)
        await self._play([(successor, None) for successor in Successor])

    async def play(self, choose: Callable[[int], Sequence[int]]) -> None:
        """Runs the points that `choose` returns for the number of points."""
        await self._play(
            [
                (successor, point)
                for successor, last in self.last.items()
                for point in choose(len(last.counted))
            ]
        )

    async def _play(self, tasks: Sequence[Task]) -> None:
        waiting = list(reversed(tasks))

        async def work(place: int) -> None:
            while waiting:
                await self._cell(place, *waiting.pop())

        await asyncio.gather(*map(work, range(len(self._scenes))))

    async def _cell(self, place: int, successor: Successor, at: int | None) -> None:
        for _ in range(TRIES):
            run = Run(self._scenes[place], self._procedure, successor, at)
            cell, daemon = await run.play(self._daemons.get(place))
            self._daemons[place] = daemon
            if at is None:
                self.last[successor] = cell
            elif cell.counted != self.last[successor].counted[:at]:
                continue
            break
        self.cells[successor, cell.point] = cell
        crash_table.save(cell)

    def check(self, record_property: Record) -> None:
        """Asserts that no cell has a violation."""
        cells = [self.cells[key] for key in sorted(self.cells)]
        table = crash_table.markdown(row for cell in cells for row in crash_table.rows(cell))
        record_property("crash points", table)
        print(f"\n{table}")  # noqa: T201 - shown by pytest -s and for a failed test
        assert not [
            f"{cell.point} {cell.name}, {cell.successor}, {outcome.topic.situation.name}: {text}"
            for cell in cells
            for outcome in cell.outcomes
            for text in outcome.violations
        ]

    def empty_cells(self) -> list[tuple[Successor, int, bool]]:
        """The cells that the table lacks: successor, crash point, unclean elections."""
        return [
            (successor, point, unclean)
            for successor, last in self.last.items()
            for point in range(1, len(last.counted) + 2)
            for unclean in (False, True)
            if (successor, point) not in self.cells
            or not crash_table.of_column(self.cells[successor, point], unclean=unclean)
        ]


def every(count: int) -> Sequence[int]:
    """A point before each of this many commands, or those in the environment variable."""
    chosen = os.environ.get(POINTS_VARIABLE)
    return [int(one) for one in chosen.split(",")] if chosen else range(1, count + 1)


@each_procedure
@pytest.mark.timeout(2400)
async def test_successor_ends_the_procedure_after_a_crash_at_any_point(
    crash_clusters: list[Moving], procedure: Procedure, record_property: Record
) -> None:
    table = Table(crash_clusters, procedure)
    await table.set_up()
    await table.play(every)
    if POINTS_VARIABLE not in os.environ:
        assert table.empty_cells() == []
    table.check(record_property)


@each_procedure
@pytest.mark.ci
@pytest.mark.timeout(300)
async def test_successor_ends_the_procedure_after_a_crash_half_way_or_at_the_end(
    crash_clusters: list[Moving], procedure: Procedure, record_property: Record
) -> None:
    table = Table(crash_clusters, procedure)
    await table.set_up()
    await table.play(lambda count: [count // 2])
    table.check(record_property)
