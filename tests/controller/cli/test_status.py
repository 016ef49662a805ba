"""`refold status` with status sockets that answer, do not answer, or are left over."""

import json
import os
import socket
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from msgspec import structs

from controller.daemon.status_socket import StatusSocket
from controller.operator.daemon_status import (
    DaemonStatus,
    DecisionStatus,
    EventStatus,
    LogStatus,
    QueueStatus,
    RoleAtStart,
    SessionStatus,
    StandbyStatus,
    TermStatus,
)
from tests.controller.cli.daemon_statuses import ACTIVE, IDLE, WAITING, serving
from tools.lab.refold import run

ROOT = Path(__file__).parents[3]
IN_WORDS = """\
refold 0.1.0, broker id 1000, process 4711, running since 2026-11-21T20:00:00.500Z (3:05:06)
role: active, term 7 since 2026-11-21T20:00:01.000Z
queue: 12 controller events (TopicChange, CreateTopics, ...); in progress: BrokerChange; \
3 events wait for the log
event lag: 1.5 ms; the last event, 81 (znodes_read, 2026-11-21T23:05:06.598Z), was folded 0.7 ms \
after its arrival
last decision: write_znodes 2 operations (offline partition leader election), command 71.0, \
2026-11-21T23:05:01.000Z
standby: host-2, process 815, broker id 1000, running since 2026-11-21T20:00:03.000Z, refold 0.1.0 \
(core ab12)
standby: host-3, process 816, broker id 1000, running since 2026-11-21T20:00:04.000Z, refold 0.2.0 \
(core cd34)
log: /logs/run-1, 81 events, 3.0 MiB
ZooKeeper: session 0x1f, connected to zk1:2181, heard 40 ms ago, timeout 18000 ms
"""


async def shown(folder: Path, status: DaemonStatus, *options: str) -> str:
    """The output of the command about a daemon with this status."""
    with serving(folder, status) as served:
        await served.open()
        code, output = await run("status", str(folder), *options)
    assert code == 0, output
    return output


async def test_status_of_an_active_daemon_is_shown_in_sentences(folder: Path) -> None:
    assert await shown(folder, ACTIVE) == IN_WORDS


ON_THE_PAGE = structs.replace(
    ACTIVE,
    version="0.2.0",
    process=7210,
    started="2026-11-26T09:53:57.744Z",
    time="2026-11-26T10:04:01.744Z",
    term=4,
    term_since="2026-11-26T10:03:58.211Z",
    last_term=TermStatus(2, 233, "2026-11-26T10:03:51.930Z", "the ZooKeeper session is over", 58.9),
    queue=QueueStatus([], 0, [], 0),
    event_lag_ms=0,
    last_event=EventStatus(43, "2026-11-26T10:03:59.267Z", "broker_answered", 11.1),
    last_decision=DecisionStatus(
        "32.0",
        "2026-11-26T10:03:58.655Z",
        4,
        "write_znodes",
        "/admin/preferred_replica_election",
        "preferred replica election",
    ),
    standbys=[
        StandbyStatus(
            "refold2", 6412, 1000, "0.2.0", "5e1f0c3d9a7b44d2a1c09e83", "2026-11-26T10:03:59.106Z"
        )
    ],
    log=LogStatus("/var/lib/refold/run-20261126T100357.937305290Z", 43, 64 << 10),
    zookeeper=SessionStatus("0x100018fb1280004", True, "127.0.0.1:31424", 4000, 617, ""),
)
"""The daemon of the first example of docs/status.md."""


async def test_example_of_the_page_is_what_the_command_prints(folder: Path) -> None:
    page = (ROOT / "docs/status.md").read_text(encoding="utf-8")
    example = page.partition("    $ refold status /var/lib/refold\n")[2].partition("\n\n")[0]
    assert example.split() == (await shown(folder, ON_THE_PAGE)).split()


async def test_active_daemon_without_standbys_says_whether_it_knows(folder: Path) -> None:
    assert "standbys: none\n" in await shown(folder, structs.replace(ACTIVE, standbys=[]))
    unknown = structs.replace(ACTIVE, standbys=None)
    for is_standby, fault, why in (
        (False, "", "the daemon runs without --standby"),
        (True, "no connection to zk1:2181: refused", "no connection to zk1:2181: refused"),
        (True, "", "the daemon is still reading them from ZooKeeper"),
        (None, "", "the daemon runs without --standby, or has no connection to ZooKeeper"),
    ):
        status = structs.replace(unknown, is_standby=is_standby, standbys_fault=fault)
        assert f"standbys: not known: {why}\n" in await shown(folder, status)


@pytest.mark.parametrize(
    ("is_standby", "line"),
    [
        (False, "role: not controller, runs without --standby\n"),
        (True, "role: standby\n"),
        (None, "role: standby\n"),
    ],
)
async def test_role_of_a_standby_says_whether_it_follows_the_cluster(
    is_standby: bool | None, line: str, folder: Path
) -> None:
    """A daemon of 0.2.0 does not report it."""
    assert line in await shown(folder, structs.replace(IDLE, is_standby=is_standby))


