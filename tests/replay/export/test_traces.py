"""The failovers of a log as spans, and as OpenTelemetry traces."""

import gzip
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from replay.export.spans import FailoverSpan, failovers
from replay.logs.open_log import open_reader
from tools.lab.ports import free_port

BROKER_CRASH = "tests/incidents/broker-crash"


def failovers_of(log: str) -> list[FailoverSpan]:
    with open_reader(log) as reader:
        return list(failovers(reader))


def test_failover_has_its_steps_in_order_without_gaps() -> None:
    [found] = failovers_of(BROKER_CRASH)
    assert found.fault == ""
    assert found.text.startswith("failover completed")
    rules = [one.rule for one in found.steps]
    assert "failover" in rules
    assert found.begin_ns <= found.steps[0].begin_ns
    assert found.steps[-1].end_ns == found.end_ns
    for one, following in zip(found.steps, found.steps[1:], strict=False):
        assert one.end_ns == following.begin_ns
        assert one.rule != following.rule
    assert sum(one.commands for one in found.steps) > len(found.steps)


@pytest.fixture
def sdk() -> Any:
    return pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")


def spans_of(sdk: Any, log: str) -> tuple[Any, ...]:
    from replay.export.otlp import export_traces

    exporter = sdk.InMemorySpanExporter()
    with open_reader(log) as reader:
        export_traces(reader.header, failovers(reader), exporter)
    found: tuple[Any, ...] = exporter.get_finished_spans()
    return found


def test_trace_has_a_span_for_the_failover_and_one_for_each_step(sdk: Any) -> None:
    [failover] = failovers_of(BROKER_CRASH)
    *steps, whole = spans_of(sdk, BROKER_CRASH)
    assert whole.name == "controller failover"
    assert whole.attributes["refold.term"] == failover.term
    assert (whole.start_time, whole.end_time) == (failover.begin_ns, failover.end_ns)
    assert whole.resource.attributes["service.name"] == "refold"
    assert [one.name for one in steps] == [one.rule for one in failover.steps]
    assert {one.parent.span_id for one in steps} == {whole.context.span_id}
    assert {one.context.trace_id for one in steps} == {whole.context.trace_id}
    assert [one.end_time for one in steps] == [one.end_ns for one in failover.steps]


def test_second_export_makes_the_same_spans(sdk: Any) -> None:
    first, second = (
        [(one.context.trace_id, one.context.span_id, one.name) for one in spans_of(sdk, log)]
        for log in (BROKER_CRASH, BROKER_CRASH)
    )
    assert first == second
    assert len({span for _, span, _ in first}) == len(first)


class _Collector(BaseHTTPRequestHandler):
    bodies: list[bytes]

    def do_POST(self) -> None:
        self.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


@pytest.fixture
def collector() -> Iterator[tuple[str, list[bytes]]]:
    bodies: list[bytes] = []
    handler = type("Collector", (_Collector,), {"bodies": bodies})
    with HTTPServer(("127.0.0.1", 0), handler) as server, ThreadPoolExecutor(1) as pool:
        pool.submit(server.serve_forever)
        yield f"http://127.0.0.1:{server.server_port}/v1/traces", bodies
        server.shutdown()


def traces(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "replay.cli.main", "log", "traces", BROKER_CRASH, *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_command_sends_the_spans_to_a_collector(
    sdk: Any, collector: tuple[str, list[bytes]]
) -> None:
    service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    url, bodies = collector
    done = traces("--endpoint", url)
    assert (done.returncode, done.stdout) == (0, "1 failover sent\n"), done.stderr
    requests = [service.ExportTraceServiceRequest.FromString(_plain(one)) for one in bodies]
    names = [
        span.name
        for one in requests
        for resource in one.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    assert names[-1] == "controller failover"
    assert len(names) == len(failovers_of(BROKER_CRASH)[0].steps) + 1


def _plain(body: bytes) -> bytes:
    return gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body


def test_collector_that_does_not_run_is_one_line(sdk: Any) -> None:
    done = traces("--endpoint", f"http://127.0.0.1:{free_port()}/v1/traces")
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert line.startswith("refold log traces: 0 of 1 failover sent: ")
    assert "refused" in line


def test_address_without_a_host_is_refused(sdk: Any) -> None:
    done = traces("--endpoint", "foo")
    assert done.returncode == 2
    assert "'foo' must begin with http://" in done.stderr


def test_missing_extra_is_named() -> None:
    program = (
        "import sys; sys.modules['opentelemetry.sdk.trace'] = None\n"
        "from replay.cli.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "log", "traces", BROKER_CRASH],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "install refold with the extra `traces`" in done.stderr
    assert "Traceback" not in done.stderr
