"""Serves the daemon's metrics by HTTP, for Prometheus.

The server of prometheus-client runs in separate threads. A scrape asks the event loop for the
samples, because only the event loop may read the fold; everything else happens in the thread.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Final
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from controller.core.metered import Sample
from controller.core.metric_table import Metric
from controller.operator.exposition import TimedSample, families
from controller.settings.parsing import HostAndPort

logger = logging.getLogger(__name__)

_SECONDS_MAX: Final = 10.0
"""A scrape fails if the event loop does not answer for so long."""

Source = Callable[[], Iterable[Sample]]


class _OfLoop(Collector):
    """Collects the samples in the event loop, for a thread of the server."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, metrics: Sequence[Metric], source: Source
    ) -> None:
        self._loop = loop
        self._metrics = metrics
        self._source = source

    def collect(self) -> Iterator[Family]:
        """The families now. Raises TimeoutError, or RuntimeError after the end of the loop."""
        found: Future[list[TimedSample]] = Future()

        def read() -> None:
            try:
                found.set_result([TimedSample(one) for one in self._source()])
            except Exception as error:
                found.set_exception(error)

        self._loop.call_soon_threadsafe(read)
        return families(self._metrics, found.result(_SECONDS_MAX))


@contextmanager
def serving_metrics(
    address: HostAndPort | None, metrics: Sequence[Metric], source: Source
) -> Iterator[None]:
    """Serve metrics while the block runs in the event loop, if an address is given.

    A daemon without metrics is still a controller: a failure is logged.
    """
    if address is None:
        yield
        return
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_OfLoop(asyncio.get_running_loop(), metrics, source))
    try:
        server, _ = start_http_server(address.port, address.host, registry)
    except OSError as error:
        logger.warning(
            "no metrics are served, at %s:%d: %s; set refold.metrics.address to another address",
            address.host,
            address.port,
            error.strerror or error,
        )
        yield
        return
    fields = {"metrics": f"http://{address.host}:{server.server_port}/metrics"}
    logger.info("metrics are served", extra={"fields": fields})
    try:
        yield
    finally:
        # It takes up to half a second, in which the event loop would do nothing.
        threading.Thread(target=_stop, args=(server,), daemon=True).start()


def _stop(server: WSGIServer) -> None:
    server.shutdown()
    server.server_close()
