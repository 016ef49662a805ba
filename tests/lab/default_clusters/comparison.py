"""Answers of a stock controller and of refold to the same requests, in equal clusters.

    python -m tests.lab.default_clusters.comparison

writes the table of answers into docs/endpoint-responses.md.
"""

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from struct import pack, unpack_from
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from controller.core.commands import WriteZnodes
from controller.core.deviations import ISR_BY_LEADER
from controller.core.operations import OK, WriteOperation
from controller.wire.client_requests import RequestHead, decode_response, read_head
from tests.controller.api.client import API_VERSIONS, Client, allocate_producer_ids
from tests.controller.api_keys import ALLOCATE_PRODUCER_IDS, ALTER_PARTITION, CONTROLLED_SHUTDOWN
from tests.lab.default_clusters.cluster import DefaultLabCluster
from tests.lab.default_clusters.crafted_frames import FRAME_CASES
from tests.lab.default_clusters.crafted_requests import (
    ALTER_CASES,
    ALTER_PARTITION_VERSIONS,
    LAST_SHUTDOWN_CASES,
    PARENTS,
    PRODUCER_ID_CASES,
    REFUSED_SHUTDOWN_CASES,
    SHUTDOWN_CASES,
    SHUTTING_DOWN_CASE,
    STOCK,
    STUBS,
    AlterCase,
    EpochCase,
    alter_partition,
    controlled_shutdown,
    population,
)
from tools.bench.stub_brokers import StubBrokers
from tools.bench.zookeeper_reads import CommandClient as ZooKeeperClient
from tools.bench.zookeeper_reads import client_of
from tools.lab import Lab
from tools.lab.cluster_view import until

PAGE = Path(__file__).parents[3] / "docs" / "endpoint-responses.md"
BEGIN = "<!-- The table is written by python -m tests.lab.default_clusters.comparison -->\n"
END = "<!-- end of the table -->\n"
_BY_ANY_RULES = {
    ("AlterPartition", "an unknown topic without partitions"): "the event has partitions only"
}
_BY_REFOLDS_RULES = {
    ("AlterPartition", case): ISR_BY_LEADER.name
    for case in (
        "a member that is not alive",
        "a live member that is not a replica",
        "an ISR without the leader",
        "an empty ISR",
        "a duplicate member",
        "sent by a follower",
        "sent by a broker without a replica",
    )
} | {
    ("ControlledShutdown", case.what): "because of changes by earlier rows"
    for case in LAST_SHUTDOWN_CASES
}
EXPLAINED: Mapping[str, Mapping[tuple[str, str], str]] = {
    "kafka": _BY_ANY_RULES,
    "refold": {**_BY_ANY_RULES, **_BY_REFOLDS_RULES},
}
"""Why a response differs on purpose, by refold.rules, and by request and case."""

CLOSED = "the connection is closed"
CLOSED_SECONDS_MAX = 10.0

Answers = dict["Row", Any]


class Row(NamedTuple):
    """A request in the table: its API, the case, and the version."""

    request: str
    case: str
    version: int


class Difference(NamedTuple):
    """A request that the two controllers answer differently."""

    row: Row
    stock: Any
    refold: Any


async def answers_of_stock(folder: Path) -> Answers:
    """The responses of a stock controller."""
    async with _cluster(folder) as (lab, epochs):
        return await _all_answers(lab.brokers[0].port, epochs)


async def answers_of_refold(folder: Path, rules: str) -> Answers:
    """The responses of refold, whose log must agree in a replay."""
    async with _cluster(folder) as (lab, epochs):
        async with DefaultLabCluster(lab, folder) as lab_cluster:
            daemon = await lab_cluster.controlling(settings={"refold.rules": rules})
            answers = await _all_answers(int(lab_cluster.daemon_address.partition(":")[2]), epochs)
            assert daemon.running, daemon.last_output()
        await lab_cluster.check_logs()
        return answers


def differences(stock: Answers, refold: Answers) -> list[Difference]:
    """The requests that are answered differently, explained or not."""
    assert stock.keys() == refold.keys()
    return [Difference(row, stock[row], refold[row]) for row in stock if stock[row] != refold[row]]


