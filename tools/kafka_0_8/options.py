"""Options and arguments that several commands have, and the form of results and errors."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final

import msgspec
import typer

from controller.core.errors import CoreError
from controller.kafka_0_8_broker.errors import Broker08Error
from controller.operator.errors import OperatorError
from controller.operator.zookeeper_client import ZooKeeperClient
from controller.zookeeper.errors import BadConnectString
from controller.zookeeper.servers import ConnectString, parse_connect_string

REFUSED: Final = 1
SESSION_TIMEOUT_MS: Final = 10_000


def connect_string(text: str) -> ConnectString:
    """A parser for typer."""
    try:
        return parse_connect_string(text)
    except BadConnectString as error:
        raise typer.BadParameter(str(error)) from None


def topic_name(text: str) -> str:
    """A parser for typer. A topic may have any name that ZooKeeper allows."""
    if text in ("", ".", "..") or "/" in text:
        raise typer.BadParameter(f"{text!r} is no name of a topic")
    return text


def broker_ids(text: str) -> tuple[int, ...]:
    """Broker ids such as 1,2,3. An empty list of replicas is rejected later, with the name of the
    partition."""
    try:
        ids = tuple(map(int, text.split(","))) if text.strip() else ()
    except ValueError:
        ids = (-1,)
    if any(not 0 <= one < 2**31 for one in ids):
        raise typer.BadParameter(f"{text!r} is no list of broker ids; write them as 1,2,3")
    return ids


ZooKeeper = Annotated[
    ConnectString,
    typer.Option(
        "--zookeeper",
        metavar="HOST:PORT,.../CHROOT",
        parser=connect_string,
        envvar="REFOLD_ZOOKEEPER",
        help="The ZooKeeper servers, as in Kafka's zookeeper.connect.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Topic = Annotated[str, typer.Argument(help="A topic.", parser=topic_name)]
Partition = Annotated[int, typer.Argument(min=0, max=2**31 - 1, help="A partition number.")]
PRODUCE_SECONDS: Final = 30.0
"""The default of `produce --timeout`: the leader was killed, and followers that died with it are
still in the ISR."""
Brokers = Annotated[str, typer.Argument(metavar="IDS", help="Broker ids, such as 1,2,3.")]


def perform(
    zookeeper: ConnectString,
    action: Callable[[ZooKeeperClient], Awaitable[Any]],
    show: Callable[[Any], str],
    *,
    as_json: bool,
) -> Any:
    """Run an action in a ZooKeeper session, print its result, and return it. A failure is one line
    on standard error, or the field `error` of the JSON object; the exit status is then 1."""

    async def run() -> Any:
        async with ZooKeeperClient(zookeeper, SESSION_TIMEOUT_MS) as client:
            return await action(client)

    try:
        result = asyncio.run(run())
    except (CoreError, OperatorError, Broker08Error) as error:
        if as_json:
            typer.echo(msgspec.json.encode({"error": str(error)}).decode())
        else:
            typer.echo(f"kafka_0_8: {error}", err=True)
        raise typer.Exit(REFUSED) from None
    text = msgspec.json.encode(result).decode() if as_json else show(result)
    if text:
        typer.echo(text)
    return result
