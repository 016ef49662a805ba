"""Notifies systemd of the daemon's state, by the protocol of sd_notify(3).

Datagrams to a Unix socket are ten lines; the libraries for them are unmaintained, or need the
headers of libsystemd to be built. Without NOTIFY_SOCKET nothing is sent.
"""

import logging
import os
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

import anyio

logger = logging.getLogger(__name__)

_STATUS_SECONDS: Final = 10.0
"""How often the status is sent without a watchdog."""


class ServiceManager:
    """The service manager that started this process, if there is one."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        self._is_faulty = False
        self._watchdog_s = 0.0
        with suppress(ValueError):
            is_meant = int(environment.get("WATCHDOG_PID") or os.getpid()) == os.getpid()
            if is_meant:
                self._watchdog_s = int(environment.get("WATCHDOG_USEC", "0")) / 1e6

    def ready(self) -> None:
        """The start, or a reload, is done."""
        self._send("READY=1")

    def reloading(self) -> None:
        """A reload of the settings begins."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self, status: str) -> None:
        """An orderly end begins."""
        self._send("STOPPING=1", f"STATUS={status}")

    async def keep_alive(self, status: Callable[[], str]) -> None:
        """Report that the event loop works, three times in each WATCHDOG_USEC, until cancelled.
        `status` is what `systemctl status` shows."""
        if not self._address:
            return
        while True:
            self._send("WATCHDOG=1", f"STATUS={status()}")
            await anyio.sleep(self._watchdog_s / 3 or _STATUS_SECONDS)

    def _send(self, *lines: str) -> None:
        if not self._address:
            return
        # A name that begins with @ is abstract: its first byte is zero.
        address = self._address.replace("@", "\0", 1) if self._address[0] == "@" else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as one:
                one.sendto("\n".join(lines).encode(), address)
            self._is_faulty = False
        except OSError as error:
            if not self._is_faulty:
                text = "cannot notify the service manager at %s: %s"
                logger.warning(text, self._address, error.strerror or error)
            self._is_faulty = True
