"""The incident of the demonstrations: brokers and refold die, clients lose nothing, logs replay."""

import time
from collections import Counter

from tools.demo.stage import BROKERS, DemoFailed, Stage
from tools.lab.traffic import Traffic

TOPIC = "orders"
PARTITIONS = 6
SHUTDOWN_SECONDS_MAX = 5.0
BROKER_CONFIG = {
    "num.partitions": str(PARTITIONS),
    "default.replication.factor": str(BROKERS),
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "4000",
}


class DemoIncident:
    """The incident, step by step."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    async def play(self) -> None:
        """Run everything with its checks, after the take-over. Raises DemoFailed, TimeoutError,
        LabError."""
        stage = self._stage
        async with Traffic(stage.lab.bootstrap, TOPIC, security=stage.client_security) as traffic:
            await self._all_in_sync()
            self._stage.say(f"topic {TOPIC} created by the first write: {await self._leaders()}")
            await self._kill_broker(traffic)
            await self._stop_broker()
            await self._kill_refold(traffic)
            await self._stage.hand_back()
            await self._all_in_sync()
            lost = await traffic.finish()
            self._stage.say(
                f"{traffic.acknowledged} records acknowledged, {len(lost)} of them lost, "
                f"{traffic.refused} refused"
            )
            if lost or not traffic.acknowledged:
                raise DemoFailed(f"acknowledged records are lost: {sorted(lost)[:10]}")
        await self._stage.replay()

    async def _all_in_sync(self) -> None:
        await self._stage.until_in_sync(TOPIC, partitions=PARTITIONS)

    async def _leaders(self) -> str:
        states = (await self._stage.view.states(TOPIC)).values()
        leaders = Counter(state["leader"] for state in states)
        return ", ".join(f"broker {one} leads {count}" for one, count in sorted(leaders.items()))

    async def _more(self, traffic: Traffic, what: str) -> None:
        before = traffic.acknowledged

        async def more() -> bool:
            return traffic.acknowledged > before + 20

        await self._stage.until(more, what)

    async def _kill_broker(self, traffic: Traffic) -> None:
        await self._more(traffic, "the first writes")
        broker = self._stage.lab.brokers[1]
        broker.kill()
        self._stage.say(f"{broker.name} killed with -9")

        async def replaced() -> bool:
            states = (await self._stage.view.states(TOPIC)).values()
            return all(
                s["leader"] not in (-1, broker.broker_id) and broker.broker_id not in s["isr"]
                for s in states
            )

        await self._stage.until(replaced, "new leaders")
        self._stage.say(f"new leaders: {await self._leaders()}")
        await self._more(traffic, "writes after the failure")
        await broker.start()
        await self._all_in_sync()
        self._stage.say(f"{broker.name} is back and in sync")

    async def _stop_broker(self) -> None:
        broker = self._stage.lab.brokers[2]
        began = time.monotonic()
        await broker.stop()
        took = time.monotonic() - began
        self._stage.say(
            f"{broker.name} stopped by SIGTERM in {took:.1f} s: {await self._leaders()}"
        )
        if took > SHUTDOWN_SECONDS_MAX:
            raise DemoFailed("the controller did not answer the controlled shutdown")
        await broker.start()
        await self._all_in_sync()
        self._stage.say(f"{broker.name} is back and in sync")

    async def _kill_refold(self, traffic: Traffic) -> None:
        await self._stage.kill_refold()
        await self._more(traffic, "writes under the stock one")
        await self._stage.take_over()
        await self._all_in_sync()
