"""Kafka's quotas of addresses in /config/ips, as the daemon reads them."""

import asyncio
from collections.abc import Mapping

import anyio
import pytest

from controller.api.messages import AddressRates
from controller.core import znodes
from controller.core.commands import CommandId, ReadChildren, ReadZnodes
from controller.core.events import ChildrenRead, Event, ZnodesRead
from controller.core.operations import CONNECTION_LOSS, NO_NODE, OK
from controller.daemon import followed_settings
from controller.daemon.address_rates import RATE, AddressRateReader
from controller.daemon.session_reads import SessionReads


class Session:
    """Answers reads below /config/ips. Without content, there is no connection."""

    def __init__(self, content: Mapping[str, bytes] | None) -> None:
        self.content = content
        self.lost_after_lists = False
        self.reads = SessionReads(self._submit, self._other)
        self.others: list[Event] = []
        self._lists = 0
        self._listed = anyio.Event()

    async def was_read(self) -> None:
        """Wait until all of the present content was read and applied, if it can be read."""
        until = self._lists + 2
        with anyio.fail_after(10):
            while self._lists < until:
                await self._listed.wait()

    def _submit(self, id: CommandId, command: ReadZnodes | ReadChildren) -> None:
        asyncio.get_running_loop().call_soon(self.reads.receive, self._answer(id, command), "")

    def _other(self, event: Event, channel: str) -> None:
        self.others.append(event)

    def _answer(self, id: CommandId, command: ReadZnodes | ReadChildren) -> Event:
        known = self.content
        match command:
            case ReadChildren():
                self._lists += 1
                self._listed.set()
                self._listed = anyio.Event()
                error = CONNECTION_LOSS if known is None else OK if known else NO_NODE
                return ChildrenRead(id, error, sorted(known or ()))
            case ReadZnodes(paths=(path,)):
                data = (known or {}).get(path.rpartition("/")[2])
                error = OK if data is not None else NO_NODE
                if known is None or self.lost_after_lists:
                    error, data = CONNECTION_LOSS, None
                return ZnodesRead(id, 0, [error], [data], [0], [0], [0], [0])


def quota(rate: str) -> bytes:
    return znodes.write_config({RATE: rate})


class AppliedSettings:
    """The messages that the front receives."""

    def __init__(self) -> None:
        self.rates: list[AddressRates] = []
        self._more = anyio.Event()

    def __call__(self, rates: AddressRates) -> None:
        self.rates.append(rates)
        self._more.set()
        self._more = anyio.Event()

    async def until(self, count: int) -> None:
        with anyio.fail_after(5):
            while len(self.rates) < count:
                await self._more.wait()


async def test_changed_quotas_of_addresses_are_applied(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(followed_settings, "READ_EVERY_SECONDS", 0.01)
    session, applied = Session({}), AppliedSettings()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(AddressRateReader(session.reads, applied).keep)
        session.content = {
            "10.0.0.1": quota("5"),
            "%3A%3A1": quota("0"),
            "<default>": quota("20"),
            "10.0.0.2": znodes.write_config({}),
            "10.0.0.3": quota("-1"),
            "no host": quota("1"),
        }
        await applied.until(1)
        session.content = None
        await session.was_read()
        session.content = {"<default>": quota("7")}
        await applied.until(2)
        tasks.cancel_scope.cancel()
    assert applied.rates[0] == AddressRates({"10.0.0.1": 5, "0:0:0:0:0:0:0:1": 0}, 20)
    assert applied.rates[1] == AddressRates({}, 7)
    assert session.others == []
    warned = [one.getMessage() for one in caplog.records]
    assert len(warned) == 2, "each problem is logged once"
    assert "/config/ips/10.0.0.3: connection_creation_rate: must be" in warned[0]
    assert "the host has no address" in warned[1]


@pytest.mark.parametrize("after_list", [False, True])
async def test_quotas_that_were_read_count_while_zookeeper_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, after_list: bool
) -> None:
    monkeypatch.setattr(followed_settings, "READ_EVERY_SECONDS", 0.01)
    session, applied = Session({"<default>": quota("7")}), AppliedSettings()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(AddressRateReader(session.reads, applied).keep)
        await applied.until(1)
        if after_list:
            session.lost_after_lists = True
        else:
            session.content = None
        await session.was_read()
        tasks.cancel_scope.cancel()
    assert applied.rates == [AddressRates({}, 7)]


async def test_events_of_other_commands_are_passed_on() -> None:
    session = Session({})
    event = ChildrenRead(CommandId(3, 0), OK, [])
    session.reads.receive(event, "zk")
    assert session.others == [event]
