"""The requests of clients and followers: frames in, events out; responses in, frames out."""

import asyncio
import logging
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable
from typing import Final, NamedTuple

from msgspec.structs import replace

from controller.kafka_0_8.events import CONSUMER, FetchReceived, ProduceReceived
from controller.kafka_0_8_broker.errors import BadFrame, Broker08Error
from controller.kafka_0_8_broker.messages import (
    ProduceRequest,
    Request,
    Response,
    framed,
    read_request,
)

logger = logging.getLogger(__name__)

IN_FLIGHT_MAX: Final = 32
"""Requests of one connection that may wait for their response. Then no more are read from it."""

OnRequest = Callable[[ProduceReceived | FetchReceived, str, list[bytes]], None]
"""Called with an event, its channel, and the records of a producer."""


class _Waiting(NamedTuple):
    """A request without a response yet."""

    client: "_Client"
    correlation: int


class _Client(NamedTuple):
    """A connection. Each request that waits for its response has a `slot`."""

    channel: str
    writer: StreamWriter
    slots: asyncio.Semaphore


class BrokerServer:
    """Accepts connections on host:port while its block runs."""

    def __init__(self, host: str, port: int, on_request: OnRequest) -> None:
        self._host, self._port = host, port
        self._on_request = on_request
        self._requests = 0
        self._clients: dict[str, _Client] = {}
        self._waiting: dict[int, _Waiting] = {}
        self._server: asyncio.Server

    async def start(self) -> None:
        """Listen. Raises Broker08Error."""
        try:
            self._server = await asyncio.start_server(self._serve, self._host, self._port)
        except OSError as error:
            raise Broker08Error(
                f"cannot listen on {self._host}:{self._port}: {error.strerror or error}; use "
                "another --port, or end the process that uses it"
            ) from None

    async def close(self) -> None:
        """Close all connections."""
        self._server.close()
        for client in self._clients.values():
            client.writer.close()

    def respond(self, request: int, response: Response) -> None:
        """Send the response to a request, with the client's number of it, unless its connection is
        closed."""
        waiting = self._waiting.pop(request, None)
        if waiting is not None:
            response = replace(response, correlation=waiting.correlation)
            waiting.client.writer.write(framed(response))
            waiting.client.slots.release()

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        host, port, *_ = writer.get_extra_info("peername")
        channel = f"client:{host}:{port}"
        client = _Client(channel, writer, asyncio.Semaphore(IN_FLIGHT_MAX))
        self._clients[channel] = client
        try:
            while (request := await read_request(reader)) is not None:
                await client.slots.acquire()
                self._submit_request(client, request)
                await writer.drain()
        except BadFrame as error:
            logger.warning("%s: %s; the connection is closed", channel, error)
        except OSError as error:
            logger.info("%s: the connection broke: %s", channel, error)
        finally:
            del self._clients[channel]
            self._waiting = {
                one: waiting
                for one, waiting in self._waiting.items()
                if waiting.client is not client
            }
            writer.close()

    def _submit_request(self, client: _Client, request: Request) -> None:
        self._requests += 1
        number = self._requests
        if isinstance(request, ProduceRequest):
            if request.acks:
                self._waiting[number] = _Waiting(client, request.correlation)
            else:
                client.slots.release()
            count, acks = len(request.records), request.acks
            produced = ProduceReceived(number, request.topic, request.partition, count, acks)
            self._on_request(produced, client.channel, request.records)
            return
        self._waiting[number] = _Waiting(client, request.correlation)
        channel = client.channel
        if request.replica != CONSUMER:
            channel = f"replica:{request.replica}"
        fetched = FetchReceived(
            number,
            request.replica,
            request.topic,
            request.partition,
            request.offset,
            request.epoch,
            request.replicas_version,
            request.run,
        )
        self._on_request(fetched, channel, [])
