"""Standard output: handling of write errors (a full disk, a closed pipe), and tables."""

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
    """Raised once, at the first failed write; later output is discarded. It is no OSError,
    because click exits with status 1 at a closed pipe. `main` reports it. A command that knows
    its status before it writes suppresses it; a command that streams does not."""


class StandardOutput(io.BufferedWriter):
    """The bytes of `sys.stdout`. `fault` is the error of the first failed write, if any."""

    # Not a raw file: Ctrl-C between its write and the buffer above it would write bytes twice.
    fault: OSError | None = None

    def write(self, content: "ReadableBuffer", /) -> int:
        """Write bytes; after the first failure, discard them. Raises OutputFault at that
        failure."""
        if self.fault is not None:
            return memoryview(content).nbytes
        with self._noting_a_fault():
            return super().write(content)

    def flush(self) -> None:
        """Write what is buffered; after the first failure, nothing. Raises OutputFault at that
        failure."""
        if self.fault is None:
            with self._noting_a_fault():
                super().flush()

    @property
    def is_unread(self) -> bool:
        """Whether the reader closed the pipe, which is no error."""
        return self.fault is not None and self.fault.errno == errno.EPIPE

    @property
    def is_lost(self) -> bool:
        """Whether output was lost although its reader is still there."""
        return self.fault is not None and not self.is_unread

    @contextmanager
    def _noting_a_fault(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.fault = error
            raise OutputFault from error


def standard_output() -> StandardOutput:
    """Return a StandardOutput that is installed as the raw stream of `sys.stdout`. If standard
    output is closed, output is discarded."""
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
    """Print a command's result, whose status is already known: one JSON object, or the output of
    `show`."""
    with suppress(OutputFault):
        if as_json:
            typer.echo(msgspec.json.encode(result).decode())
        else:
            show()


def is_lost() -> bool:
    """Whether output so far could not be written although its reader is still there."""
    with suppress(OutputFault):
        sys.stdout.flush()
    output = getattr(sys.stdout, "buffer", None)
    return isinstance(output, StandardOutput) and output.is_lost


def print_table(table: "Table") -> None:
    """Print a table without cutting text: on a terminal long text is wrapped within its column,
    elsewhere each row is one line."""
    from rich.console import Console

    for column in table.columns:
        column.overflow = "fold"
    Console(width=None if sys.stdout.isatty() else _ANY_WIDTH).print(table)
