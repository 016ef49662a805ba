"""`refold log traces`: the failovers of a log as OpenTelemetry traces."""

from collections.abc import Sequence
from typing import Annotated, Final

import typer

from replay.cli.exit_status import DAMAGED, errors_in_one_line
from replay.cli.log_notes import note_unchecked
from replay.cli.options import Log
from replay.export.spans import Failover, failovers
from replay.logs.decode import require_recorded
from replay.logs.open_log import open_reader

_NOT_SENT: Final = 2


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
    """Send the failovers of LOG to a collector of OpenTelemetry: one trace for each term, with a
    span for each step.

    The spans are derived from the events, so the log of an incident can be sent afterwards. A
    second run sends the same spans. Needs the extra `traces` (pipx install '.[traces]').

    Exit status: 0 done, 1 the log is damaged, 2 the log cannot be used or the spans were not sent.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.sdk.trace.export import SpanExportResult

        from replay.export.otlp import export_traces
    except ImportError as error:
        typer.echo(f"refold log traces: {error}: install refold with the extra `traces`", err=True)
        raise typer.Exit(_NOT_SENT) from None

    lost = 0

    class Exporter(OTLPSpanExporter):
        """Counts the spans that were not sent."""

        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            nonlocal lost
            result = super().export(spans)
            lost += len(spans) if result is not SpanExportResult.SUCCESS else 0
            return result

    with errors_in_one_line("log", DAMAGED), open_reader(log) as reader:
        require_recorded(reader.header)
        found: list[Failover] = list(failovers(reader))
        sent = export_traces(reader.header, found, Exporter(endpoint=endpoint))
    if lost:
        text = f"refold log traces: {lost} spans were not sent: check the collector's address"
        typer.echo(text, err=True)
        raise typer.Exit(_NOT_SENT)
    typer.echo(f"{sent} failovers sent")
    note_unchecked(log)
