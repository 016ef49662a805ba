"""ZooKeeper hangs (KB 16.4): the three consequences, with a real ZooKeeper that is suspended
(SIGSTOP), stock brokers, and refold as controller."""

import json
from tempfile import TemporaryDirectory

import pytest

from tests.controller.cli.clusters import client
from tests.controller.daemon.lab_cluster import OWN_ID, timed
from tests.lab.zookeeper_hang.conftest import LONG_MS, SHORT_MS, HangCluster
from tools.lab.refold import Refold, run

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

REPORTED_SECONDS = 14.0
"""Long enough for a report of the silence."""
TRIES = 5
"""A session may outlive a hang: its client is sometimes faster than the server's clean-up."""


def codes(daemon: Refold) -> list[str]:
    return [str(one.get("code", "")) for one in daemon.messages()]


# A. Controller fail: a re-election ----------------------------------------------------------------


async def test_controller_whose_session_ends_in_the_hang_is_elected_again(
    hang_cluster: HangCluster,
) -> None:
    await hang_cluster.start_brokers(LONG_MS, LONG_MS)
    daemon = await hang_cluster.active(SHORT_MS)
    await hang_cluster.create_topic("before", {0: [1, 2]})
    epoch = await hang_cluster.view.controller_epoch()
    for _ in range(TRIES):
        await hang_cluster.hang()
        if "resigned" in codes(daemon):
            break
    await hang_cluster.until_reported(daemon, "resigned")
    await hang_cluster.until_controller(OWN_ID, daemon)

    async def is_next_term() -> bool:
        return await hang_cluster.view.controller_epoch() > epoch

    await timed(is_next_term, "the next term")
    await hang_cluster.create_topic("after", {0: [2, 1]})
    # Nothing happened to the brokers, whose sessions are longer.
    assert not {"broker_failed", "broker_bounced"} & set(codes(daemon))
    assert (await hang_cluster.view.states("before"))[0]["leader_epoch"] == 0
    assert await daemon.stop() == 0


async def test_controller_whose_session_outlives_the_hang_keeps_its_term(
    hang_cluster: HangCluster,
) -> None:
    await hang_cluster.start_brokers(LONG_MS, LONG_MS)
    daemon = await hang_cluster.active(LONG_MS)
    epoch = await hang_cluster.view.controller_epoch()
    await hang_cluster.hang()
    await hang_cluster.create_topic("after", {0: [2, 1]})
    assert await hang_cluster.view.controller_epoch() == epoch
    assert "resigned" not in codes(daemon)
    assert await daemon.stop() == 0


@pytest.mark.parametrize("hang_cluster", [1], indirect=True, ids=["single"])
async def test_messages_and_status_count_the_silence_from_when_zookeeper_was_last_heard(
    hang_cluster: HangCluster,
) -> None:
    """The loss of the connection is noticed later."""
    await hang_cluster.start_brokers(LONG_MS, LONG_MS)
    with TemporaryDirectory() as folder:
        socket = f"{folder}/refold.sock"
        daemon = await hang_cluster.active(6_000, **{"refold.status.socket": socket})
        await hang_cluster.hang(REPORTED_SECONDS)

        async def ends() -> bool:
            return any("ZooKeeper answers after" in one["message"] for one in daemon.messages())

        await timed(ends, "the daemon reports the end of the silence")
        _, output = await run("status", socket, "--json")
        assert await daemon.stop() == 0
    texts = [one["message"] for one in daemon.messages()]
    [end] = [one for one in texts if one.startswith("ZooKeeper answers after ")]
    [report] = [one for one in texts if one.startswith("ZooKeeper has not answered for ")]
    assert REPORTED_SECONDS - 1 <= int(end.split()[-2]) <= REPORTED_SECONDS + 5, end
    assert report.startswith(
        ("ZooKeeper has not answered for 10 s", "ZooKeeper has not answered for 11 s")
    )
    # The daemon presumes the end of its session when ZooKeeper was silent for its timeout.
    assert 6.0 <= json.loads(output)["last_term"]["silent_s"] < 8.0


# B. Broker fail: leaders move ---------------------------------------------------------------------


async def test_partitions_of_a_broker_whose_session_ends_in_the_hang_get_other_leaders(
    hang_cluster: HangCluster,
) -> None:
    """A partition without another replica is offline until its broker has registered again."""
    await hang_cluster.start_brokers(SHORT_MS, LONG_MS)
    daemon = await hang_cluster.active(LONG_MS)
    await hang_cluster.create_topic("two", {0: [1, 2], 1: [2, 1]})
    await hang_cluster.create_topic("one", {0: [1]})
    await hang_cluster.until_in_sync("two", 2)
    registered = await hang_cluster.view.broker_epoch(1)
    epoch = await hang_cluster.view.controller_epoch()
    for _ in range(TRIES):
        await hang_cluster.hang()
        if {"broker_failed", "broker_bounced"} & set(codes(daemon)):
            break
    await hang_cluster.until_led("two", {0: 2, 1: 2})
    await hang_cluster.until_in_sync("two", 2)
    await hang_cluster.until_led("one", {0: 1})
    assert await hang_cluster.view.broker_epoch(1) > registered
    assert await hang_cluster.view.controller_epoch() == epoch
    assert await daemon.stop() == 0


