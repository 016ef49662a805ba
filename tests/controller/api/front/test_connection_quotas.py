"""How many connections listeners and addresses may have, how fast they come, and their counts."""

import asyncio
import time

import anyio
import pytest

from controller.api.connection_counts import ConnectionTotals, ListenerCounts
from controller.api.front.accepting import AddressQuotas, CreationRates
from controller.api.limits import EndpointLimits, ListenerQuota
from controller.api.messages import AddressRates, ConnectionLimits
from controller.core.api_requests.topics import CreatedTopic, CreateTopicsResponse
from controller.core.configuration import Authorization
from tests.controller.api.client import Client, allocate_producer_ids
from tests.controller.api.conftest import Serve, ServedEndpoint
from tests.controller.api.front.test_identification import SASL, log_in_plain
from tests.controller.api.test_admin_tools import CREATE_TOPICS, create_topics
from tests.controller.api_keys import ALLOCATE_PRODUCER_IDS

LISTENER = "PLAINTEXT"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def ask(client: Client) -> None:
    """Send the controller a request, which must be answered."""
    with anyio.fail_after(5):
        await client.ask(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids())


async def test_listener_with_its_own_limit_replaces_its_own_connection(serve: Serve) -> None:
    quotas = {"CLIENTS": ListenerQuota(connections_max=1)}
    served = await serve(names=("CLIENTS", "INTERNAL"), of_listeners=quotas)
    async with (
        Client(served.ports["INTERNAL"]) as broker,
        Client(served.ports["CLIENTS"]) as first,
        Client(served.ports["CLIENTS"]) as second,
        Client(served.ports["INTERNAL"]) as other,
    ):
        assert await first.closed()
        await ask(second)
        await ask(broker)
        await ask(other)
        await served.has_counted(
            "the replaced connection", lambda one: one.closed == {"replaced": 1}, "CLIENTS"
        )


async def test_address_without_connections_is_refused(serve: Serve) -> None:
    served = await serve(connections_per_address_max=0, connections_of_address_max={"127.0.0.2": 1})
    async with Client(served.port) as stranger, Client(served.port, "127.0.0.2") as known:
        assert await stranger.closed()
        await ask(known)
        async with Client(served.port, "127.0.0.2") as second:
            assert await known.closed()
            await ask(second)
        await served.has_counted(
            "both clients", lambda one: one.closed == {"refused": 1, "replaced": 1}
        )


async def test_connections_beyond_the_rate_wait(serve: Serve) -> None:
    served = await serve(creation_rate=5, creation_burst_seconds=1)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    for _ in range(8):
        async with Client(served.port) as client:
            await ask(client)
    # Five at once, and then one every 0.2 s.
    assert 0.4 < loop.time() - begun < 4
    found = await served.has_counted(
        "8 closed connections", lambda one: one.created == 8 and one.open == 0
    )
    assert found.throttled_ms > 0
    assert found.closed == {}


async def test_address_beyond_its_rate_is_refused(serve: Serve) -> None:
    served = await serve(creation_burst_seconds=2)
    served.endpoint.set_address_rates(AddressRates({"127.0.0.2": 1, "127.0.0.3": 0}))
    async with Client(served.port) as other:
        await ask(other)
        for _ in range(2):
            async with Client(served.port, "127.0.0.2") as client:
                await ask(client)
        async with (
            Client(served.port, "127.0.0.2") as third,
            Client(served.port, "127.0.0.3") as unwanted,
        ):
            assert await third.closed()
            assert await unwanted.closed()
        found = await served.has_counted(
            "2 refused connections", lambda one: one.closed == {"address rate": 2}
        )
        assert found.created == 5
        await ask(other)


async def test_restarted_front_has_the_rates_of_addresses(serve: Serve) -> None:
    served = await serve()
    async with Client(served.port) as first:
        await ask(first)
        served.endpoint.set_address_rates(AddressRates(default=0))
        async with Client(served.port) as client:
            assert await client.closed()


async def test_limits_change_while_the_endpoint_runs(serve: Serve) -> None:
    served = await serve()
    async with Client(served.port) as first:
        await ask(first)
        served.endpoint.set_connection_limits(ConnectionLimits(connections_max=1))
        async with Client(served.port) as second:
            assert await first.closed()
            await ask(second)
        refused = {"127.0.0.2": 0}
        changed = ConnectionLimits(connections_of_address_max=refused, creation_rate=1)
        served.endpoint.set_connection_limits(changed)
        async with Client(served.port) as other, Client(served.port, "127.0.0.2") as stranger:
            assert await stranger.closed()
            await ask(other)
        served.endpoint.set_connection_limits(ConnectionLimits())
        async with Client(served.port, "127.0.0.2") as stranger, Client(served.port) as other:
            await ask(stranger)
            await ask(other)


