"""Connections take turns, however many requests of one client have arrived."""

import asyncio
from typing import cast

from anyio.lowlevel import checkpoint

from controller.api.connection_counts import ListenerCounts
from controller.api.front.admission import Admission
from controller.api.front.broker_rights import BrokerRights
from controller.api.front.cluster_metadata import MetadataQueries
from controller.api.front.connection import ClientConnection, FrontContext
from controller.api.front.live_brokers import LiveBrokers
from controller.api.front.pending_requests import PendingRequests
from controller.api.front.request_quotas import RequestQuotas
from controller.api.front.session import ClientSession
from controller.api.limits import EndpointLimits
from controller.core.values import Endpoint
from controller.wire.client_requests import RequestHead, encode_request
from tests.controller.api.client import API_VERSIONS, api_versions
from tests.controller.api.conftest import OWN_ID

REQUESTS = 200
LISTENER = Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092)
ASKED_BY_A_BROKER = encode_request(RequestHead(API_VERSIONS, 0, 1), "1", api_versions(0))


class Reader:
    """A client that reads every response at once."""

    def __init__(self) -> None:
        self.answers = 0

    def write(self, frame: bytes) -> None:
        self.answers += 1

    async def drain(self) -> None:
        """Never blocks."""


async def test_client_with_many_requests_waits_for_its_turn_before_each() -> None:
    limits = EndpointLimits()
    brokers = LiveBrokers([LISTENER], print)
    pending = PendingRequests(print, first_number=1)
    shared = FrontContext(
        OWN_ID,
        limits,
        Admission(1, 1),
        RequestQuotas(limits),
        pending,
        MetadataQueries(print),
        BrokerRights(print, None),
        brokers,
        {},
        (),
        None,
        {LISTENER.listener: ListenerCounts()},
    )
    reader, taker = asyncio.StreamReader(), Reader()
    reader.feed_data(ASKED_BY_A_BROKER * REQUESTS)
    reader.feed_eof()
    shared.admission.admit(1, "127.0.0.1")
    writer = cast(asyncio.StreamWriter, taker)
    client = ClientConnection(1, LISTENER, ClientSession(None), reader, writer, shared)
    serving = asyncio.create_task(client.serve())
    turns_of_others = 0
    while not serving.done():
        await checkpoint()
        turns_of_others += 1
    assert taker.answers == REQUESTS
    assert turns_of_others >= REQUESTS
