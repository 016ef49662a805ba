"""Serves the daemon's metrics and its health by HTTP, for Prometheus and Kubernetes.

The server of prometheus-client runs in separate threads. A request asks the event loop, because
only the event loop may read the fold; everything else happens in the thread.
"""

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Final, TypeVar
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from controller.core.metric_table import Metric
from controller.core.metrics_observer import Sample
from controller.exposition import TimedSample, families
from controller.settings.parsing import HostAndPort

logger = logging.getLogger(__name__)

ANSWER_SECONDS_MAX: Final = 10.0
"""A request fails if the event loop does not answer within this time."""
_OK: Final = "200 OK"
_UNAVAILABLE: Final = "503 Service Unavailable"
_TEXT: Final = ("Content-Type", "text/plain; charset=utf-8")

Answer = TypeVar("Answer")
Source = Callable[[], Iterable[Sample]]


class Probes:
    """The sources of the endpoint's answers. `samples`: the metrics, None before the daemon runs.
    `unready`: why the daemon could not take or keep the role now; empty if it could."""

    def __init__(self) -> None:
        self.samples: Source | None = None
        self.unready: Callable[[], str] = lambda: "the daemon starts"


class _EventLoop:
    """Calls functions in the event loop, for threads."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def ask(self, function: Callable[[], Answer]) -> Answer:
        """Call `function` in the event loop and return its result. Raises what it raises;
        TimeoutError; RuntimeError after the end of the loop."""
        found: Future[Answer] = Future()

        def call() -> None:
            try:
                found.set_result(function())
            except Exception as error:
                found.set_exception(error)

        self._loop.call_soon_threadsafe(call)
        return found.result(ANSWER_SECONDS_MAX)


class _Samples(Collector):
    def __init__(self, loop: _EventLoop, metrics: Sequence[Metric], probes: Probes) -> None:
        self._loop = loop
        self._metrics = metrics
        self._probed = probes

    def collect(self) -> Iterator[Family]:
        """The metric families with their present values, for each scrape."""
        source = self._probed.samples or (lambda: ())
        samples = self._loop.ask(lambda: [TimedSample(one) for one in source()])
        return families(self._metrics, samples)


class _Application:
    """Answers /livez, /readyz, and every other path with the metrics, as prometheus-client."""

    def __init__(self, loop: _EventLoop, metrics: Sequence[Metric], probes: Probes) -> None:
        self._loop = loop
        self._probed = probes
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Samples(loop, metrics, probes))
        self._metrics = make_wsgi_app(registry)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path in ("/livez", "/readyz"):
            fault = self._fault(is_readiness=path == "/readyz")
        elif self._probed.samples is None:
            fault = self._probed.unready()
        else:
            answer: Iterable[bytes] = self._metrics(environ, start_response)
            return answer
        start_response(_UNAVAILABLE if fault else _OK, [_TEXT])
        return [f"{fault or 'ok'}\n".encode()]

    def _fault(self, *, is_readiness: bool) -> str:
        try:
            return self._loop.ask(self._probed.unready if is_readiness else str)
        except TimeoutError:
            return f"the event loop does not answer for {ANSWER_SECONDS_MAX:g} s"
        except RuntimeError:
            return "the daemon ends"


class _SilentHandler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: there is a request every few seconds."""


@contextmanager
def serving_metrics(
    address: HostAndPort | None, metrics: Sequence[Metric], probes: Probes
) -> Iterator[None]:
    """Serve metrics and health while the block runs in the event loop, if an address is given.

    A daemon without metrics is still a controller: a failure is logged.
    """
    if address is None:
        yield
        return
    application = _Application(_EventLoop(asyncio.get_running_loop()), metrics, probes)
    try:
        server = make_server(
            address.host, address.port, application, _server_class(address.host), _SilentHandler
        )
    except OSError as error:
        logger.warning(
            "no metrics are served, at %s:%d: %s; set refold.metrics.address to another address",
            address.host,
            address.port,
            error.strerror or error,
        )
        yield
        return
    threading.Thread(target=server.serve_forever, daemon=True).start()
    fields = {"metrics": f"http://{address.host}:{server.server_port}/metrics"}
    logger.info("metrics are served", extra={"fields": fields})
    try:
        yield
    finally:
        # It takes up to half a second, in which the event loop would do nothing.
        threading.Thread(target=_stop, args=(server,), daemon=True).start()


def _server_class(host: str) -> type[ThreadingWSGIServer]:
    """A server for the family of the address, as in prometheus_client.start_http_server."""

    class Server(ThreadingWSGIServer):
        address_family = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0][0]

    return Server


def _stop(server: WSGIServer) -> None:
    server.shutdown()
    server.server_close()