def test_common_rate_that_changes_is_that_of_listeners_without_a_separate_one() -> None:
    limits = EndpointLimits(
        exempt_listener="INTERNAL", of_listeners={"SEPARATE": ListenerQuota(creation_rate=7)}
    )
    rates = CreationRates(limits, ("INTERNAL", "CLIENTS", "SEPARATE"))
    assert [len(rates.limiters_of(one)) for one in ("INTERNAL", "CLIENTS", "SEPARATE")] == [0, 0, 1]
    (separate,) = rates.limiters_of("SEPARATE")
    rates.set(5)
    assert [len(rates.limiters_of(one)) for one in ("INTERNAL", "CLIENTS", "SEPARATE")] == [1, 2, 2]
    assert rates.limiters_of("SEPARATE")[0] is separate
    rates.set(None)
    assert rates.limiters_of("INTERNAL") == []


def test_rate_of_an_address_comes_back_with_time() -> None:
    quotas = AddressQuotas(burst_seconds=3)
    quotas.set(AddressRates({"a": 2}, default=1))
    assert [quotas.admit("a", 100.0) for _ in range(8)] == [True] * 6 + [False] * 2
    assert [quotas.admit("a", 100.5) for _ in range(2)] == [True, False]
    assert [quotas.admit("b", 100.0) for _ in range(4)] == [True] * 3 + [False]
    quotas.set(AddressRates())
    assert quotas.admit("b", 100.0)


def test_inter_broker_listener_does_not_wait_for_others() -> None:
    rates = CreationRates(
        EndpointLimits(
            creation_rate=5,
            exempt_listener="INTERNAL",
            of_listeners={
                "INTERNAL": ListenerQuota(creation_rate=5),
                "CLIENTS": ListenerQuota(creation_rate=2),
            },
        )
    )
    (of_brokers,) = rates.limiters_of("INTERNAL")
    of_clients, of_all = rates.limiters_of("CLIENTS")
    assert rates.limiters_of("OTHERS") == [of_all]
    assert len({id(one) for one in (of_brokers, of_clients, of_all)}) == 3


async def test_handshakes_that_fail_or_take_too_long_are_counted(serve: Serve) -> None:
    served = await serve(security={LISTENER: SASL}, first_request_ms=500)
    async with Client(served.port) as slow, Client(served.port) as wrong, Client(served.port) as ok:
        assert (await log_in_plain(wrong, "guess")).error_code
        assert not (await log_in_plain(ok, "secret")).error_code
        assert await slow.closed()
        found = await served.has_counted("2 failed logins", lambda one: one.failed_logins == 2)
        assert found.logins == 1
        assert found.closed["handshake timeout"] == found.closed["authentication"] == 1


async def test_plain_connections_are_no_logins(serve: Serve) -> None:
    """As Kafka's Selector counts them: channels that are ready at once have not authenticated."""
    served = await serve(authorization=Authorization(), request_bytes_max=1000)
    async with Client(served.port) as client:
        client.writer.write((1001).to_bytes(4, "big"))
        assert await client.closed()
    found = await served.has_counted("the closed connection", lambda one: bool(one.closed))
    assert (found.created, found.logins) == (1, 0)


async def test_idle_connections_and_bad_requests_are_counted(serve: Serve) -> None:
    served = await serve(connections_max_idle_ms=300, request_bytes_max=1000)
    async with Client(served.port) as idle, Client(served.port) as large:
        large.writer.write((1001).to_bytes(4, "big"))
        assert await large.closed()
        assert await idle.closed()
        found = await served.has_counted("2 reasons", lambda one: len(one.closed) == 2)
        assert found.closed == {"idle": 1, "request": 1}


def test_counts_continue_after_the_front_process_has_ended() -> None:
    totals = ConnectionTotals(["A"])
    assert totals.by_listener() == {"A": ListenerCounts()}
    totals.counted({"A": ListenerCounts(open=2, created=5, closed={"idle": 3})})
    totals.front_ended()
    assert totals.by_listener()["A"] == ListenerCounts(created=5, closed={"idle": 3})
    totals.counted({"A": ListenerCounts(open=1, created=2, closed={"idle": 1, "request": 1})})
    assert totals.by_listener()["A"] == ListenerCounts(
        open=1, created=7, closed={"idle": 4, "request": 1}
    )


# Throttled clients (KIP-599) ----------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 7])
async def test_throttled_client_is_sent_the_time_and_is_not_read_for_as_long(
    served: ServedEndpoint, version: int
) -> None:
    loop = asyncio.get_running_loop()
    async with Client(served.port) as tool, Client(served.port) as other:
        head = tool.send(CREATE_TOPICS, version, create_topics("t", version=version))
        (event,) = await served.has_events(1)
        served.endpoint.throttle(event.request, now_ms() + 500)
        served.endpoint.answer(CreateTopicsResponse(event.request, (CreatedTopic("t", 89),)))
        answer = await tool.answer_to(head)
        answered = loop.time()
        assert 0.3 < answer.throttle_time.total_seconds() <= 0.5
        await ask(other)
        await ask(tool)
        assert loop.time() - answered > 0.25


async def test_client_of_another_request_is_not_throttled(served: ServedEndpoint) -> None:
    served.endpoint.throttle(99, now_ms() + 60_000)
    async with Client(served.port) as tool:
        head = tool.send(CREATE_TOPICS, 7, create_topics("t"))
        (event,) = await served.has_events(1)
        served.endpoint.answer(CreateTopicsResponse(event.request, (CreatedTopic("t"),)))
        assert not (await tool.answer_to(head)).throttle_time
        await ask(tool)
