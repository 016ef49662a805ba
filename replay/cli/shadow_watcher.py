"""The process that watches ZooKeeper for `refold run --mode shadow`.

It keeps the session alive while the shadow compares. It writes observations to standard output and
closes the session when its standard input ends.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from struct import Struct as Layout
from typing import Final

import msgspec

from controller.daemon.notices import log_session
from controller.daemon.zookeeper_silence import report_silence
from controller.operator.watching import ClusterWatch
from controller.settings.settings import ZooKeeperAccess, zookeeper_of
from controller.settings.sources import RawSetting
from controller.structured_log import MessageForm, configure
from controller.zookeeper.observations import Observation, WatchLost
from replay.errors import ReplayError

_LENGTH: Final = Layout(">I")
_CHUNK_BYTES: Final = 1 << 20
_END_SECONDS: Final = 20.0
_MEANWHILE: Final = "the shadow sees no changes"

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Observation)


class Watcher:
    """The process, as its parent sees it."""

    def __init__(
        self, connect: str, timeout_ms: int, messages: MessageForm, config: Path | None = None
    ) -> None:
        """`connect` is as in zookeeper.connect, `messages` as in refold.messages. The process reads
        how sessions are secured from the file of settings and the environment: its command line
        shows no secret."""
        options = [str(config)] if config is not None else []
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, connect, str(timeout_ms), messages, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None, "it is a pipe"
        self._output = self._process.stdout.fileno()
        os.set_blocking(self._output, False)
        self._data = b""
        self._put_back: list[Observation] = []
        self.fault = ""
        """Why the connection was lost."""

    def put_back(self, observations: Sequence[Observation]) -> None:
        """Return these at the next call of `pull`."""
        self._put_back += observations

    def pull(self) -> Sequence[Observation]:
        """The observations since the last call. Raises ReplayError if the process has ended."""
        found, self._put_back = self._put_back, []
        while chunk := self._read():
            self._data += chunk
        at = 0
        while len(self._data) - at >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._data, at)
            if len(self._data) - at - _LENGTH.size < size:
                break
            at += _LENGTH.size
            one = _decoder.decode(self._data[at : at + size])
            self.fault = one.cause if isinstance(one, WatchLost) else self.fault
            found.append(one)
            at += size
        self._data = self._data[at:]
        if not found and self._process.poll() is not None:
            raise ReplayError("the process that watches ZooKeeper has ended; start refold again")
        return found

    def close(self) -> None:
        """Close the session, and wait until the process has ended."""
        assert self._process.stdin is not None, "it is a pipe"
        self._process.stdin.close()
        end = time.monotonic() + _END_SECONDS
        while self._process.poll() is None and time.monotonic() < end:
            # Its output must not block it.
            self._read()
            time.sleep(0.02)
        self._process.kill()
        self._process.wait()

    def _read(self) -> bytes:
        try:
            return os.read(self._output, _CHUNK_BYTES)
        except BlockingIOError:
            return b""


def _main(connect: str, timeout_ms: str, messages: MessageForm, config: str = "") -> None:
    configure(messages)
    # Ctrl-C is sent to all processes of a terminal; the parent ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    given = [RawSetting("zookeeper.connect", connect, "--zookeeper")]
    access = zookeeper_of(given, os.environ, Path(config) if config else None)
    asyncio.run(_watch(access, int(timeout_ms)))


async def _watch(access: ZooKeeperAccess, timeout_ms: int) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    output = sys.stdout.buffer

    def observe(one: Observation) -> None:
        data = _encoder.encode(one)
        output.write(_LENGTH.pack(len(data)) + data)
        loop.call_soon(output.flush)

    def ended() -> None:
        if not os.read(sys.stdin.fileno(), _CHUNK_BYTES):
            loop.remove_reader(sys.stdin.fileno())
            stopped.set()

    loop.add_reader(sys.stdin.fileno(), ended)
    log = partial(log_session, meanwhile=f"{_MEANWHILE} meanwhile")
    watch = ClusterWatch(access.connect, timeout_ms, observe, access.security, log)
    reporting = asyncio.create_task(report_silence(lambda: watch.status, meanwhile=_MEANWHILE))
    await watch.run(stopped)
    reporting.cancel()


if __name__ == "__main__":
    _main(*sys.argv[1:])  # type: ignore[arg-type]
