"""The brokers' min.insync.replicas, for `refold health`."""

from contextlib import AsyncExitStack

import pytest
from kio.schema.errors import ErrorCode

from controller.core.values import Broker, Endpoint
from controller.operator.min_insync_replicas import MinInsyncReplicas, ask_brokers
from tests.scripted_broker import OFFERED, ScriptedBroker, with_settings
from tools.lab.ports import free_port

FETCH = 1
KEY = "min.insync.replicas"


def broker(value: str | None, *, fetch: int = 17) -> ScriptedBroker:
    """A broker with this setting, of the release that offers this version of Fetch."""
    made = ScriptedBroker(with_settings({} if value is None else {KEY: value}))
    made.offered = {**OFFERED, FETCH: (0, fetch), 0: (0, 9), 24: (0, 3), 6: (0, 7)}
    return made


async def asked(*brokers: ScriptedBroker) -> MinInsyncReplicas:
    async with AsyncExitStack() as running:
        for one in brokers:
            await running.enter_async_context(one.listening())
        return await ask_brokers([one.registered(id) for id, one in enumerate(brokers, 1)])


@pytest.mark.parametrize(
    ("fetch", "is_bounded"), [(16, True), (15, False)], ids=["Kafka 3.7", "Kafka 3.6"]
)
async def test_replicas_bound_the_setting_from_kafka_3_7_on(fetch: int, is_bounded: bool) -> None:
    assert await asked(broker("2", fetch=fetch)) == MinInsyncReplicas(2, is_bounded)


async def test_one_older_broker_is_not_bounded() -> None:
    assert await asked(broker("2"), broker("2", fetch=15)) == MinInsyncReplicas(2, False)


async def test_largest_setting_counts() -> None:
    assert (await asked(broker("1"), broker("3"), broker("2"))).own == 3


async def test_brokers_that_do_not_answer_are_passed_over() -> None:
    refuses = ScriptedBroker(with_settings({}, ErrorCode.cluster_authorization_failed))
    assert (await asked(refuses, broker("2"))).own == 2
    assert (await asked(refuses)).own is None
    gone = Broker(1, 1, (Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", free_port()),))
    assert await ask_brokers([gone]) == MinInsyncReplicas()


async def test_only_listeners_without_tls_and_sasl_are_asked() -> None:
    one = broker("2")
    async with one.listening():
        host, port = one.endpoint.host, one.endpoint.port
        registered = Broker(1, 1, (Endpoint("INSIDE", "SSL", host, port),))
        assert await ask_brokers([registered]) == MinInsyncReplicas()
    assert one.answered_versions == 0
