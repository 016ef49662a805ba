"""How the daemon carries out single commands, which a scripted fold issues."""

import logging
from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

import controller.daemon.draws
from controller.core.commands import (
    CancelTimer,
    Command,
    CommandId,
    DrawTopicIds,
    Issued,
    Notice,
    Reason,
    StartTimer,
    Stop,
)
from controller.core.configuration import Configuration
from controller.core.controller import Controller
from controller.core.events import Event, Recorded, SessionConnected, TimerFired, TopicIdsDrawn
from tests.controller.daemon.peers import DaemonHarness

Script = list[tuple[type[Event], list[list[Command]]]]
"""The kinds of event that get commands, each once and in this order, with slices of commands."""

BEGIN = SessionConnected


class ScriptedFold:
    """Issues the commands of the script's next line when its event arrives."""

    term = 0
    is_idle = True
    controller = Controller(Configuration(broker_id=100))

    def __init__(self, script: Script) -> None:
        self.seen: list[Event] = []
        self._script = script

    def apply(self, recorded: Recorded) -> Iterator[list[Issued]]:
        """As the real fold."""
        self.seen.append(recorded.event)
        ordinal = 0
        if self._script and isinstance(recorded.event, self._script[0][0]):
            for commands in self._script.pop(0)[1]:
                issued = []
                for command in commands:
                    id = CommandId(recorded.seq, ordinal)
                    issued.append(Issued(id, 0, command, Reason("script")))
                    ordinal += 1
                yield issued
        yield []


async def play(folder: Path, script: Script) -> list[Event]:
    """The events that reached the fold until it stopped."""
    fold = ScriptedFold(script)
    harness = DaemonHarness(folder / "log", fold=fold)
    with anyio.fail_after(10):
        await harness.run()
    return fold.seen


async def test_timer_fires_once(tmp_path: Path) -> None:
    seen = await play(
        tmp_path,
        [
            (BEGIN, [[StartTimer("a", 10), StartTimer("end", 100)]]),
            (TimerFired, [[]]),
            (TimerFired, [[Stop("")]]),
        ],
    )
    assert [one for one in seen if isinstance(one, TimerFired)] == [
        TimerFired("a"),
        TimerFired("end"),
    ]


async def test_timer_is_restarted_or_cancelled(tmp_path: Path) -> None:
    commands: list[Command] = [
        StartTimer("restarted", 10),
        StartTimer("restarted", 60),
        StartTimer("cancelled", 10),
        CancelTimer("cancelled"),
        CancelTimer("never started"),
        StartTimer("first", 30),
    ]
    script: Script = [(BEGIN, [commands]), (TimerFired, [[]]), (TimerFired, [[Stop("")]])]
    seen = await play(tmp_path, script)
    assert [one for one in seen if isinstance(one, TimerFired)] == [
        TimerFired("first"),
        TimerFired("restarted"),
    ]


async def test_timer_may_be_started_again_after_it_has_fired(tmp_path: Path) -> None:
    again: list[list[Command]] = [[StartTimer("a", 5)]]
    seen = await play(
        tmp_path,
        [(BEGIN, again), (TimerFired, again), (TimerFired, [[Stop("")]])],
    )
    assert seen.count(TimerFired("a")) == 2


async def test_drawn_topic_ids_are_not_reserved_by_kafka(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = iter([bytes(16), b"\xf8" + bytes(15), bytes(range(16)), bytes(range(1, 17))])
    monkeypatch.setattr(controller.daemon.draws, "token_bytes", lambda count: next(drawn))
    script: Script = [(BEGIN, [[DrawTopicIds(2)]]), (TopicIdsDrawn, [[Stop("")]])]
    seen = await play(tmp_path, script)
    (outcome,) = [one for one in seen if isinstance(one, TopicIdsDrawn)]
    assert outcome.topic_ids == [bytes(range(16)), bytes(range(1, 17))]
    assert outcome.command == CommandId(1, 0)


async def test_notice_is_logged_with_its_cause(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    notice = Notice("warning", "some_code", "/some/znode", "100% wrong")
    with caplog.at_level(logging.INFO):
        await play(tmp_path, [(BEGIN, [[notice, Stop("")]])])
    (logged,) = [one for one in caplog.records if one.getMessage() == "100% wrong"]
    assert logged.levelname == "WARNING"
    fields = {"code": "some_code", "subject": "/some/znode", "event": 1, "term": 0}
    assert logged.fields == fields  # type: ignore[attr-defined]


async def test_tasks_run_between_slices_of_a_decision(tmp_path: Path) -> None:
    """The connection must be able to ping during a long decision."""
    turns = 0

    class Counting(ScriptedFold):
        def apply(self, recorded: Recorded) -> Iterator[list[Issued]]:
            for commands in super().apply(recorded):
                seen_at.append(turns)
                yield commands

    seen_at: list[int] = []
    fold = Counting([(BEGIN, [[], [], [], [Stop("")]])])
    harness = DaemonHarness(tmp_path / "log", fold=fold)

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(count)
        await harness.run()
        tasks.cancel_scope.cancel()
    assert seen_at == sorted(set(seen_at))
