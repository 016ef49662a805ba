"""Option --redact: logs with other names, for files that leave the machine."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from eventstore import folders
from eventstore.errors import LogError
from replay.cli.progress import progress
from replay.errors import ReplayError

if TYPE_CHECKING:
    from replay.redaction.names import StandIns

Redact = Annotated[
    bool,
    typer.Option(
        "--redact",
        help="Replace the names of topics, hosts, principals, clients and racks, and configuration"
        " values.",
    ),
]


class RedactedLogs(NamedTuple):
    """Redacted logs, and what replaces the names in them."""

    logs: list[Path]
    stand_ins: "StandIns"


@contextmanager
def redacted_logs(
    logs: Sequence[Path | str], *, below: Path | None = None, name: str = ""
) -> Iterator[RedactedLogs]:
    """Write the logs with other names into a temporary folder, which is created below `below`. The
    folder of each log is numbered, unless there is only one and it has a `name`. A name is replaced
    by the same name in all logs. Raises ReplayError if a log cannot be redacted, and LogError."""
    from replay.logs.open_log import open_reader
    from replay.redaction.names import Names, StandIns
    from replay.redaction.redacting import collect_names, write_redacted

    with TemporaryDirectory(prefix="refold-redacted-", dir=below) as folder:
        targets = [Path(folder) / (name or f"log-{number}") for number, _ in enumerate(logs, 1)]
        with ExitStack() as opened, progress() as report:
            readers = [opened.enter_context(open_reader(one)) for one in logs]
            names = Names()
            for reader in readers:
                collect_names(reader, names)
            stand_ins = StandIns(names)
            for reader, target in zip(readers, targets, strict=True):
                write_redacted(reader, target, stand_ins, report)
        yield RedactedLogs(targets, stand_ins)


@contextmanager
def redacted_sources(sources: Sequence[str], out: Path) -> Iterator[list[str]]:
    """Redact the logs in the sources of a table, next to its folder `out`, which executors see as
    well. A name is replaced by the same name in all logs. Raises ReplayError."""
    from replay.fleet.inputs import Kind, inputs_below

    logs: dict[Path, None] = {}
    for one in inputs_below(sources):
        if one.kind == Kind.ARCHIVE:
            raise ReplayError(f"{one.path} cannot be redacted: unpack it, and name its logs")
        logs[one.path.parent if folders.is_segment(one.path) else one.path] = None
    try:
        with redacted_logs(list(logs), below=out.absolute().parent) as other:
            yield [str(one) for one in other.logs]
    except LogError as error:
        raise ReplayError(str(error)) from None
