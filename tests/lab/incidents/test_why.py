"""`refold why` on incidents of real servers: the first line states what the script did."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kafka import TopicPartition

from eventstore.folders import logs_in
from tools.incidents.incident_cluster import IncidentCluster
from tools.incidents.scripts import PARTITIONS, TOPIC
from tools.lab import refold

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

EVENT = r"event \d+ \([\dT:.Z-]+\)"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[IncidentCluster]:
    async with IncidentCluster(tmp_path, "3.9") as found:
        await found.make(TOPIC, PARTITIONS)
        await found.make("moved", {0: [1, 2], 1: [1, 2]})
        yield found


async def why(cluster: IncidentCluster, *about: str) -> str:
    """The first line of the answer, while the daemon writes its log."""
    log = logs_in(cluster.log_dir)[-1]
    status, output = await refold.run("why", str(log), *about)
    assert status == 0, output
    first = output.splitlines()[0]
    print(" ".join(about), "->", first)  # noqa: T201 - shown by pytest -s
    return first


def fits(pattern: str, answer: str) -> bool:
    return re.fullmatch(pattern.replace("EVENT", EVENT), answer) is not None


async def test_why_explains_an_offline_partition_and_its_unclean_leader(
    cluster: IncidentCluster,
) -> None:
    cluster.broker(3).kill()
    await cluster.until_no_leader_is(3)
    answer = await why(cluster, "--broker", "3")
    assert fits(r"Broker 3 has not been registered since EVENT: the registration of .*", answer)
    assert "controlled shutdown" not in answer
    answer = await why(cluster, "--partition", f"{TOPIC}-2")
    assert fits(
        r"orders-2 has had leader 1 since EVENT: the registration of broker 3 is gone \(event "
        r"\d+\), and broker 3 was the leader; 1 is the first replica that was online and in sync; "
        r"passed over: 3 is not online\. Broker 3 has not been in the ISR .*",
        answer,
    )
    cluster.broker(1).kill()
    await cluster.until_offline(TOPIC, 3)
    await cluster.broker(3).start()
    await cluster.until_no_leader_is(1)
    answer = await why(cluster, "--partition", f"{TOPIC}-3")
    assert fits(
        r"orders-3 has been offline since EVENT: the registration of broker 1 is gone \(event "
        r"\d+\), and broker 1 was the leader; no replica could lead at event \d+: 1 is not online, "
        r"3 is not (online|in sync)\. Only broker 1 is in the ISR\. The partition is online again "
        r"when broker 1 returns, or after an unclean election, which may lose records\.",
        answer,
    )
    partition = {TOPIC: [3]}
    await cluster.ask(lambda admin: admin.elect_leaders(1, partition, raise_errors=False))
    await cluster.until_led(TOPIC, 3, by=3)
    answer = await why(cluster, "--partition", f"{TOPIC}-3")
    assert fits(
        r"orders-3 has had leader 3 since EVENT: a client requested an election; no replica in "
        r"sync was online, so by an unclean election, as requested, 3 leads as the first replica "
        r"that was online; passed over: 1 is not online\. Broker 1 has not been in the ISR .*",
        answer,
    )
    answer = await why(cluster, "--partition", f"{TOPIC}-3", "--broker", "1")
    assert fits(
        r"Broker 1 has not been in the ISR of orders-3 since EVENT: the registration of broker 1 "
        r"is gone \(event \d+\), and the controller removed it \(unclean partition leader "
        r"election\); now it is not registered\.",
        answer,
    )


async def test_why_explains_a_controlled_shutdown(cluster: IncidentCluster) -> None:
    await cluster.broker(1).stop()
    await cluster.until_no_leader_is(1)
    answer = await why(cluster, "--broker", "1")
    assert fits(
        r"Broker 1 has not been registered since EVENT: the registration of broker 1 is gone, "
        r"after it asked for a controlled shutdown \(event \d+\)\. .*",
        answer,
    )
    answer = await why(cluster, "--partition", f"{TOPIC}-0")
    assert re.match(r"orders-0 has had leader 2 since", answer)
    assert "passed over: 1 is shutting down" in answer
    await cluster.broker(1).start()
    await cluster.until_in_sync(TOPIC)
    await cluster.ask(lambda admin: admin.elect_leaders(0, None, raise_errors=False))
    await cluster.until_led(TOPIC, 0, by=1)
    answer = await why(cluster, "--partition", f"{TOPIC}-0")
    assert fits(
        r"orders-0 has had leader 1 since EVENT: it is the preferred replica, as requested by "
        r"ElectLeaders, request \d+: preferred, \d+ partitions\.",
        answer,
    )


async def test_why_explains_a_stuck_and_cancelled_reassignment(cluster: IncidentCluster) -> None:
    cluster.broker(3).kill()
    await cluster.until_no_leader_is(3)
    moved = TopicPartition("moved", 1)
    await cluster.ask(lambda admin: admin.alter_partition_reassignments({moved: [1, 3]}))
    answer = await why(cluster, "--reassignment", "moved-1")
    assert fits(
        r"moved-1 is not being reassigned: at EVENT a client asked to move it to 1,3, rejected "
        r"with INVALID_REPLICA_ASSIGNMENT: .*",
        answer,
    )
    await cluster.submit({("moved", 1): [1, 3]})
    await cluster.until_assigned("moved", 1, [1, 3, 2])
    answer = await why(cluster, "--reassignment", "moved-1")
    assert fits(
        r"The reassignment of moved-1 from 1,2 to 1,3, begun at EVENT, has not ended yet, "
        r"\d+ s after it began: broker 3 "
        r"blocks it, not in sync, not registered: the registration of broker 3 is gone "
        r"\(event \d+\)\. In sync of the target: 1\..*",
        answer,
    )
    await cluster.ask(lambda admin: admin.alter_partition_reassignments({moved: None}))
    await cluster.until_assigned("moved", 1, [1, 2])
    answer = await why(cluster, "--reassignment", "moved-1")
    assert fits(
        r"moved-1 is not being reassigned: its move to 1,3 was rolled back at EVENT: a client "
        r"asked to cancel it \(AlterPartitionReassignments, event \d+\)\.",
        answer,
    )


async def test_why_explains_a_stuck_deletion(cluster: IncidentCluster) -> None:
    cluster.broker(2).kill()
    await cluster.until_no_leader_is(2)
    await cluster.ask(lambda admin: admin.delete_topics([TOPIC], raise_errors=False))
    answer = await why(cluster, "--topic", TOPIC)
    assert fits(
        r"The deletion of orders has been blocked since EVENT: replicas of it are on broker 2, "
        r"which is not online: the registration of broker 2 is gone \(event \d+\)\.",
        answer,
    )
    await cluster.broker(2).start()
    await cluster.until_gone(TOPIC)
    answer = await why(cluster, "--topic", TOPIC)
    assert fits(r"There is no topic orders any more at EVENT: topic orders is deleted\.", answer)


async def test_why_explains_the_end_of_a_term(cluster: IncidentCluster) -> None:
    cluster.refold.pause()
    await cluster.until_controller_is_not(cluster.daemon_id)
    cluster.refold.resume()
    await cluster.until_controller_is(cluster.daemon_id)
    answer = await why(cluster, "--term", "2")
    assert fits(
        r"Term 2 of broker 1000 ended at EVENT: .*session is over.* It had begun at EVENT\.", answer
    )
    answer = await why(cluster)
    assert fits(r"Broker 1000 is controller of term [4-9] since EVENT.*", answer)
