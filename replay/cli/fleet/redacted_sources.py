"""`refold fleet ingest --redact`: the logs with other names, in place of the sources."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from eventstore import folders
from eventstore.errors import LogError
from replay.cli.redacted import redacted_logs
from replay.errors import ReplayError


@contextmanager
def redacted_sources(sources: Sequence[str], out: Path) -> Iterator[list[str]]:
    """Redact the logs in the sources, next to the folder `out`, which executors see as well. A name
    is replaced by the same name in all of them. Raises ReplayError."""
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
