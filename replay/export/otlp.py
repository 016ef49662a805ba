"""Failovers of a log as OpenTelemetry traces (the extra `traces`)."""

import hashlib
from collections.abc import Iterable

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import Status, StatusCode, Tracer, set_span_in_context

from eventstore.records import Header
from replay.export.spans import FailoverSpan


class _Ids(IdGenerator):
    """Ids that follow from the log, so that a second export makes the same spans."""

    def __init__(self, header: Header) -> None:
        self._log = f"{header.cluster_id} {header.created_ns}"
        self.term = 0
        self._spans = 0

    def generate_trace_id(self) -> int:
        """The id of the trace of this term."""
        self._spans = 0
        return self._id(16, "trace")

    def generate_span_id(self) -> int:
        """The id of the next span of this term."""
        self._spans += 1
        return self._id(8, str(self._spans))

    def _id(self, size: int, what: str) -> int:
        text = f"{self._log} {self.term} {what}"
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=size).digest(), "big")


def export_traces(header: Header, found: Iterable[FailoverSpan], exporter: SpanExporter) -> int:
    """Send one trace for each failover: a span for it, with one for each step. Returns how many
    were sent. It ends at the first that cannot be sent; the exporter logs why.
    """
    ids = _Ids(header)
    attributes = {
        "service.name": "refold",
        "service.version": header.code_version,
        "kafka.cluster.id": header.cluster_id,
        "refold.core": header.core_fingerprint,
    }
    provider = TracerProvider(
        resource=Resource.create(attributes), id_generator=ids, shutdown_on_exit=False
    )
    spans = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    tracer = provider.get_tracer("refold", header.code_version)
    count = 0
    for one in found:
        ids.term = one.term
        _trace(tracer, one)
        if exporter.export(spans.get_finished_spans()) is not SpanExportResult.SUCCESS:
            break
        spans.clear()
        count += 1
    provider.shutdown()
    exporter.shutdown()
    return count


def _trace(tracer: Tracer, failover: FailoverSpan) -> None:
    whole = tracer.start_span(
        "controller failover",
        start_time=failover.begin_ns,
        attributes={
            "refold.term": failover.term,
            "refold.event.first": failover.first_event,
            "refold.event.last": failover.last_event,
            "refold.message": failover.text,
        },
    )
    if failover.fault:
        whole.set_status(Status(StatusCode.ERROR, f"{failover.fault}: {failover.text}"))
    context = set_span_in_context(whole)
    for step in failover.steps:
        span = tracer.start_span(
            step.rule,
            context,
            start_time=step.begin_ns,
            attributes={"refold.event.first": step.first_event, "refold.commands": step.commands},
        )
        span.end(step.end_ns)
    whole.end(failover.end_ns)
