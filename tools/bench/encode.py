"""Compares refold's encoding and decoding of requests, per partition, with kio.

Bias: kio's time has two parts, building its entity and encoding it. refold encodes the command
directly. All partitions have the same number of replicas, and all topics the same size.
LeaderAndIsr to the first broker fills a cache that the requests to the other brokers use; both
times are shown. See `python -m tools.bench.encode --help`.
"""

import random
import time
from collections.abc import Callable
from importlib import import_module
from io import BytesIO
from typing import Annotated, Any
from uuid import UUID

import typer
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from controller.core.commands import (
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)
from controller.core.values import Assignment, LeaderAndIsr
from controller.wire.apis import LEADER_AND_ISR
from controller.wire.broker_responses import decode_broker_response
from controller.wire.encoding import BatchEncoder
from tools.bench import kio_requests

LEADER_AND_ISR_VERSION = 7
UPDATE_METADATA_VERSION = 8
BROKERS = 6


def main(
    partitions: Annotated[int, typer.Option(help="Partitions in the request.")] = 20_000,
    replicas: Annotated[int, typer.Option(min=1, max=BROKERS, help="Replicas per partition.")] = 3,
    per_topic: Annotated[int, typer.Option(min=1, help="Partitions per topic.")] = 10,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; the best one is printed.")] = 5,
) -> None:
    """Print microseconds per partition for refold and kio, and their ratio."""
    leader_and_isr = _leader_and_isr(partitions, replicas, per_topic)
    update_metadata = _update_metadata(leader_and_isr)
    answer = _answer(partitions, per_topic)

    def measured(work: Callable[[], object]) -> float:
        return min(_seconds(work) for _ in range(rounds)) / partitions * 1e6

    shared = BatchEncoder()
    shared.encode(leader_and_isr, LEADER_AND_ISR_VERSION)
    by_hand = {
        "LeaderAndIsr, first broker": measured(
            lambda: BatchEncoder().encode(leader_and_isr, LEADER_AND_ISR_VERSION)
        ),
        "LeaderAndIsr, next brokers": measured(
            lambda: shared.encode(leader_and_isr, LEADER_AND_ISR_VERSION)
        ),
        "UpdateMetadata, all brokers": measured(
            lambda: BatchEncoder().encode(update_metadata, UPDATE_METADATA_VERSION)
        ),
        "LeaderAndIsr, all-zero response": measured(
            lambda: decode_broker_response(LEADER_AND_ISR, LEADER_AND_ISR_VERSION, answer)
        ),
    }
    first = kio_requests.leader_and_isr(leader_and_isr, LEADER_AND_ISR_VERSION)
    second = kio_requests.update_metadata(update_metadata, UPDATE_METADATA_VERSION)
    built = measured(lambda: kio_requests.leader_and_isr(leader_and_isr, LEADER_AND_ISR_VERSION))
    encoded = measured(lambda: kio_requests.encode(first))
    built_metadata = measured(
        lambda: kio_requests.update_metadata(update_metadata, UPDATE_METADATA_VERSION)
    )
    encoded_metadata = measured(lambda: kio_requests.encode(second))
    read = measured(lambda: _decoded_response(answer))
    kio = [
        (built, encoded),
        (built, encoded),
        (built_metadata, encoded_metadata),
        (0.0, read),
    ]
    typer.echo(
        f"{'µs a partition':<30} {'refold':>8} {'kio builds':>11} {'and codes':>10} {'ratio':>7}"
    )
    for (name, hand), (builds, codes) in zip(by_hand.items(), kio, strict=True):
        ratio = (builds + codes) / hand
        typer.echo(f"{name:<30} {hand:>8.3f} {builds:>11.2f} {codes:>10.2f} {ratio:>7.1f}")


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _leader_and_isr(partitions: int, replicas: int, per_topic: int) -> LeaderAndIsrRequest:
    dice = random.Random(1)
    states = []
    for number in range(partitions):
        topic, partition = divmod(number, per_topic)
        ids = tuple(dice.sample(range(BROKERS), replicas))
        leadership = LeaderAndIsr(ids[0], dice.randrange(50), ids, dice.randrange(99), 3)
        states.append(
            LeaderAndIsrPartition(
                f"topic-{topic:05}", _topic_id(topic), partition, leadership, Assignment(ids), False
            )
        )
    leaders = tuple((broker, "127.0.0.1", 9092 + broker) for broker in range(BROKERS))
    return LeaderAndIsrRequest(0, 1, LEADER_AND_ISR_VERSION, 1000, 3, tuple(states), leaders)


def _update_metadata(request: LeaderAndIsrRequest) -> UpdateMetadataRequest:
    states = tuple(
        UpdateMetadataPartition(
            one.topic, one.topic_id, one.partition, one.leadership, one.assignment.replicas, ()
        )
        for one in request.partitions
    )
    return UpdateMetadataRequest(0, 1, UPDATE_METADATA_VERSION, 1000, 3, states, ())


def _topic_id(topic: int) -> bytes:
    return (topic + 1).to_bytes(16)


def _answer_schema() -> Any:
    return import_module(f"kio.schema.leader_and_isr.v{LEADER_AND_ISR_VERSION}.response")


def _answer(partitions: int, per_topic: int) -> bytes:
    """The response of a broker that accepted all partitions."""
    schema = _answer_schema()
    topics = tuple(
        schema.LeaderAndIsrTopicError(
            topic_id=UUID(bytes=_topic_id(first // per_topic)),
            partition_errors=tuple(
                schema.LeaderAndIsrPartitionError(partition_index=one, error_code=ErrorCode.none)
                for one in range(min(per_topic, partitions - first))
            ),
        )
        for first in range(0, partitions, per_topic)
    )
    body = BytesIO()
    entity = schema.LeaderAndIsrResponse(error_code=ErrorCode.none, topics=topics)
    entity_writer(schema.LeaderAndIsrResponse)(body, entity)
    return body.getvalue()


def _decoded_response(answer: bytes) -> Any:
    return entity_reader(_answer_schema().LeaderAndIsrResponse)(answer, 0)


if __name__ == "__main__":
    typer.run(main)
