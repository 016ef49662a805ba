"""The daemon's mirror, a process of its own: `MirrorTask` as one line of JSON on standard input, what
happens (`publishing.MirrorEvent`) as lines of JSON on standard output. The end of its input asks it to
publish what is written by then and to end.
"""

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
from eventstore.mirror.topic import Topic

_SHUTDOWN_S: Final = 10.0
"""So long it goes on after it was asked to end."""
MIRROR_CONFIG: Final = "refold.mirror.client.config"
_NICENESS: Final = 10


class MirrorTask(Struct, frozen=True):
    """The logs below `parent` go to `topic` at `servers`; `config`: settings of a Kafka client."""

    parent: str
    topic: str
    servers: str
    config: str | None = None


def main() -> int:
    """1 where it cannot go on."""
    # The daemon goes before.
    os.nice(_NICENESS)
    # What it would say at each try is told once, as what failed.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    task = msgspec.json.decode(sys.stdin.buffer.readline(), type=MirrorTask)
    try:
        return anyio.run(_run, task)
    except SettingsError as error:
        _report(MirrorEvent("failed", task.parent, "; ".join(error.problems)))
        return 1


async def _run(task: MirrorTask) -> int:
    options = client_options(Path(task.config) if task.config else None, MIRROR_CONFIG)
    topic = Topic(task.topic, {**options, "bootstrap_servers": task.servers})
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
    # A daemon that was killed listens no more; what it logged is published all the same.
    with suppress(BrokenPipeError):
        os.write(sys.stdout.fileno(), msgspec.json.encode(event) + b"\n")


if __name__ == "__main__":
    sys.exit(main())
