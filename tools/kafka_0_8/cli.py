"""The command line: brokers, administrators, producers and consumers of the 0.8 design."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from controller.core.values import counted, format_brokers
from controller.kafka_0_8 import znodes
from controller.kafka_0_8_broker import administration
from controller.kafka_0_8_broker import status as cluster_status
from controller.kafka_0_8_broker.client import BrokerClient
from controller.kafka_0_8_broker.messages import Acks
from controller.kafka_0_8_broker.status import ClusterStatus, PartitionStatus
from controller.operator.zookeeper_client import ZooKeeperClient
from replay.explore.kafka_0_8.saved import write_logs
from replay.world.kafka_0_8.scenarios import SCENARIOS
from tools.kafka_0_8 import broker_command
from tools.kafka_0_8.options import (
    PRODUCE_SECONDS,
    REFUSED,
    AsJson,
    Brokers,
    Partition,
    Topic,
    ZooKeeper,
    broker_ids,
    perform,
)

app = typer.Typer(
    help="Kafka's 0.8 replication design, without a controller (docs/design-0.8.md). Exit status: "
    "0 done; 1 refused or failed; 2 invalid options.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("broker")(broker_command.broker)

_SCENARIOS = {one.__name__: one for one in SCENARIOS}


@app.command()
def scenario(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(_SCENARIOS)}.")],
    folder: Annotated[Path, typer.Argument(help="A folder that does not exist yet.")],
) -> None:
    """Run a scenario in a simulated cluster, and write the log of each run of each broker."""
    if name not in _SCENARIOS:
        raise typer.BadParameter(f"{name!r} is none; use one of {', '.join(_SCENARIOS)}")
    if folder.exists():
        raise typer.BadParameter(f"{folder} exists already: name another folder")
    for log in write_logs(_SCENARIOS[name]().cluster.brokers.values(), folder):
        typer.echo(log)


# Administrators ---------------------------------------------------------------------------------


def _one_or_more(brokers: str) -> tuple[int, ...]:
    ids = broker_ids(brokers)
    if not ids:
        raise typer.BadParameter("the list of brokers is empty; write ids as 1,2,3")
    return ids


@app.command()
def add_brokers(brokers: Brokers, zookeeper: ZooKeeper, as_json: AsJson = False) -> None:
    """Create the queues of new brokers. Brokers can be added before or after they start."""
    ids = _one_or_more(brokers)

    async def act(client: ZooKeeperClient) -> Any:
        added = await administration.add_brokers(client, ids)
        return {"added": added, "existed": [one for one in ids if one not in added]}

    def show(result: Any) -> str:
        named = {"added": result["added"], "have queues already": result["existed"]}
        return "; ".join(
            f"{label}: {format_brokers(some)}" for label, some in named.items() if some
        )

    perform(zookeeper, act, show, as_json=as_json)


@app.command()
def remove_brokers(brokers: Brokers, zookeeper: ZooKeeper, as_json: AsJson = False) -> None:
    """Delete the queues of brokers that have no replicas and will not come back."""
    ids = _one_or_more(brokers)

    async def act(client: ZooKeeperClient) -> Any:
        await administration.remove_brokers(client, ids)
        return {"removed": ids}

    perform(zookeeper, act, lambda _: f"removed: {format_brokers(ids)}", as_json=as_json)


@app.command()
def create(
    topic: Topic,
    replicas: Annotated[
        list[str],
        typer.Option(
            "--replicas",
            metavar="IDS",
            help="The brokers of one partition, such as 1,2,3; the first one is preferred as "
            "leader. Repeat it for each partition, from 0 on.",
        ),
    ],
    zookeeper: ZooKeeper,
    as_json: AsJson = False,
) -> None:
    """Create a topic."""
    assignment = dict(enumerate(map(broker_ids, replicas)))

    async def act(client: ZooKeeperClient) -> Any:
        await administration.create_topic(client, topic, assignment)
        return {"topic": topic, "partitions": len(assignment)}

    text = f"created: topic {topic}, partitions: {len(assignment)}"
    perform(zookeeper, act, lambda _: text, as_json=as_json)


@app.command()
def delete(topic: Topic, zookeeper: ZooKeeper, as_json: AsJson = False) -> None:
    """Delete a topic. Brokers that are down delete their records when they start."""

    async def act(client: ZooKeeperClient) -> Any:
        await administration.delete_topic(client, topic)
        return {"topic": topic}

    perform(zookeeper, act, lambda _: f"deleted: topic {topic}", as_json=as_json)


@app.command()
def reassign(
    topic: Topic,
    partition: Partition,
    brokers: Brokers,
    zookeeper: ZooKeeper,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace",
            help="Replace a reassignment of the partition that is not complete. With replicas of "
            "the ISR as IDS, it ends at once, and replicas that it has added are removed.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Move a partition to other brokers. Its leader does it; `status` shows when it is done. To
    undo it before, run it again with --replace and the earlier brokers."""
    ids = broker_ids(brokers)

    async def act(client: ZooKeeperClient) -> Any:
        await administration.reassign(client, (topic, partition), ids, replaces=replace)
        return {"topic": topic, "partition": partition, "replicas": ids}

    text = f"requested: {topic}-{partition} moves to {format_brokers(ids)}"
    perform(zookeeper, act, lambda _: text, as_json=as_json)


