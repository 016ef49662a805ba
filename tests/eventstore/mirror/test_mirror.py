"""Logs that are mirrored to a topic of a real broker, and restored."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import anyio
import pytest
from aiokafka import AIOKafkaProducer
from msgspec import structs

from eventstore.errors import LogExists, LogNotFound, MirrorFailed
from eventstore.folders import MIRRORED_NAME
from eventstore.mirror.fetching import NotFetched, RestoredLog, fetch, list_logs
from eventstore.mirror.progress import MirrorProgress, TopicLocation, read_progress, write_progress
from eventstore.mirror.publishing import MirrorEvent, Publisher
from eventstore.mirror.topic import MirrorTopic, consumer, create_topic, messages, partitions_of
from eventstore.reader import LogReader
from eventstore.verify import verify
from eventstore.writer import LogWriter
from tests.eventstore.samples import command, event, header, write_log

pytestmark = [pytest.mark.lab, pytest.mark.ci, pytest.mark.timeout(180)]


leaves_connections = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"
)
"""A cancelled client of aiokafka leaves its connections to the garbage collector."""


class PublisherReports:
    """The reports of a publisher, which a test can await."""

    def __init__(self) -> None:
        self.events: list[MirrorEvent] = []
        self._changed = anyio.Event()

    def __call__(self, event: MirrorEvent) -> None:
        self.events.append(event)
        self._changed.set()
        self._changed = anyio.Event()

    async def until(self, what: str, records: int = 0) -> None:
        """Wait until this number of records was reported, with these words."""
        while True:
            found = [one for one in self.events if one.kind == what]
            if found and sum(one.records for one in found) >= records:
                return
            await self._changed.wait()


def publisher(logs: Path, topic: MirrorTopic, reports: PublisherReports | None = None) -> Publisher:
    return Publisher(logs, topic, reports or PublisherReports())


def ignored(*_: int) -> None:
    """Take progress, or the start of a wait."""


async def fetched(topic: MirrorTopic, out: Path, wanted: str | None = None) -> list[RestoredLog]:
    made = await fetch(topic, out, wanted, ignored, ignored)
    assert not [one for one in made if isinstance(one, NotFetched)]
    return [one for one in made if isinstance(one, RestoredLog)]


def content(log: Path) -> list[object]:
    with LogReader(log) as reader:
        return [reader.header, *reader.records(), reader.closing]


async def test_restored_log_has_the_same_records(topic: MirrorTopic, tmp_path: Path) -> None:
    log = write_log(tmp_path / "logs" / "run-a", 3000, segment_bytes=1 << 20)
    count = await publisher(log.parent, topic).publish()
    [one] = await fetched(topic, tmp_path / "out")
    segments = len(list(log.glob("*.refold")))
    assert one.records == count == 6000 + segments + 1
    assert one.report.is_sound
    assert not one.is_cut
    assert content(one.folder) == content(log)
    assert one.report == verify(log)


async def test_records_are_published_once(topic: MirrorTopic, tmp_path: Path) -> None:
    """With and without the note of the last position."""
    log = write_log(tmp_path / "logs" / "run-a", 700, closed=False)
    first = await publisher(log.parent, topic).publish()
    assert await publisher(log.parent, topic).publish() == 0
    (log / MIRRORED_NAME).unlink()
    assert await publisher(log.parent, topic).publish() == 0
    [run] = await list_logs(topic, ignored, ignored)
    assert (run.cluster, run.name, run.records) == ("Zm9v", "run-a", first)


@asynccontextmanager
async def open_transaction(topic: MirrorTopic) -> AsyncIterator[None]:
    """A transaction of another producer on all partitions. Later committed records cannot be
    read."""
    places = await partitions_of(topic)
    async with AIOKafkaProducer(**topic.client, transactional_id="another") as other:
        await other.begin_transaction()
        for place in places:
            await other.send_and_wait(topic.name, b"", b"none", place.partition)
        yield
        await other.abort_transaction()


@leaves_connections
@pytest.mark.parametrize("is_noted", [True, False])
async def test_records_after_an_open_transaction_are_not_published_again(
    is_noted: bool, topic: MirrorTopic, tmp_path: Path
) -> None:
    logs, reports, again = tmp_path / "logs", PublisherReports(), PublisherReports()
    with LogWriter.create(logs / "run-a", header()) as writer:
        async with anyio.create_task_group() as tasks, anyio.create_task_group() as first:
            first.start_soon(publisher(logs, topic, reports).follow, anyio.Event())
            await reports.until("published", 1)
            async with open_transaction(topic):
                writer.append([event(1), event(2)])
                await reports.until("published", 3)
                first.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    if not is_noted:
                        (logs / "run-a" / MIRRORED_NAME).unlink()
                    writer.append([event(3)])
                    tasks.start_soon(publisher(logs, topic, again).publish)
                    await again.until("waits")
    assert [one.records for one in again.events if one.kind == "published"] == [1]
    await publisher(logs, topic).publish()
    [one] = await fetched(topic, tmp_path / "out")
    assert content(one.folder) == content(logs / "run-a")


@leaves_connections
async def test_restored_log_contains_what_was_published_after_an_open_transaction(
    topic: MirrorTopic, tmp_path: Path
) -> None:
    """A fetch reads everything that was published before it began."""
    logs, reports, waiting = tmp_path / "logs", PublisherReports(), anyio.Event()
    made: list[RestoredLog | NotFetched] = []

    async def restore() -> None:
        made.extend(await fetch(topic, tmp_path / "out", None, ignored, waiting.set))

    with LogWriter.create(logs / "run-a", header()) as writer:
        async with anyio.create_task_group() as tasks, anyio.create_task_group() as publishing:
            publishing.start_soon(publisher(logs, topic, reports).follow, anyio.Event())
            await reports.until("published", 1)
            async with open_transaction(topic):
                writer.append([event(1), event(2)])
                await reports.until("published", 3)
                tasks.start_soon(restore)
                await waiting.wait()
            publishing.cancel_scope.cancel()
    [one] = made
    assert isinstance(one, RestoredLog)
    assert one.records == 3


def noted(log: Path, topic: MirrorTopic) -> MirrorProgress:
    found = read_progress(log, topic.name)
    assert found is not None
    return found


async def test_topic_created_again_gets_all_records_again(
    topic: MirrorTopic, tmp_path: Path
) -> None:
    """The notes belong to a deleted topic, or to that of another cluster."""
    log = write_log(tmp_path / "logs" / "run-a", 10)
    first = await publisher(log.parent, topic).publish()
    noted_once = noted(log, topic)
    assert noted_once.place == TopicLocation(topic.name, topic.servers)
    another = structs.replace(topic, name=f"{topic.name}-anew")
    write_progress(log, structs.replace(noted_once, topic=another.name, offset=0))
    assert await publisher(log.parent, another).publish() == first
    [one] = await fetched(another, tmp_path / "out")
    assert content(one.folder) == content(log)


async def test_note_of_other_servers_is_checked(topic: MirrorTopic, tmp_path: Path) -> None:
    """The other servers may belong to the same cluster."""
    log = write_log(tmp_path / "logs" / "run-a", 10)
    await publisher(log.parent, topic).publish()
    mirrored = noted(log, topic)
    write_progress(log, structs.replace(mirrored, servers="elsewhere:9092"))
    assert await publisher(log.parent, topic).publish() == 0
    assert noted(log, topic) == mirrored


async def test_logs_with_the_same_name_are_in_their_clusters_folders(
    topic: MirrorTopic, tmp_path: Path
) -> None:
    clusters = ("Zm9v", "YmFy")
    for cluster in clusters:
        log = tmp_path / cluster / "run-a"
        with LogWriter.create(log, structs.replace(header(), cluster_id=cluster)) as writer:
            writer.append([event(1)])
        await publisher(log.parent, topic).publish()
    made = await fetched(topic, tmp_path / "out")
    assert {one.cluster: one.folder for one in made} == {
        cluster: tmp_path / "out" / cluster / "run-a" for cluster in clusters
    }
    assert all(content(one.folder) == content(tmp_path / one.cluster / "run-a") for one in made)
    with pytest.raises(LogExists):
        await fetched(topic, tmp_path / "out")


async def test_log_that_cannot_be_restored_fails_alone(topic: MirrorTopic, tmp_path: Path) -> None:
    """An invalid folder name, a repeated record, and a missing start."""
    write_log(tmp_path / "logs" / "run-a", 10)
    await publisher(tmp_path / "logs", topic).publish()
    places = await partitions_of(topic)
    async with consumer(topic) as reader, AIOKafkaProducer(**topic.client) as writer:
        ends = await reader.end_offsets(places)
        found = [
            message for place in places async for message in messages(reader, place, 0, ends[place])
        ]
        keys = {b"c/../out": found, b"c/..": found, b"c/": found, b"c/twice": found[:3] + found[2:]}
        for key, copied in {**keys, b"c/cut": found[1:]}.items():
            for one in copied:
                headers = list(one.headers)
                await writer.send_and_wait(topic.name, one.value, key, 0, None, headers)
    out = tmp_path / "below" / "out"
    made = await fetch(topic, out, None, ignored, ignored)
    assert [one.folder for one in made if isinstance(one, RestoredLog)] == [out / "run-a"]
    reasons = {one.log: one.reason for one in made if isinstance(one, NotFetched)}
    assert "is not a valid folder name" in reasons["c/.."]
    assert "is not a valid folder name" in reasons["c/"]
    assert "is not a valid folder name" in reasons["c/../out"]
    assert "twice" in reasons["c/twice"]
    assert "lost its beginning" in reasons["c/cut"]
    assert [one.name for one in out.iterdir()] == ["run-a"]
    assert [one.name for one in out.parent.iterdir()] == ["out"]


async def test_log_of_a_running_daemon_is_followed_to_its_end(
    topic: MirrorTopic, tmp_path: Path
) -> None:
    logs, reports, ending = tmp_path / "logs", PublisherReports(), anyio.Event()
    with LogWriter.create(logs / "run-a", header()) as writer:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(publisher(logs, topic, reports).follow, ending)
            await reports.until("published", 1)
            writer.append([event(1), event(2)], [command(1)])
            await reports.until("published", 4)
            writer.append([event(3)], [command(3)])
            await reports.until("published", 6)
            writer.close()
            await reports.until("whole", 7)
            write_log(logs / "run-b", 4)
            await reports.until("whole", 7 + 10)
            ending.set()
    out = await fetched(topic, tmp_path / "out")
    assert [content(one.folder) for one in out] == [
        content(logs / "run-a"),
        content(logs / "run-b"),
    ]


@leaves_connections
async def test_mirror_continues_after_a_kill_where_it_had_stopped(
    topic: MirrorTopic, tmp_path: Path
) -> None:
    """Records of a transaction that did not end are ignored."""
    log = write_log(tmp_path / "logs" / "run-a", 5000)
    for _ in range(4):
        reports = PublisherReports()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(publisher(log.parent, topic, reports).follow, anyio.Event())
            await reports.until("published", 1)
            tasks.cancel_scope.cancel()
    await publisher(log.parent, topic).publish()
    [one] = await fetched(topic, tmp_path / "out")
    assert one.report.is_sound
    assert content(one.folder) == content(log)


async def test_record_of_several_megabytes_is_mirrored(topic: MirrorTopic, tmp_path: Path) -> None:
    large = bytes(range(256)) * 20_000
    with LogWriter.create(tmp_path / "logs" / "run-a", header()) as writer:
        writer.append([event(1), event(2, payload=large), event(3)], [])
    await publisher(tmp_path / "logs", topic).publish()
    [one] = await fetched(topic, tmp_path / "out")
    assert content(one.folder) == content(tmp_path / "logs" / "run-a")


async def test_second_mirror_fences_the_first(topic: MirrorTopic, tmp_path: Path) -> None:
    logs, reports, ending = tmp_path / "logs", PublisherReports(), anyio.Event()
    with LogWriter.create(logs / "run-a", header()) as writer:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(publisher(logs, topic, reports).follow, ending)
            await reports.until("published", 1)
            assert await publisher(logs, topic).publish() == 0
            writer.append([event(1)], [])
            await reports.until("failed")
            assert "another process publishes the same log" in reports.events[-1].text
            await reports.until("published", 2)
            ending.set()
    await publisher(logs, topic).publish()
    [one] = await fetched(topic, tmp_path / "out")
    assert content(one.folder) == content(logs / "run-a")


async def test_another_log_of_the_same_name_is_rejected(topic: MirrorTopic, tmp_path: Path) -> None:
    write_log(tmp_path / "here" / "run-a", 10)
    write_log(tmp_path / "there" / "run-a", 20)
    await publisher(tmp_path / "here", topic).publish()
    with pytest.raises(MirrorFailed, match="a different log with the name Zm9v/run-a"):
        await publisher(tmp_path / "there", topic).publish()


async def test_changed_record_is_reported(topic: MirrorTopic, tmp_path: Path) -> None:
    """In a complete log, in one that has grown, and in one that the topic does not contain."""
    logs, reports = tmp_path / "logs", PublisherReports()
    for name, is_closed in (("run-a", True), ("run-b", False)):
        write_log(logs / name, 10, closed=is_closed)
    assert await publisher(logs, topic).publish() == 22 + 21
    write_log(logs / "run-c", 10)
    for name in ("run-a", "run-b", "run-c"):
        with closing(
            sqlite3.connect(logs / name / "00000000000000000001.refold", isolation_level=None)
        ) as file:
            file.execute("update events set payload = x'00' where seq = 4")
    write_log(logs / "run-d", 10)
    assert await publisher(logs, topic, reports).publish() == 22
    assert [Path(one.log).name for one in reports.events if one.kind == "whole"] == ["run-d"]
    damaged = [(Path(one.log).name, one.text) for one in reports.events if one.kind == "damaged"]
    assert [name for name, _ in damaged] == ["run-a", "run-b", "run-c"]
    assert all(", event 4: it was changed" in text for _, text in damaged)
    assert [(one.name, one.records) for one in await list_logs(topic, ignored, ignored)] == [
        ("run-a", 22),
        ("run-b", 21),
        ("run-d", 22),
    ]


async def test_log_that_cannot_be_restored_is_reported(topic: MirrorTopic, tmp_path: Path) -> None:
    with pytest.raises(MirrorFailed, match="there is no such topic"):
        await fetched(topic, tmp_path / "out")
    write_log(tmp_path / "logs" / "run-a", 10)
    await publisher(tmp_path / "logs", topic).publish()
    with pytest.raises(LogNotFound, match="has no log run-b"):
        await fetched(topic, tmp_path / "out", "run-b")
    [one] = await fetched(topic, tmp_path / "out", "run-a")
    with pytest.raises(LogExists):
        await fetched(topic, tmp_path / "out")
    assert one.report.is_sound
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["run-a"]


async def test_question_about_an_unknown_topic_does_not_create_it(topic: MirrorTopic) -> None:
    """Brokers with default settings create topics that a metadata request names."""
    with pytest.raises(MirrorFailed, match="there is no such topic"):
        await partitions_of(topic)
    other = structs.replace(topic, name=f"{topic.name}-other")
    await create_topic(other)
    async with consumer(topic) as reader:
        assert await reader.topics() & {topic.name, other.name} == {other.name}


async def test_unreachable_cluster_is_reported(topic: MirrorTopic, tmp_path: Path) -> None:
    nowhere = structs.replace(topic, client={"bootstrap_servers": "127.0.0.1:1"})
    write_log(tmp_path / "logs" / "run-a", 1)
    with pytest.raises(MirrorFailed, match=r"refold-log-.* at 127.0.0.1:1"):
        await publisher(tmp_path / "logs", nowhere).publish()