# C. A broker is stuck -----------------------------------------------------------------------------


async def until_registered(hang_cluster: HangCluster, broker: int, *, exists: bool) -> None:
    async def is_so() -> bool:
        return await hang_cluster.view.exists(f"/brokers/ids/{broker}") is exists

    await timed(is_so, f"/brokers/ids/{broker} {'exists' if exists else 'is deleted'}")


async def named(log: str, text: str) -> None:
    """`refold why --broker 1` and `refold health` name the stuck registration."""
    status, why = await run("why", log, "--broker", "1")
    assert (status, text in why.splitlines()[0]) == (0, True), why
    status, health = await run("health", log, "--json")
    assert (status, text in json.loads(health)["problem"]) == (1, True), health


async def problem_without_refold(cluster: HangCluster, *options: str) -> str:
    """The output of `refold health` from ZooKeeper and the brokers alone."""
    zookeeper = ("--zookeeper", cluster.connect, "--patience", "1", "--json")
    _, output = await run("health", *zookeeper, *options)
    [found] = [json.loads(one) for one in output.splitlines() if one.startswith("{")]
    return str(found["problem"])


async def test_broker_stuck_on_its_old_registration_is_reported_and_recovers(
    hang_cluster: HangCluster,
) -> None:
    """The session of the broker ends in the hang. The test plays the ZooKeeper that deletes the old
    znode late: a session that the broker does not know owns it for a while."""
    await hang_cluster.start_brokers(SHORT_MS, LONG_MS)
    daemon = await hang_cluster.active(LONG_MS)
    await hang_cluster.create_topic("t", {0: [1, 2]})
    await hang_cluster.until_in_sync("t", 2)
    broker = hang_cluster.lab.brokers[0]
    content = json.dumps(await hang_cluster.view.content("/brokers/ids/1"))
    broker.pause()
    await hang_cluster.hang()
    await until_registered(hang_cluster, 1, exists=False)
    async with client(hang_cluster.connect) as znodes:
        await znodes.create("/brokers/ids/1", content, ephemeral=True)
        broker.resume()

        async def gave_up() -> bool:
            log = (broker.folder / "server.log").read_text(errors="replace")
            return "Error while creating ephemeral at /brokers/ids/1, node already exists" in log

        await timed(gave_up, "the broker finds a znode that another session owns")
    # The old session is over at last: the znode is deleted, and the broker does not notice.
    await until_registered(hang_cluster, 1, exists=False)
    await hang_cluster.until_led("t", {0: 2})
    found = await hang_cluster.until_reported(daemon, "broker_not_registered")
    assert found["subject"] == "/brokers/ids/1"
    assert broker.running
    [log] = map(str, hang_cluster.logs())
    text = f"Broker 1 answers on {broker.connect}, but does not register again"
    await named(log, text)
    known = ("--bootstrap-server", ",".join(one.connect for one in hang_cluster.lab.brokers))
    assert (await problem_without_refold(hang_cluster, *known)).startswith(text)
    await broker.restart()
    await hang_cluster.until_in_sync("t", 2)
    assert await problem_without_refold(hang_cluster, *known) == ""
    _, health = await run("health", log, "--json")
    assert json.loads(health)["problem"] == "", health
    assert codes(daemon).count("broker_not_registered") == 1
    assert await daemon.stop() == 0


async def test_registration_that_outlives_its_broker_is_reported(
    hang_cluster: HangCluster,
) -> None:
    """The broker has ended, and ZooKeeper keeps its znode: no leader moves."""
    await hang_cluster.start_brokers(SHORT_MS, LONG_MS)
    daemon = await hang_cluster.active(LONG_MS)
    broker = hang_cluster.lab.brokers[0]
    content = json.dumps(await hang_cluster.view.content("/brokers/ids/1"))
    broker.kill()
    await until_registered(hang_cluster, 1, exists=False)
    async with client(hang_cluster.connect) as znodes:
        await znodes.create("/brokers/ids/1", content, ephemeral=True)
        found = await hang_cluster.until_reported(daemon, "registration_left_over")
        assert found["subject"] == "/brokers/ids/1"
        [log] = map(str, hang_cluster.logs())
        text = f"/brokers/ids/1 is left: no process listens on {broker.connect}"
        await named(log, text)
        assert (await problem_without_refold(hang_cluster)).startswith(text)
    await until_registered(hang_cluster, 1, exists=False)
    await broker.start()
    await hang_cluster.create_topic("after", {0: [1, 2]})
    assert "broker_not_registered" not in codes(daemon)
    assert await daemon.stop() == 0