@app.command()
def status(zookeeper: ZooKeeper, as_json: AsJson = False) -> None:
    """Show what ZooKeeper has of brokers, queues and partitions, and which znodes are wrong. The
    exit status is 1 if a znode may not be read: the status is incomplete then."""
    found = perform(zookeeper, cluster_status.status, text_of, as_json=as_json)
    if found.denied:
        raise typer.Exit(REFUSED)


def text_of(found: ClusterStatus) -> str:
    """A status for people."""
    if not found.has_cluster:
        return "no cluster: there is no znode /brokers here; check the chroot in --zookeeper"
    return "\n".join(_lines(found))


def _lines(found: ClusterStatus) -> Iterator[str]:
    for broker, address in found.brokers.items():
        path = znodes.broker_path(int(broker))
        where = "an unreadable address" if path in found.unreadable else address
        yield f"broker {broker} at {where}"
    for broker, waiting in found.queues.items():
        is_registered = broker in found.brokers or znodes.BROKER_IDS in found.denied
        state = "" if is_registered else ", the broker is not registered"
        requests = "unreadable" if waiting is None else counted(waiting, "request")
        yield f"queue of broker {broker}: {requests}{state}"
    for one in found.partitions:
        yield _partition_line(one, found.unreadable)
    for path, text in found.problems.items():
        yield f"problem: {path} {text}"


def _partition_line(one: PartitionStatus, unreadable: Sequence[str]) -> str:
    name = (one.topic, one.partition)
    words = []
    for path, what, label, content in (
        (znodes.replicas_path(*name), "replicas", "replicas", one.replicas),
        (znodes.leader_path(*name), "leader", "leader;epoch", one.leader),
        (znodes.isr_path(*name), "ISR", "ISR;epoch", one.isr),
        (znodes.reassigned_path(*name), "", "moves to", one.reassigned_to),
    ):
        if path in unreadable:
            words.append(f"unreadable {what or 'reassignment'}")
        elif content:
            words.append(f"{label} {content}")
        elif what:
            words.append(f"no {what}")
    return f"{one.topic}-{one.partition}: {', '.join(words)}"


# Clients ----------------------------------------------------------------------------------------


@app.command()
def produce(
    topic: Topic,
    partition: Partition,
    zookeeper: ZooKeeper,
    records: Annotated[
        list[str] | None, typer.Argument(help="The records; default: the lines of standard input.")
    ] = None,
    acks: Annotated[
        int,
        typer.Option(min=-1, max=1, help="0: no response; 1: the leader has them; -1: committed."),
    ] = -1,
    timeout: Annotated[
        float,
        typer.Option(
            min=0.1,
            help="Seconds to wait for a leader, and then for its response. The default is enough "
            "after a broker was killed: at the default settings, its session ends after 6 s, "
            "LeaderElectionWaitTime is 1 s, and the next leader removes the dead replica from the "
            "ISR after KeepInSyncTime, 10 s, which it checks every 5 s.",
        ),
    ] = PRODUCE_SECONDS,
    as_json: AsJson = False,
) -> None:
    """Append records to a partition."""
    lines = records or _read_lines()
    encoded = [_encoded(place, line) for place, line in enumerate(lines, 1)]
    if not lines:
        raise typer.BadParameter("no records: give arguments, or lines on standard input")

    async def act(zookeeper_client: ZooKeeperClient) -> Any:
        async with BrokerClient(zookeeper_client, timeout) as client:
            end = await client.produce((topic, partition), encoded, cast(Acks, acks))
        return {"sent": len(lines), "end": end}

    def show(result: Any) -> str:
        count = counted(len(lines), "record")
        if result["end"] is None:
            return f"sent: {count}, without acknowledgement"
        return f"acknowledged: {count}, the last at offset {result['end'] - 1}"

    perform(zookeeper, act, show, as_json=as_json)


def _read_lines() -> list[str]:
    try:
        return [line.rstrip("\n") for line in sys.stdin]
    except UnicodeDecodeError:
        raise typer.BadParameter("standard input is not UTF-8; nothing was sent") from None


def _encoded(place: int, record: str) -> bytes:
    """The bytes of a record. Those that are not UTF-8 are surrogates in arguments and, depending
    on the locale, in standard input."""
    try:
        return record.encode()
    except UnicodeEncodeError:
        text = f"record {place} is not UTF-8; send text in UTF-8; nothing was sent"
        raise typer.BadParameter(text) from None


@app.command()
def consume(
    topic: Topic,
    partition: Partition,
    zookeeper: ZooKeeper,
    offset: Annotated[int, typer.Option(min=0, help="The first offset.")] = 0,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for a leader.")] = 10.0,
    as_json: AsJson = False,
) -> None:
    """Print the committed records of a partition, one a line."""

    async def act(zookeeper_client: ZooKeeperClient) -> Any:
        async with BrokerClient(zookeeper_client, timeout) as client:
            read = await client.consume_all((topic, partition), offset)
        return {"offset": offset, "records": [one.decode("utf-8", "replace") for one in read]}

    perform(zookeeper, act, lambda result: "\n".join(result["records"]), as_json=as_json)