async def test_daemon_without_a_session_says_that_it_decides_nothing(folder: Path) -> None:
    output = await shown(folder, IDLE)
    assert "role: standby\n" in output
    assert "ZooKeeper: no session: no connection to zk1:2181: refused; nothing is" in output
    ended = "term 7 ended at 2026-11-21T23:05:01.000Z (event 233): the ZooKeeper session is over"
    assert f"{ended}; ZooKeeper had not answered for 58.9 s\n" in output
    assert "standby: " not in output
    assert "standbys: " not in output
    assert "last decision: none\n" in output
    silent = SessionStatus("", False, "", 18000, 22_015, "no connection to zk1:2181: refused")
    output = await shown(folder, structs.replace(IDLE, zookeeper=silent))
    assert "ZooKeeper: no session, last heard 22015 ms ago: no connection to" in output
    lost = structs.replace(
        IDLE, zookeeper=SessionStatus("0x1f", False, "zk1:2181", 18000, 900, "the server closed")
    )
    output = await shown(folder, lost)
    assert "session 0x1f, not connected: the server closed; nothing is decided" in output
    assert "the session ends after 18000 ms of silence (now 900 ms)" in output


async def test_daemon_of_release_0_2_is_shown(folder: Path) -> None:
    document = json.loads(msgspec.json.encode(ACTIVE))
    del document["last_term"]
    with StatusSocket(folder, None, lambda: msgspec.json.encode(document)) as served:
        await served.open()
        assert await run("status", str(folder)) == (0, IN_WORDS)


async def test_short_silence_before_the_end_of_a_term_is_not_named(folder: Path) -> None:
    assert IDLE.last_term is not None
    fenced = structs.replace(IDLE.last_term, why="another controller was found", silent_s=0.9)
    output = await shown(folder, structs.replace(IDLE, last_term=fenced))
    assert "(event 233): another controller was found\n" in output


@pytest.mark.parametrize("role", get_args(RoleAtStart))
async def test_daemon_that_starts_shows_its_step_and_no_more(
    folder: Path, role: RoleAtStart
) -> None:
    _, shown_role = (await shown(folder, structs.replace(WAITING, role=role))).splitlines()
    assert shown_role == f"role: {role}"


async def test_json_is_the_answer_of_the_daemon(folder: Path) -> None:
    output = await shown(folder, ACTIVE, "--json")
    assert msgspec.json.decode(output, type=DaemonStatus) == ACTIVE
    assert json.loads(output)["zookeeper"]["session"] == "0x1f"


async def test_all_daemons_with_one_log_folder_are_shown(folder: Path) -> None:
    with serving(folder, ACTIVE) as first, serving(folder, IDLE) as second:
        await first.open()
        await second.open()
        code, output = await run("status", str(folder), "--json")
    assert code == 0
    assert [json.loads(line)["role"] for line in output.splitlines()] == ["active", "standby"]


@pytest.mark.parametrize("way", ["argument", "environment", "file"])
async def test_socket_is_found_as_the_daemon_is_configured(folder: Path, way: str) -> None:
    path = folder / "named"
    config = folder / "refold.toml"
    config.write_text(f'[refold]\nlog.dir = "/absent"\nstatus.socket = "{path}"\n')
    with serving(folder, ACTIVE, path) as served:
        await served.open()
        if way == "argument":
            code, output = await run("status", str(path))
        elif way == "environment":
            code, output = await run("status", REFOLD_STATUS_SOCKET=str(path))
        else:
            code, output = await run("status", "--config", str(config))
    assert (code, output) == (0, IN_WORDS)


async def test_log_folder_of_the_environment_is_used(folder: Path) -> None:
    with serving(folder, ACTIVE) as served:
        await served.open()
        assert await run("status", REFOLD_LOG_DIR=str(folder)) == (0, IN_WORDS)


async def test_no_place_is_an_error_of_the_call(folder: Path) -> None:
    code, output = await run("status")
    assert code == 2
    assert "--config" in output
    code, output = await run("status", "--config", str(folder / "absent"))
    assert (code, "cannot be read" in output) == (2, True)


async def test_missing_daemon_is_one_line_and_status_1(folder: Path) -> None:
    code, output = await run("status", str(folder))
    assert (code, output.count("\n")) == (1, 1)
    assert f"refold status: no daemon runs with the log folder {folder}" in output
    code, output = await run("status", str(folder / "absent"))
    assert (code, "does not exist" in output) == (1, True)
    (folder / "file").write_text("")
    code, output = await run("status", str(folder / "file"))
    assert (code, output.count("\n")) == (1, 1)
    code, output = await run("status", str(folder / ("s" * 120)))
    assert (code, output.count("\n")) == (1, 1)


async def test_socket_of_a_killed_daemon_is_named(folder: Path) -> None:
    path = folder / "status-1.sock"
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(path))
        killed.listen()
    code, output = await run("status", str(folder))
    expected = f"refold status: no daemon runs there: {path} is left from one that was killed\n"
    assert (code, output) == (1, expected)


async def test_suspended_daemon_is_reported_with_its_process(folder: Path) -> None:
    path = folder / "status-1.sock"
    with socket.socket(socket.AF_UNIX) as suspended:
        suspended.bind(str(path))
        suspended.listen()
        with serving(folder, ACTIVE) as served:
            await served.open()
            code, output = await run("status", str(folder))
    assert code == 1
    assert output.startswith(IN_WORDS)
    assert f"process {os.getpid()} listens on {path}, but has not answered within 5 s" in output


async def test_socket_of_another_program_is_no_status(folder: Path) -> None:
    with StatusSocket(folder, None, lambda: b"HTTP/1.1 400") as served:
        await served.open()
        code, output = await run("status", str(folder))
    assert (code, "no status of refold" in output) == (1, True)