def unexplained(stock: Answers, refold: Answers, rules: str) -> list[Difference]:
    """The differences without an explanation."""
    explained = EXPLAINED[rules]
    return [
        one
        for one in differences(stock, refold)
        if (one.row.request, one.row.case) not in explained
    ]


@asynccontextmanager
async def _cluster(folder: Path) -> AsyncIterator[tuple[Lab, dict[int, int]]]:
    """One broker that may become controller, three stubs, and the topics; returns each broker's
    epoch."""
    async with Lab(folder / "lab") as lab:
        zookeeper = await lab.start_zookeeper()
        async with client_of(zookeeper.connect) as client:
            await _write(client, PARENTS)
            stubs = await StubBrokers.start(zookeeper.connect, folder / "stub-brokers.log")
            try:
                for stub in STUBS:
                    await stubs.register(stub)
                await _write(client, tuple(population()))
                await lab.start_brokers(1, inter_broker_protocol="3.9")
                async with DefaultLabCluster(lab, folder) as lab_cluster:
                    await lab_cluster.until_stock_controller()
                    ids = (STOCK, *STUBS)
                    epochs = {one: await lab_cluster.view.broker_epoch(one) for one in ids}
                yield lab, epochs
            finally:
                await stubs.close()


async def _write(client: ZooKeeperClient, operations: tuple[WriteOperation, ...]) -> None:
    errors = await client.call(WriteZnodes(operations, None), len(operations))
    assert set(errors) == {OK}


async def _all_answers(port: int, epochs: Mapping[int, int]) -> Answers:
    answers: Answers = {}
    async with Client(port) as client:
        await _until_loaded(client, epochs)
        # These requests change nothing, and need the leaders as they were.
        of_frames = {
            Row(case.request, case.what, case.version): await _sent(port, case.frame(epochs))
            for case in FRAME_CASES
        }
        for case in ALTER_CASES:
            await _alter(client, case, epochs, answers)
        await _allocate(client, epochs, answers)
        for one in (*REFUSED_SHUTDOWN_CASES, *SHUTDOWN_CASES):
            await _shut_down(client, one, epochs, answers)
        await _alter(client, SHUTTING_DOWN_CASE, epochs, answers)
        for one in LAST_SHUTDOWN_CASES:
            await _shut_down(client, one, epochs, answers)
    return answers | of_frames


async def _until_loaded(client: Client, epochs: Mapping[int, int]) -> None:
    """Waits for the end of the failover, when the controller answers with a partition's state."""
    present = next(case for case in ALTER_CASES if case.what == "the present state")

    async def is_answered() -> bool:
        answer = await client.ask(ALTER_PARTITION, 3, alter_partition(present, 3, epochs))
        return bool(answer.topics)

    await until(is_answered, 20, "the controller answers with a partition's state")


async def _sent(port: int, frame: bytes) -> Any:
    """The response to these bytes on a separate connection."""
    async with Client(port) as client, asyncio.timeout(CLOSED_SECONDS_MAX):
        client.writer.write(frame)
        try:
            answer = await client.receive()
        except (asyncio.IncompleteReadError, ConnectionError):
            return CLOSED
    head = read_head(frame[4:])
    if head.api_key == API_VERSIONS:
        return _error_of_api_versions(answer)
    return plain(decode_response(head, answer))


def _error_of_api_versions(answer: bytes) -> Any:
    """A response with an error is returned completely; of another answer only the error code is
    returned, because the offered versions differ.

    The header and the error code have the same layout in every version.
    """
    (error,) = unpack_from(">h", answer, 4)
    name = ErrorCode(error).name
    return {"error_code": name, "answer": answer.hex()} if error else {"error_code": name}


async def _alter(
    client: Client, case: AlterCase, epochs: Mapping[int, int], answers: Answers
) -> None:
    for version in ALTER_PARTITION_VERSIONS[case.first_version :]:
        request = alter_partition(case, version, epochs)
        for _ in range(case.times - 1):
            await client.ask(ALTER_PARTITION, version, request)
        answer = await client.ask(ALTER_PARTITION, version, request)
        answers[Row("AlterPartition", case.what, version)] = plain(answer)


async def _allocate(client: Client, epochs: Mapping[int, int], answers: Answers) -> None:
    for case in PRODUCER_ID_CASES:
        request = allocate_producer_ids(case.broker, case.epoch(epochs.get(case.broker, 1)))
        answer = await client.ask(ALLOCATE_PRODUCER_IDS, 0, request)
        answers[Row("AllocateProducerIds", case.what, 0)] = plain(answer)


