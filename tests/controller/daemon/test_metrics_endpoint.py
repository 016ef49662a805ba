"""The HTTP endpoint of the metrics, and the text that Prometheus reads."""

import logging
import socket
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.error import HTTPError

import anyio.to_thread
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from controller.api.connection_counts import ListenerCounts
from controller.core.metric_table import METRICS
from controller.core.metrics_observer import Sample
from controller.daemon import metrics_endpoint
from controller.daemon.connection_metrics import CONNECTION_METRICS, connection_samples
from controller.daemon.log_metrics import AppendTimes, log_samples
from controller.daemon.metrics_endpoint import Probes, Source, serving_metrics
from controller.exposition import TimedSample, openmetrics_text
from controller.settings.parsing import HostAndPort, metrics_address
from eventstore.mirror.progress import TopicLocation
from eventstore.records import Header
from eventstore.writer import LogWriter
from tools.lab.ports import free_port

ACTIVE = "kafka_controller_kafkacontroller_activecontrollercount"
TIMER = "kafka_controller_controllerstats_isrchangerateandtimems"
REQUESTS = "kafka_controller_controllerchannelmanager_requestrateandqueuetimems"


def probed(samples: Source) -> Probes:
    made = Probes()
    made.samples = samples
    return made


async def scrape(port: int, accept: str = "", path: str = "/metrics") -> str:
    def get() -> str:
        asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}")
        asked.add_header("Accept", accept)
        with urllib.request.urlopen(asked, timeout=10) as response:
            return str(response.read().decode())

    return await anyio.to_thread.run_sync(get)


async def test_scrape_has_both_forms_of_a_count() -> None:
    port = free_port()
    samples = [
        Sample(ACTIVE, ACTIVE, (), 1),
        Sample(TIMER, TIMER, (("quantile", "0.99"),), 4.5),
        Sample(TIMER, f"{TIMER}_count", (), 7),
    ]
    with serving_metrics(HostAndPort("127.0.0.1", port), METRICS, probed(lambda: samples)):
        text = await scrape(port)
    lines = text.splitlines()
    assert f"{ACTIVE} 1.0" in lines
    assert f'{TIMER}{{quantile="0.99"}} 4.5' in lines
    assert {f"{TIMER}_count 7.0", f"{TIMER}_count_total 7.0"} <= {*lines}


async def test_fault_of_the_source_fails_the_scrape_and_not_the_daemon() -> None:
    port = free_port()
    with (
        serving_metrics(HostAndPort("127.0.0.1", port), METRICS, probed(lambda: [][0])),
        pytest.raises(HTTPError, match="500") as failed,
    ):
        await scrape(port)
    failed.value.close()


async def refusal(port: int, path: str) -> str:
    with pytest.raises(HTTPError, match="503") as refused:
        await scrape(port, path=path)
    with refused.value:
        return refused.value.read().decode()


async def test_daemon_that_starts_is_alive_and_neither_ready_nor_scraped() -> None:
    port = free_port()
    asked = Probes()
    with serving_metrics(HostAndPort("127.0.0.1", port), METRICS, asked):
        assert await scrape(port, path="/livez") == "ok\n"
        assert await refusal(port, "/readyz") == "the daemon starts\n"
        # Prometheus must not take an empty answer for a daemon without the role.
        assert await refusal(port, "/metrics") == "the daemon starts\n"
        asked.unready = str
        asked.samples = list
        assert await scrape(port, path="/readyz") == "ok\n"
        await scrape(port)


async def test_busy_event_loop_is_not_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_endpoint, "ANSWER_SECONDS_MAX", 0.2)
    port = free_port()
    with (
        ThreadPoolExecutor(1) as pool,
        serving_metrics(HostAndPort("127.0.0.1", port), METRICS, Probes()),
    ):

        def get() -> int:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=10) as found:
                    return int(found.status)
            except HTTPError as error:
                with error:
                    return error.code

        # The event loop waits here for the answer, so it cannot answer.
        assert pool.submit(get).result() == 503


async def test_address_in_use_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with (
            caplog.at_level(logging.WARNING),
            serving_metrics(HostAndPort("127.0.0.1", port), METRICS, probed(list)),
        ):
            pass
    assert "set refold.metrics.address to another address" in caplog.text


def test_samples_over_time_are_valid_openmetrics() -> None:
    samples = []
    for time_s in (1.0, 2.0):
        for broker in ("1", "2"):
            of_broker = (("broker_id", broker),)
            quantile = (*of_broker, ("quantile", "0.50"))
            samples.append(TimedSample(Sample(REQUESTS, REQUESTS, quantile, 3), time_s))
            samples.append(TimedSample(Sample(REQUESTS, f"{REQUESTS}_count", of_broker, 9), time_s))
        samples.append(TimedSample(Sample(ACTIVE, ACTIVE, (), 1), time_s))
    text = openmetrics_text(METRICS, samples)
    found = {one.name: one for one in text_string_to_metric_families(text)}
    assert [float(one.timestamp) for one in found[ACTIVE].samples] == [1, 2]
    counts = [one for one in text.splitlines() if one.startswith(f"{REQUESTS}_count{{")]
    assert counts == [
        f'{REQUESTS}_count{{broker_id="{broker}"}} 9.0 {time_s}'
        for broker in (1, 2)
        for time_s in (1.0, 2.0)
    ]


@pytest.mark.parametrize("text", ["9404", ":9404", "localhost:", "localhost:65536", "on"])
def test_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        metrics_address(text)


def test_address_can_be_off() -> None:
    assert metrics_address("off") is None
    assert metrics_address("[::1]:9404") == ("::1", 9404)


def test_lag_of_a_mirror_without_progress_is_the_whole_log(tmp_path: Path) -> None:
    header = Header(
        kind="recorded",
        core_fingerprint="x",
        code_version="0",
        configuration={},
        cluster_id="c",
        created_ns=0,
    )
    with LogWriter.create(tmp_path / "log", header) as log:
        appends = AppendTimes()
        appends.add(0.002, 5)
        place = TopicLocation("t", "h:1")
        found = {one.name: one.value for one in log_samples(appends, log, place, 0.5)}
    assert found["refold_mirror_lag_events"] == 0
    assert found["refold_log_append_seconds_count"] == 1
    assert found["refold_event_lag_seconds"] == 0.5


def test_every_count_of_connections_is_exported_for_each_listener() -> None:
    counts = ListenerCounts(
        open=1,
        created=5,
        throttled_ms=500,
        logins=3,
        failed_logins=2,
        closed={"session expired": 4},
    )
    found = list(connection_samples({"CLIENTS": counts, "INTERNAL": ListenerCounts()}))
    assert {one.metric for one in found} == {one.name for one in CONNECTION_METRICS}
    values = {
        one.metric.removeprefix("kafka_server_socket_server_metrics_"): one.value
        for one in found
        if one.labels == (("listener", "CLIENTS"),)
    }
    assert values["connection_count"] == 1
    assert values["connection_creation_total"] == 5
    assert values["connection_close_total"] == values["expired_connections_killed_count"] == 4
    assert values["successful_authentication_total"] == 3
    assert values["failed_authentication_total"] == 2
    assert values["refold_connection_throttle_seconds_total"] == 0.5
    closed = ("refold_connections_closed_total", (("listener", "CLIENTS"), ("reason", "idle")))
    assert [one.value for one in found if (one.metric, one.labels) == closed] == [0]
