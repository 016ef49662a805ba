"""`python -m tools.kafka_0_8 broker`: runs one broker."""

import asyncio
import logging
from pathlib import Path
from typing import Annotated, Literal

import typer

from controller import structured_log
from controller.core.errors import ZnodeError
from controller.daemon.errors import DaemonError
from controller.kafka_0_8 import znodes
from controller.kafka_0_8.configuration import BrokerConfiguration
from controller.kafka_0_8_broker.errors import Broker08Error
from controller.kafka_0_8_broker.startup import Broker08Settings, run_broker
from eventstore.errors import LogError
from tools.kafka_0_8.options import REFUSED, ZooKeeper

logger = logging.getLogger(__name__)

Milliseconds = typer.Option(min=1, max=2**31 - 1)
_DEFAULTS = BrokerConfiguration(broker_id=0, host="", port=0)


def broker(
    broker_id: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="The broker's id.")],
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port to listen on.")],
    data: Annotated[
        Path, typer.Option(help="The folder for records, high watermarks and event logs.")
    ],
    zookeeper: ZooKeeper,
    host: Annotated[
        str, typer.Option(help="The host to listen on, which is registered.")
    ] = "127.0.0.1",
    session_timeout_ms: Annotated[int, Milliseconds] = 6000,
    leader_election_wait_time_ms: Annotated[
        int, Milliseconds
    ] = _DEFAULTS.leader_election_wait_time_ms,
    keep_in_sync_time_ms: Annotated[int, Milliseconds] = _DEFAULTS.keep_in_sync_time_ms,
    checkpoint_interval_ms: Annotated[int, Milliseconds] = _DEFAULTS.checkpoint_interval_ms,
    retry_ms: Annotated[int, Milliseconds] = _DEFAULTS.retry_ms,
    log_format: Annotated[
        str, typer.Option(help="The form of log messages: text, json, or auto.")
    ] = "auto",
) -> None:
    """Run a broker until SIGTERM or Ctrl-C.

    DATA/events has one event log for each run, which `refold replay` reads. Exit status: 0 stopped;
    1 the broker cannot start or continue; 2 invalid options.
    """
    structured_log.configure(_form(log_format), "tools")
    try:
        znodes.read_address("the registration", f"{host}:{port}".encode())
    except (UnicodeError, ZnodeError):
        text = f"{host!r} cannot be registered: use a host name, or an IPv4 address"
        raise typer.BadParameter(text, param_hint="--host") from None
    configuration = BrokerConfiguration(
        broker_id=broker_id,
        host=host,
        port=port,
        leader_election_wait_time_ms=leader_election_wait_time_ms,
        keep_in_sync_time_ms=keep_in_sync_time_ms,
        checkpoint_interval_ms=checkpoint_interval_ms,
        retry_ms=retry_ms,
    )
    settings = Broker08Settings(configuration, zookeeper, session_timeout_ms, data)
    try:
        asyncio.run(run_broker(settings))
    except (Broker08Error, DaemonError, LogError) as error:
        logger.error("gave up: %s", error)
        raise typer.Exit(REFUSED) from None
    except Exception:
        logger.exception("gave up because of a bug in refold; please report it")
        raise typer.Exit(REFUSED) from None


def _form(text: str) -> Literal["auto", "json", "text"]:
    match text:
        case "auto" | "json" | "text":
            return text
        case _:
            raise typer.BadParameter(f"--log-format {text}: use text, json or auto")
