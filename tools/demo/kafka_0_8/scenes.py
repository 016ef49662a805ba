"""The incidents of the demonstration. Each raises DemoFailed if a check fails, TimeoutError or
LabError."""

import asyncio
from typing import Final

from controller.core.error_codes import NONE, NOT_LEADER_OR_FOLLOWER
from controller.kafka_0_8.state import Name
from controller.kafka_0_8_broker import administration
from controller.kafka_0_8_broker.connection import Connection
from controller.kafka_0_8_broker.messages import ProduceRequest
from eventstore.reader import LogReader
from replay.logs.decode import UPCASTERS
from tools.demo.kafka_0_8.brokers import CONFIG, SESSION_SECONDS, Brokers
from tools.demo.kafka_0_8.traffic import DemoTraffic
from tools.lab.deaf_connection import DeafConnection

ORDERS: Final[tuple[Name, ...]] = (("orders", 0), ("orders", 1), ("orders", 2))
_ASSIGNMENT: Final = {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2)}
_REQUEST_SECONDS: Final = 30.0


async def create_orders(brokers: Brokers) -> None:
    """Topic orders: three partitions on brokers 1, 2 and 3, each led by another broker."""
    await administration.create_topic(brokers.zookeeper, "orders", _ASSIGNMENT)
    await brokers.until_all_in_sync(*ORDERS)
    leaders = [await brokers.leader(name) for name in ORDERS]
    brokers.check(leaders == [1, 2, 3], "each preferred replica of topic orders leads")


async def leader_killed(brokers: Brokers, traffic: DemoTraffic) -> None:
    """Broker 1 is killed: the partition that it leads gets a leader from its ISR."""
    name, broker = ORDERS[0], brokers.broker(1)
    await brokers.until_more(traffic, "the first writes")
    broker.kill()
    brokers.stage.say("broker-1 killed with -9; it leads orders-0")

    async def replaced() -> bool:
        return await brokers.leader(name) in (2, 3)

    await brokers.until(replaced, "a new leader of orders-0")
    await brokers.until_in_sync(name, {2, 3})
    await brokers.until_more(traffic, "writes after the failure")
    leader = await brokers.leader(name)
    brokers.check(leader in (2, 3), f"broker {leader} leads orders-0 and accepts writes")
    await broker.start()
    await brokers.until_all_in_sync(*ORDERS)
    brokers.stage.say("broker-1 is back, and in every ISR")


async def bounced(brokers: Brokers) -> None:
    """Broker 3 is bounced. Meanwhile, a topic is created with a replica on it, and another topic is
    deleted."""
    old, new = ("old", 0), ("new", 0)
    await administration.create_topic(brokers.zookeeper, "old", {0: (1, 3)})
    await brokers.until_in_sync(old, {1, 3})
    await brokers.client.produce(old, [b"of the old topic"], -1)
    broker = brokers.broker(3)
    await broker.stop()
    await administration.delete_topic(brokers.zookeeper, "old")
    await administration.create_topic(brokers.zookeeper, "new", {0: (1, 3)})
    brokers.stage.say("broker-3 stopped by SIGTERM; topic old deleted, topic new created")
    waiting = await brokers.queue(3)
    brokers.check(waiting >= 2, f"{waiting} state changes wait in the queue of broker 3")
    brokers.check(brokers.has_records(3, old), "broker 3 still has records of old-0")
    await broker.start()
    await brokers.until_drained(3)
    await brokers.until_in_sync(new, {1, 3})
    brokers.check(not brokers.has_records(3, old), "broker 3 has deleted old-0")
    end = await brokers.client.produce(new, [b"of the new topic"], -1)
    brokers.check(end == 1, "new-0 accepts records, with broker 3 in its ISR")


async def reassigned(brokers: Brokers, traffic: DemoTraffic) -> None:
    """orders-1 moves to brokers 3 and 1, away from its leader."""
    name = ORDERS[1]
    leader = await brokers.leader(name)
    assert leader is not None
    others = tuple(one for one in (1, 2, 3) if one != leader)
    await administration.reassign(brokers.zookeeper, name, others)
    brokers.stage.say(f"orders-1 is to move to {others}, away from its leader, broker {leader}")

    async def moved() -> bool:
        found = await brokers.partition(name)
        return found.replicas == ",".join(map(str, others)) and not found.reassigned_to

    await brokers.until(moved, "the reassignment")
    await brokers.until_in_sync(name, set(others))
    await brokers.until_deleted(leader, name)
    await brokers.until_more(traffic, "writes after the reassignment")
    successor = await brokers.leader(name)
    text = f"broker {leader} has deleted orders-1, and broker {successor} leads it"
    brokers.check(successor in others, text)


