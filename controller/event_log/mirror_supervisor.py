"""The mirror of the daemon's logs: a process of its own, so that it takes none of the fold's time.

What it publishes and where to is `eventstore.mirror`'s; here it is started, started again where it
ends, and its words become messages. Nothing that happens to it changes anything for the controller.
"""

import asyncio
import logging
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import msgspec

from controller.event_log.mirror_process import MirrorTask
from eventstore.mirror.publishing import MirrorEvent

logger = logging.getLogger(__name__)

_SHUTDOWN_S: Final = 15.0
"""At the end it has a little longer than it takes itself."""
_RESTART_S: Final = 5.0

_decode: Final = msgspec.json.Decoder(MirrorEvent).decode


@asynccontextmanager
async def mirrored(task: MirrorTask | None) -> AsyncIterator[None]:
    """While the block runs, logs are mirrored, if they are to be.

    At its end what is written by then is published, as far as that goes in a few seconds. What is
    left then, the next run publishes."""
    if task is None:
        yield
        return
    supervisor = _Supervisor(task)
    running = asyncio.create_task(supervisor.run())
    try:
        yield
    finally:
        supervisor.end()
        with suppress(TimeoutError):
            await asyncio.wait_for(running, _SHUTDOWN_S)


class _Supervisor:
    """Keeps one mirror process running."""

    def __init__(self, task: MirrorTask) -> None:
        self._line = msgspec.json.encode(task) + b"\n"
        self._ending = asyncio.Event()
        self._process: Process | None = None
        self._last_warning = ""

    def end(self) -> None:
        """Ask for the end."""
        self._ending.set()
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    async def run(self) -> None:
        """Until the end was asked for and the process has ended; ended itself, it ends the process
        at once."""
        while not self._ending.is_set():
            try:
                await self._one_process()
            except OSError as error:
                self._warn(f"the mirror's process cannot be started: {error}")
            if not self._ending.is_set():
                self._warn(f"the mirror's process has ended: started again in {_RESTART_S:g} s")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), _RESTART_S)

    async def _one_process(self) -> None:
        command = (sys.executable, "-m", "controller.event_log.mirror_process")
        process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
        self._process = process
        try:
            assert process.stdin is not None, "it has pipes"
            assert process.stdout is not None, "it has pipes"
            process.stdin.write(self._line)
            if self._ending.is_set():
                process.stdin.close()
            async for line in process.stdout:
                self._log_event(line)
            await process.wait()
        finally:
            self._process = None
            with suppress(ProcessLookupError):
                process.kill()

    def _log_event(self, line: bytes) -> None:
        try:
            event = _decode(line)
        except msgspec.DecodeError:
            return
        fields = {"log": event.log}
        match event.kind:
            case "failed":
                self._warn(f"the mirror is behind, and tries again: {event.text}")
            case "published":
                if self._last_warning:
                    logger.info("the mirror publishes again", extra={"fields": fields})
                self._last_warning = ""
            case "whole":
                fields["records"] = str(event.records)
                logger.info("a log is mirrored whole", extra={"fields": fields})
            case _:
                logger.info("mirror: %s", event.text)

    def _warn(self, text: str) -> None:
        """Once, however often it happens."""
        if text != self._last_warning:
            logger.warning("%s", text)
        self._last_warning = text
