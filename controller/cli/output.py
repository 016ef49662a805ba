"""Standard output: what to do where it cannot be written (its disk is full, or whoever read it has
enough), and tables."""

import errno
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import msgspec
import typer

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from rich.table import Table

_ANY_WIDTH = 2**16


class OutputFault(Exception):
    """Raised once, where a write fails; later output is dropped. No OSError, because click ends
    with status 1 at a closed pipe. `main` tells of it: a command whose status is settled before it
    writes suppresses it, one that streams lets it through."""


class StandardOutput(io.BufferedWriter):
    """The bytes below `sys.stdout`. `fault` is why they cannot be written, if they cannot."""

    # Not a raw file: Ctrl-C between its write and the buffer above it would write bytes twice.
    fault: OSError | None = None

    def write(self, content: "ReadableBuffer", /) -> int:
        """Raises OutputFault at the first failure."""
        if self.fault is not None:
            return memoryview(content).nbytes
        with self._noting_a_fault():
            return super().write(content)

    def flush(self) -> None:
        """Raises OutputFault at the first failure."""
        if self.fault is None:
            with self._noting_a_fault():
                super().flush()

    @property
    def is_unread(self) -> bool:
        """Whether its reader has gone, which is no error."""
        return self.fault is not None and self.fault.errno == errno.EPIPE

    @property
    def is_lost(self) -> bool:
        """Whether what somebody would read cannot be written."""
        return self.fault is not None and not self.is_unread

    @contextmanager
    def _noting_a_fault(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.fault = error
            raise OutputFault from error


def standard_output() -> StandardOutput:
    """Put it below `sys.stdout`. Where that was closed, what is written goes nowhere."""
    before = sys.stdout
    descriptor = before.fileno() if before else os.open(os.devnull, os.O_WRONLY)
    output = StandardOutput(io.FileIO(descriptor, "w", closefd=False))
    sys.stdout = io.TextIOWrapper(
        output,
        encoding=before.encoding if before else "utf-8",
        errors=before.errors if before else "strict",
        line_buffering=output.isatty(),
    )
    return output


def print_result(result: object, show: Callable[[], None], *, as_json: bool) -> None:
    """Print what a command came to, which settles its status: one JSON object, or what `show`
    prints."""
    with suppress(OutputFault):
        if as_json:
            typer.echo(msgspec.json.encode(result).decode())
        else:
            show()


def is_lost() -> bool:
    """Whether what was printed so far cannot be written, though somebody would read it."""
    with suppress(OutputFault):
        sys.stdout.flush()
    output = getattr(sys.stdout, "buffer", None)
    return isinstance(output, StandardOutput) and output.is_lost


def print_table(table: "Table") -> None:
    """Print it, and cut nothing: on a terminal long text is folded into its column, elsewhere each
    row is one line, however long."""
    from rich.console import Console

    for column in table.columns:
        column.overflow = "fold"
    Console(width=None if sys.stdout.isatty() else _ANY_WIDTH).print(table)