async def deleted_while_down(brokers: Brokers) -> None:
    """Broker 2 is killed, and a topic with a replica on it is deleted and created again."""
    name, broker = ("twice", 0), brokers.broker(2)
    await administration.create_topic(brokers.zookeeper, "twice", {0: (1, 2)})
    await brokers.until_in_sync(name, {1, 2})
    await brokers.client.produce(name, [b"first", b"second"], -1)
    broker.kill()
    brokers.stage.say("broker-2 killed with -9; topic twice is deleted and created again")
    await administration.delete_topic(brokers.zookeeper, "twice")
    await brokers.until_deleted(1, name)
    brokers.check(brokers.has_records(2, name), "broker 2 still has records of twice-0")
    await administration.create_topic(brokers.zookeeper, "twice", {0: (2, 1)})
    await broker.start()
    await brokers.until_drained(2)
    await brokers.until_in_sync(name, {1, 2})
    end = await brokers.client.produce(name, [b"third"], -1)
    read = await brokers.client.consume_all(name)
    text = "the new topic twice has none of the deleted records"
    brokers.check((end, read) == (1, [b"third"]), text)
    await brokers.until_all_in_sync(*ORDERS)


async def zookeeper_hangs(brokers: Brokers, traffic: DemoTraffic) -> None:
    """ZooKeeper is suspended for longer than the session timeout: every session ends."""
    (zookeeper, *_) = brokers.stage.lab.zookeepers
    expired = session_ends(brokers)
    before = sum(traffic.counts().values())
    zookeeper.pause()
    brokers.stage.say("ZooKeeper suspended (SIGSTOP)")
    await asyncio.sleep(2 * SESSION_SECONDS)
    during = sum(traffic.counts().values()) - before
    zookeeper.resume()
    brokers.stage.say(f"ZooKeeper resumed (SIGCONT); {during} records acknowledged meanwhile")

    async def all_noticed() -> bool:
        return all(count > expired[name] for name, count in session_ends(brokers).items())

    await brokers.until(all_noticed, "the end of every session")
    await brokers.until_all_in_sync(*ORDERS)
    await brokers.until_more(traffic, "writes after the hang")
    brokers.check(True, "every broker has a new session, and every partition of orders its ISR")


async def expired_leader(brokers: Brokers) -> None:
    """The session of a leader expires, and the leader does not notice: it continues writing."""
    proxy = DeafConnection(brokers.stage.lab.zookeepers[0].connect)
    async with proxy.running():
        (broker,) = await brokers.stage.lab.start_brokers_0_8(
            1, config=CONFIG, connect=proxy.connect
        )
        old, name = broker.broker_id, ("ledger", 0)
        await administration.create_topic(brokers.zookeeper, "ledger", {0: (old, 1, 2)})
        await brokers.until_in_sync(name, {old, 1, 2})
        await brokers.client.produce(name, [b"committed"], -1)
        proxy.answer_only_pings()
        brokers.stage.say(f"the session of {broker.name} expires; it leads ledger-0, and is deaf")

        async def replaced() -> bool:
            return await brokers.leader(name) in (1, 2)

        await brokers.until(replaced, "a new leader of ledger-0")
        async with await Connection.open(broker.connect, _REQUEST_SECONDS) as connection:
            lost = ProduceRequest(1, *name, 1, [b"lost"])
            accepted = await connection.ask(lost, _REQUEST_SECONDS)
            text = f"{broker.name} continues writing: it acknowledges a record with acks 1"
            brokers.check(accepted.error == NONE, text)
            refused = ProduceRequest(2, *name, -1, [b"uncommitted"])
            waiting = asyncio.create_task(connection.ask(refused, _REQUEST_SECONDS))
            async with brokers.new_client() as client:
                # A client that knows the old leader would ask it.
                await client.produce(name, [b"after"], -1)
            brokers.check(not waiting.done(), "it cannot commit a record with acks -1")
            proxy.restore()
            error = (await waiting).error
            text = f"when {broker.name} learns of the end of its session, it rejects this record"
            brokers.check(error == NOT_LEADER_OR_FOLLOWER, text)
        await brokers.until_in_sync(name, {old, 1, 2})
        async with brokers.new_client() as client:
            read = await client.consume_all(name)
        text = "the record with acks 1 is lost, those with acks -1 are not"
        brokers.check(read == [b"committed", b"after"], text)
        await broker.stop()


def session_ends(brokers: Brokers) -> dict[str, int]:
    """How many sessions of each running broker have ended, by its event log."""
    found = {}
    for broker in brokers.stage.lab.brokers_0_8:
        if broker.running:
            with LogReader.open(broker.logs()[-1], UPCASTERS) as reader:
                kinds = [one.kind for one in reader.events()]
            found[broker.name] = kinds.count("session_expired")
    return found
