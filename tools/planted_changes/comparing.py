"""Compares changed copies with the working tree by `refold diff`, on the logs that execute the
changed code."""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from replay.diff.core_source import CoreSource, read_core
from replay.diff.logs import NamedLog
from replay.diff.messages import FoldLog
from replay.diff.processes import VersionProcess
from replay.diff.references import Version
from tools.mutations.functions import Function
from tools.mutations.rules import MutationRule, Value
from tools.planted_changes.planting import PlantedChange, changed_copy, planted
from tools.planted_changes.verdicts import PlantedOutcome, Verdict, outcome_of

_FIRST_LOGS: Final = 2
"""This many logs are compared first, then four times as many. Most changes are found in one of the
smallest logs that execute them."""
_SECONDS_MAX: Final = 1200.0

Lines = dict[str, frozenset[int]]
"""The executed lines by the file's path in the core."""


class MeasuredLog(Struct, frozen=True):
    """A log, the number of its events, and the lines of the core that it executes."""

    log: NamedLog
    events: int
    executed: Lines


def measure(root: Path, logs: Sequence[NamedLog]) -> Iterator[MeasuredLog]:
    """Fold each log once with the working tree. Raises DiffError."""
    with VersionProcess(Version("the working tree", root, sys.executable)) as process:
        for log in logs:
            folded = process.fold(FoldLog(str(log.path), with_executed=True)).folded
            executed = folded.executed or {}
            lines = {file: frozenset(of_file) for file, of_file in executed.items()}
            yield MeasuredLog(log, folded.events, lines)


class Comparer:
    """Compares planted changes. `whole`: on all logs, also those that cannot differ."""

    def __init__(self, root: Path, logs: Sequence[MeasuredLog], *, whole: bool) -> None:
        self._root = root
        self._logs = sorted(logs, key=lambda one: one.events)
        self._whole = whole
        self._source: CoreSource = read_core(root / "controller" / "core")

    async def try_change(
        self, rule: MutationRule, target: Function | Value, *, is_innocuous: bool
    ) -> Verdict:
        """Make a change, and compare. Raises MutationError for a change that cannot be made."""
        started = time.monotonic()
        change = planted(rule, target, self._root)
        verdict: Verdict | None = None
        with tempfile.TemporaryDirectory(prefix="planted-") as folder:
            head = Path(folder, "head")
            changed_copy(self._root, head, change)
            for logs in self._parts(target, change, is_innocuous):
                verdict = await self._verdict_for_logs(
                    rule, change, head, logs, is_innocuous=is_innocuous
                )
                if verdict.outcome in (PlantedOutcome.FOUND, PlantedOutcome.FAILED):
                    break
        assert verdict is not None, "there is at least one comparison"
        return structs.replace(verdict, seconds=time.monotonic() - started)

    async def _verdict_for_logs(
        self,
        rule: MutationRule,
        change: PlantedChange,
        head: Path,
        logs: Sequence[NamedLog],
        *,
        is_innocuous: bool,
    ) -> Verdict:
        """The verdict for some of the logs."""
        verdict = Verdict(rule.rule, rule.function or rule.value, rule.diff, PlantedOutcome.FAILED)
        report = await self._report(head, logs)
        if isinstance(report, str):
            return structs.replace(verdict, error=report)
        outcome, rules = outcome_of(rule, change, report, is_innocuous=is_innocuous)
        error = "; ".join(report["errors"])
        return structs.replace(verdict, outcome=outcome, rules=rules, logs=len(logs), error=error)

    def _parts(
        self, target: Function | Value, change: PlantedChange, is_innocuous: bool
    ) -> Iterator[list[NamedLog]]:
        """The logs to compare: at first few, at last all. A difference in few is one in all."""
        fitting = [one.log for one in self._logs if self._executes(one, target, change)]
        if self._whole:
            yield [one.log for one in self._logs]
        elif not fitting:
            yield [self._logs[0].log]
        elif is_innocuous:
            yield fitting
        else:
            count = _FIRST_LOGS
            while count < len(fitting):
                yield fitting[:count]
                count *= 4
            yield fitting

    def _executes(self, log: MeasuredLog, target: Function | Value, change: PlantedChange) -> bool:
        """Whether a log executes the function. It may use any value."""
        if isinstance(target, Value):
            return True
        lines = log.executed.get(change.file_in_core, frozenset())
        return any(
            not lines.isdisjoint(range(part.first_line, part.last_line + 1))
            for one in self._source.functions
            if (one.file, one.name) == (change.file_in_core, change.name)
            for part in one.statements
        )

    async def _report(self, head: Path, logs: Sequence[NamedLog]) -> dict[str, Any] | str:
        """The report of `refold diff`, or why it failed."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "replay.cli.main", "diff", *(str(one.path) for one in logs)),
            *("--base", str(self._root), "--head", str(head), "--format", "json", "--jobs", "2"),
            cwd=self._root,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=os.environ | {"XDG_CACHE_HOME": str(head.parent)},
        )
        try:
            async with asyncio.timeout(_SECONDS_MAX):
                output, errors = await process.communicate()
        except TimeoutError:
            return f"no result after {_SECONDS_MAX:.0f} s"
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        try:
            report: dict[str, Any] = msgspec.json.decode(output)
        except msgspec.DecodeError:
            return errors.decode(errors="replace").strip()[-500:]
        return report
