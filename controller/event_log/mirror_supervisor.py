"""Supervises the process that mirrors the daemon's logs to a Kafka topic.

A separate process is used so that mirroring takes no time from the fold. `eventstore.mirror`
publishes; this module starts and restarts the process and logs its events. Failures of the mirror
do not affect the controller.
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
"""A little longer than the mirror process takes to shut down."""
_RESTART_S: Final = 5.0

_decode: Final = msgspec.json.Decoder(MirrorEvent).decode


@asynccontextmanager
async def mirrored(task: MirrorTask | None) -> AsyncIterator[None]:
    """Mirror logs while the block runs, if a task is given.

    At the end of the block, records that are already written are published for up to a few seconds.
    The next run publishes the rest.
    """
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
        """Ask the process to exit."""
        self._ending.set()
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    async def run(self) -> None:
        """Restart the process until `end` is called and the process has exited. If this task is
        cancelled, the process is killed at once."""
        while not self._ending.is_set():
            try:
                await self._run_process()
            except OSError as error:
                self._warn(f"cannot start the mirror process: {error}")
            if not self._ending.is_set():
                self._warn(f"the mirror process exited and is restarted in {_RESTART_S:g} s")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), _RESTART_S)

    async def _run_process(self) -> None:
        command = (sys.executable, "-m", "controller.event_log.mirror_process")
        process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
        self._process = process
        try:
            assert process.stdin is not None, "started with pipes"
            assert process.stdout is not None, "started with pipes"
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
                self._warn(f"the mirror failed and retries: {event.text}")
            case "published":
                if self._last_warning:
                    logger.info("the mirror publishes again", extra={"fields": fields})
                self._last_warning = ""
            case "whole":
                fields["records"] = str(event.records)
                logger.info("the log is mirrored completely", extra={"fields": fields})
            case _:
                logger.info("mirror: %s", event.text)

    def _warn(self, text: str) -> None:
        """Log a warning, unless it repeats the previous one."""
        if text != self._last_warning:
            logger.warning("%s", text)
        self._last_warning = text