async def _shut_down(
    client: Client, case: EpochCase, epochs: Mapping[int, int], answers: Answers
) -> None:
    if case.version:
        request = controlled_shutdown(case, epochs)
        head = client.send(CONTROLLED_SHUTDOWN, case.version, request)
    else:
        # This is the only request whose header has no client id.
        head = RequestHead(CONTROLLED_SHUTDOWN, 0, 1)
        client.writer.write(pack(">ihhii", 12, *head, case.broker))
    answer = await client.answer_to(head)
    answers[Row("ControlledShutdown", case.what, case.version)] = plain(answer)


def plain(value: Any) -> Any:
    """A response as dicts and tuples; lists that Kafka returns in no order are sorted."""
    if is_dataclass(value):
        named = [one.name for one in fields(value) if not one.name.startswith("__")]
        return {name: plain(getattr(value, name)) for name in named}
    if isinstance(value, tuple):
        found = tuple(map(plain, value))
        is_ordered = not found or not isinstance(found[0], dict)
        return found if is_ordered else tuple(sorted(found, key=repr))
    if isinstance(value, Enum):
        return value.name
    return value


def table(stock: Answers, refold: Answers) -> str:
    """The responses as a Markdown table, with versions of equal answers in one row."""
    explained = EXPLAINED["refold"]
    rows: dict[tuple[str, str, str], list[int]] = {}
    for row, answer in refold.items():
        text = brief(answer)
        if answer != stock[row]:
            why = explained[row.request, row.case]
            text = f"{text}. Kafka: {brief(stock[row])} ({why})"
        rows.setdefault((row.request, row.case, text), []).append(row.version)
    lines = ["| request | case | versions | answer |", "|---|---|---|---|"]
    for (request, case, text), versions in rows.items():
        version_list = ", ".join(map(str, versions))
        lines.append(f"| {request} | {case} | {version_list} | {text} |")
    return "\n".join(lines) + "\n"


def brief(answer: Any) -> str:
    """A short description of a response."""
    if answer == CLOSED:
        return CLOSED
    if answer["error_code"] != "none":
        return f"{answer['error_code'].upper()} for the whole request"
    if "producer_id_start" in answer:
        return f"{answer['producer_id_len']} ids from {answer['producer_id_start']}"
    if "remaining_partitions" in answer:
        return f"{len(answer['remaining_partitions'])} partitions remain"
    if "topics" not in answer:
        return "answered"
    states = [one for topic in answer["topics"] for one in topic["partitions"]]
    if answer["topics"] and not states:
        return "the topic, without partitions"
    return "; ".join(map(_brief_state, states)) or "an empty answer"


def _brief_state(one: Mapping[str, Any]) -> str:
    if one["error_code"] != "none":
        return str(one["error_code"]).upper()
    recovering = ", recovering" if one.get("leader_recovery_state") else ""
    return (
        f"leader {one['leader_id']}, ISR {list(one['isr'])}, "
        f"epochs {one['leader_epoch']} and {one['partition_epoch']}{recovering}"
    )


def with_table(page: str, begin: str, text: str) -> str:
    """The page with its table replaced, which is after the line `begin`."""
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(END)
    return f"{before}{begin}\n{text}\n{END}{after}"


def report(found: Iterable[Difference]) -> str:
    """The differences, one per paragraph."""
    return "\n\n".join(f"{one.row}\nstock:  {one.stock}\nrefold: {one.refold}" for one in found)


async def _write_page() -> str:
    """Writes the page; returns the unexplained differences."""
    with tempfile.TemporaryDirectory() as name:
        stock_folder, refold_folder = Path(name) / "stock", Path(name) / "refold"
        for one in (stock_folder, refold_folder):
            one.mkdir()
        stock = await answers_of_stock(stock_folder)
        refold = await answers_of_refold(refold_folder, "refold")
    found = unexplained(stock, refold, "refold")
    if not found:
        PAGE.write_text(with_table(PAGE.read_text(), BEGIN, table(stock, refold)))
    return report(found)


if __name__ == "__main__":
    sys.exit(asyncio.run(_write_page()) or None)
