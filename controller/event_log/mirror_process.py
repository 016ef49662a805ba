"""The daemon's mirror process. It reads a `MirrorTask` as one line of JSON from standard input
and reports `publishing.MirrorEvent`s as lines of JSON on standard output. When its input ends,
it publishes what is written so far and exits."""

import logging
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio
import msgspec
from anyio.to_thread import run_sync
from msgspec import Struct

from controller.settings.client_options import client_options
from controller.settings.errors import SettingsError
from eventstore.errors import LogError
from eventstore.mirror.publishing import MirrorEvent, Publisher
from eventstore.mirror.topic import MirrorTopic

_SHUTDOWN_S: Final = 10.0
"""How long the process may continue after its input has ended."""
MIRROR_CONFIG: Final = "refold.mirror.client.config"
_NICENESS: Final = 10


class MirrorTask(Struct, frozen=True):
    """Publish the logs below `parent` to `topic` at `servers`. `config` is a file with Kafka
    client settings."""

    parent: str
    topic: str
    servers: str
    config: str | None = None


def main() -> int:
    """Run the mirror; return the exit status, 1 if it cannot continue."""
    # The daemon has priority over the mirror.
    os.nice(_NICENESS)
    # aiokafka logs each failed attempt; the failure is reported once, as a "failed" event.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    task = msgspec.json.decode(sys.stdin.buffer.readline(), type=MirrorTask)
    try:
        return anyio.run(_run_mirror, task)
    except SettingsError as error:
        _report(MirrorEvent("failed", task.parent, "; ".join(error.problems)))
        return 1


async def _run_mirror(task: MirrorTask) -> int:
    options = client_options(Path(task.config) if task.config else None, MIRROR_CONFIG)
    topic = MirrorTopic(task.topic, {**options, "bootstrap_servers": task.servers})
    publisher = Publisher(Path(task.parent), topic, _report)
    ending = anyio.Event()
    status = 0
    async with anyio.create_task_group() as tasks:

        async def follow() -> None:
            nonlocal status
            try:
                await publisher.follow(ending)
            except LogError as error:
                _report(MirrorEvent("failed", task.parent, str(error)))
                status = 1
            tasks.cancel_scope.cancel()

        tasks.start_soon(follow)
        await run_sync(sys.stdin.buffer.read, abandon_on_cancel=True)
        ending.set()
        tasks.cancel_scope.deadline = anyio.current_time() + _SHUTDOWN_S
    return status


def _report(event: MirrorEvent) -> None:
    # After the daemon was killed, the pipe has no reader; publishing continues.
    with suppress(BrokenPipeError):
        os.write(sys.stdout.fileno(), msgspec.json.encode(event) + b"\n")


if __name__ == "__main__":
    sys.exit(main())
