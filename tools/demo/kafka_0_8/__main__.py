"""Kafka's 0.8 replication design, without a controller, on a real ZooKeeper (docs/design-0.8.md).

Three brokers and producers with acks -1. A leader is killed, a broker is bounced with state changes
in its queue, a partition is reassigned, a topic is deleted while a broker is down, ZooKeeper hangs,
and a leader continues writing after its session has expired. At the end every acknowledged record
is read back, and every log of every broker is replayed.
"""

from typing import Final

import typer

from controller.core.errors import CoreError
from controller.kafka_0_8_broker.errors import Broker08Error
from controller.operator.errors import OperatorError
from tools.demo.kafka_0_8 import scenes
from tools.demo.kafka_0_8.brokers import CONFIG, Brokers
from tools.demo.stage import DemoFailed, ServersFolder, Stage, perform, replay_logs

COUNT: Final = 3
_DECISIONS: Final = {
    "write_atomically": "elections, registrations and other transactions",
    "write_znodes": "other writes to ZooKeeper",
    "append_records": "appends to logs",
    "truncate_log": "truncations of logs",
    "delete_log": "deletions of logs",
    "respond_produce": "responses to producers",
    "respond_fetch": "responses to followers and consumers",
    "write_checkpoint": "checkpoints of high watermarks",
}


async def play(stage: Stage) -> None:
    """All scenes with their checks. Raises DemoFailed, TimeoutError, LabError."""
    try:
        await _play(stage)
    except (Broker08Error, CoreError, OperatorError) as error:
        raise DemoFailed(str(error)) from error


async def _play(stage: Stage) -> None:
    stage.say("starting ZooKeeper and three brokers of the 0.8 design")
    await stage.lab.start_zookeeper()
    await stage.lab.start_brokers_0_8(COUNT, config=CONFIG)
    async with Brokers.connected(stage) as brokers:
        await scenes.create_orders(brokers)
        async with brokers.traffic(*scenes.ORDERS) as traffic:
            await scenes.leader_killed(brokers, traffic)
            await scenes.bounced(brokers)
            await brokers.until_more(traffic, "writes after the bounce")
            await scenes.reassigned(brokers, traffic)
            await scenes.deleted_while_down(brokers)
            await brokers.until_more(traffic, "writes after the deletion")
            await scenes.zookeeper_hangs(brokers, traffic)
            await scenes.expired_leader(brokers)
            await traffic.stop()
            count = sum(traffic.counts().values())
            lost = await traffic.lost()
        text = f"all {count} records that were acknowledged with acks -1 are read back, in order"
        brokers.check(bool(count) and not lost, f"{text}; lost: {lost[:10]}" if lost else text)
        for broker in stage.lab.brokers_0_8:
            if broker.running:
                await broker.stop()
        await replay_logs(brokers.logs(), _DECISIONS)


app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def main(
    folder: ServersFolder = None,
) -> None:
    """Show the 0.8 design on a real ZooKeeper. Exit status: 0 all checks passed, 1 one failed."""
    perform(play, folder, "demo-0.8")


if __name__ == "__main__":
    app()
