"""All mutations, a few at a time, each in a tree that is its own while it runs."""

import multiprocessing
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from importlib import import_module
from itertools import groupby
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

import msgspec
from msgspec import Struct

from tools.mutations.listing import ListingError, Mutation
from tools.mutations.tree import applied
from tools.mutations.trial import Trial, run_trial

_fork = multiprocessing.get_context("fork")

_PASSED, _FAILED = 0, 1


class Verdict(Struct, frozen=True):
    """What the named tests said of a mutation: those that still passed, none if all is well."""

    number: int
    rule: str
    file: str
    unmoved: tuple[str, ...]
    broken: str | None = None
    """Pytest's words where the tests could not be run."""

    @property
    def is_noticed(self) -> bool:
        """Whether every named test failed."""
        return not self.unmoved and self.broken is None


class _Running:
    """One fork at work in a tree."""

    def __init__(self, tree: Path, names: Sequence[str], first: int = 0) -> None:
        self.tree = tree
        self.output = tree / f"pytest-{first}.out"
        self._result, sender = _fork.Pipe(duplex=False)
        self.process: BaseProcess = _fork.Process(
            target=run_trial,
            args=(tree, names, self.output, sender),
            kwargs={"is_first": first > 0},
        )
        self.process.start()
        sender.close()

    @property
    def result(self) -> Connection:
        """Ready when the fork has ended, one way or another."""
        return self._result

    def end(self) -> Trial | None:
        """Its result; None if it died without one."""
        try:
            trial = msgspec.msgpack.decode(self._result.recv_bytes(), type=Trial)
        except EOFError:
            trial = None
        self.process.join()
        self._result.close()
        return trial

    def words(self) -> str:
        """What pytest said."""
        return self.output.read_text(encoding="utf-8", errors="replace")[-2000:]


def check_unchanged(tree: Path, mutations: Sequence[Mutation], jobs: int) -> None:
    """Run every named test without a mutation. Raises ListingError where one fails.

    What the tests import of packages, forks that follow find imported.
    """
    parts = _parts({name for one in mutations for name in one.tests}, jobs)
    running = [_Running(tree, names, first) for first, names in enumerate(parts, 1)]
    for one in running:
        trial = one.end()
        if trial is None or trial.status != _PASSED:
            raise ListingError(f"the tests fail without any mutation:\n{one.words()}")
        for name in trial.packages:
            with suppress(ImportError):
                import_module(name)


def _parts(names: Iterable[str], count: int) -> list[list[str]]:
    """Names of tests, those of a file together, in parts of about the same size."""
    parts: list[list[str]] = [[] for _ in range(count)]
    by_file = groupby(sorted(names), key=lambda name: name.partition("::")[0])
    for one in sorted((list(each) for _, each in by_file), key=len, reverse=True):
        min(parts, key=len).extend(one)
    return [one for one in parts if one]


def try_mutations(
    trees: Sequence[Path], mutations: Sequence[tuple[int, Mutation]]
) -> Iterator[Verdict]:
    """Try each, as many at a time as there are trees. Raises ListingError."""
    waiting = list(reversed(mutations))
    free = list(trees)
    at_work: dict[Connection, tuple[int, Mutation, _Running, ExitStack]] = {}
    while waiting or at_work:
        while waiting and free:
            number, mutation = waiting.pop()
            tree, change = free.pop(), ExitStack()
            change.enter_context(applied(tree, mutation))
            running = _Running(tree, mutation.tests)
            at_work[running.result] = (number, mutation, running, change)
        for ready in wait(list(at_work)):
            assert isinstance(ready, Connection)
            number, mutation, running, change = at_work.pop(ready)
            verdict = _verdict(number, mutation, running)
            change.close()
            free.append(running.tree)
            yield verdict


def _verdict(number: int, mutation: Mutation, running: _Running) -> Verdict:
    trial = running.end()
    if trial is None or trial.status not in (_PASSED, _FAILED):
        return Verdict(number, mutation.rule, mutation.file, (), running.words())
    unmoved = tuple(name for name in mutation.tests if name not in trial.failed)
    return Verdict(number, mutation.rule, mutation.file, unmoved)
