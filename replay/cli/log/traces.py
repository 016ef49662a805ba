"""`refold log traces`: the failovers of a log as OpenTelemetry traces."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from logging.handlers import BufferingHandler
from typing import Annotated, Final

import typer

from controller.core.values import counted
from replay.cli.exit_status import DAMAGED, errors_in_one_line
from replay.cli.log_notes import note_unchecked
from replay.cli.options import Log
from replay.export.spans import FailoverSpan, failovers
from replay.logs.decode import require_recorded
from replay.logs.open_log import open_reader

_NOT_SENT: Final = 2
_ADDRESS: Final = re.compile(r"https?://[^/]")


def traces(
    log: Log,
    endpoint: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The collector's address for traces by OTLP over HTTP, such as "
            "http://localhost:4318/v1/traces. Default: OTEL_EXPORTER_OTLP_ENDPOINT.",
        ),
    ] = None,
) -> None:
    """Send the failovers of LOG to an OpenTelemetry collector.

    Each term is a trace, with a span for each step. The spans are derived from the events, so the
    log of an incident can be sent afterwards. A second run sends the same spans. Needs the extra
    `traces` (pipx install '.[traces]').

    Exit status: 0 done, 1 the log is damaged, 2 the log cannot be used or the spans were not sent.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        from replay.export.otlp import export_traces
    except ImportError as error:
        typer.echo(f"refold log traces: {error}: install refold with the extra `traces`", err=True)
        raise typer.Exit(_NOT_SENT) from None
    if endpoint is not None and not _ADDRESS.match(endpoint):
        raise typer.BadParameter(
            f"{endpoint!r} must begin with http:// or https:// and a host", param_hint="--endpoint"
        )
    with errors_in_one_line("log", DAMAGED), open_reader(log) as reader:
        require_recorded(reader.header)
        found: list[FailoverSpan] = list(failovers(reader))
        with _collected_messages() as said:
            sent = export_traces(reader.header, found, OTLPSpanExporter(endpoint=endpoint))
    if sent < len(found):
        why = said.buffer[0].getMessage() if said.buffer else "check the collector's address"
        text = f"{sent} of {counted(len(found), 'failover')} sent: {why}"
        typer.echo(f"refold log traces: {text}", err=True)
        raise typer.Exit(_NOT_SENT)
    typer.echo(f"{counted(sent, 'failover')} sent")
    note_unchecked(log)


@contextmanager
def _collected_messages() -> Iterator[BufferingHandler]:
    """Collect what OpenTelemetry logs about the sending, instead of printing each attempt."""
    logger, said = logging.getLogger("opentelemetry"), BufferingHandler(1_000)
    before = logger.propagate
    logger.addHandler(said)
    logger.propagate = False
    try:
        yield said
    finally:
        logger.propagate = before
        logger.removeHandler(said)
