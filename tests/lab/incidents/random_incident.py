"""Executes a random plan in a cluster with producers, and checks the final state."""

import time
from collections import Counter
from collections.abc import Callable, Sequence

import anyio
from aiozk.exc import BadVersion, NodeExists, NoNode

from controller.core.znodes import PREFERRED_ELECTION, REASSIGN_PARTITIONS, delete_topic_path
from tests.controller.daemon.lab_cluster import OWN_ID
from tests.lab.default_clusters.cluster import DefaultLabCluster
from tests.lab.incidents.final_state import wrong_in_zookeeper, wrong_on_brokers
from tests.lab.incidents.random_plan import (
    STAYING,
    Act,
    BringBack,
    Cancel,
    CreateTopic,
    DeleteTopic,
    ElectPreferred,
    Leave,
    LeaveToStock,
    RandomPlan,
    Reassign,
    TakeDown,
    TakeOver,
)
from tests.lab.incidents.requests import (
    Name,
    Targets,
    election_request,
    reassignment_request,
    targets_of,
)
from tests.lab.incidents.zookeeper_tree import ZooKeeperTree
from tools.lab import KafkaBroker
from tools.lab.cluster_view import until
from tools.lab.refold import Refold, run
from tools.lab.traffic import Traffic

BROKER_CONFIG = {
    "auto.create.topics.enable": "false",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "leader.imbalance.check.interval.seconds": "10",
    # Not the defaults: a follower soon leaves the ISR, long before its session ends.
    "replica.lag.time.max.ms": "3000",
    "zookeeper.session.timeout.ms": "6000",
}
REFOLD_SETTINGS: dict[str, str | int] = {
    "leader.imbalance.check.interval.seconds": 10,
    "zookeeper.session.timeout.ms": 4000,
}
IN_SYNC_MIN = 2
SPARE_SECONDS_MAX = 60.0
ROLE_SECONDS_MAX = 30.0
SETTLED_SECONDS_MAX = 120.0
EXPECTED = {"broker_failed", "channel_unreachable", "no_leader_elected"}
"""Codes of messages that the daemon logs because brokers are down."""

NEVER_LOGGED = {"procedure_failed", "failover_failed"}
"""Codes of messages about faults of the daemon."""


class RandomIncident:
    """Executes the plan in a cluster; `say` receives each act with its time."""

    def __init__(
        self,
        lab_cluster: DefaultLabCluster,
        tree: ZooKeeperTree,
        traffic: Sequence[Traffic],
        say: Callable[[str], None],
    ) -> None:
        self._scene = lab_cluster
        self._tree = tree
        self._traffic = traffic
        self._write = say
        self._began = time.monotonic()
        self._refold: Refold | None = None
        self._paused: Refold | None = None
        self._topics = dict.fromkeys(STAYING)
        self._were_paused: set[int] = set()

    async def play(self, plan: RandomPlan, seconds: float) -> None:
        """Executes acts for a number of seconds, beginning with refold as controller."""
        await self._say(await self._take_over())
        end = time.monotonic() + seconds
        for act, pause in plan.acts():
            if time.monotonic() > end:
                return
            await self._say(await self._do(act))
            await anyio.sleep(pause)  # The plan has the pauses.

    async def settle(self) -> None:
        """Starts all brokers, makes refold the controller, and waits for the required state.

        Raises TimeoutError with the differences.
        """
        for broker in self._scene.lab.brokers:
            await self._bring_back(broker)
        if self._gave_up() or self._refold is None:
            await self._take_over()
        await self._say("all brokers are up, refold is controller")
        await self._until_right("everything is online and in sync")

    async def hand_back(self) -> None:
        """Hands the role to a stock controller, for which no work is left."""
        await self._leave("hands the role back")
        await self._scene.until_stock_controller()
        await self._until_right("everything stays online and in sync under a stock controller")

    async def check_logs(self) -> None:
        """Checks that logs are sound, agree in a replay, and report no fault of the daemon."""
        for log in self._scene.logs():
            status, output = await run("log", "verify", str(log))
            assert status == 0, output
        await self._scene.check_logs()
        messages = [one for daemon in self._scene.daemons for one in daemon.messages()]
        logged = Counter(one["code"] for one in messages if "code" in one)
        self._write(f"refold logged: {dict(logged.most_common())}")
        for one in messages:
            if one["level"] != "info" and one.get("code") not in EXPECTED:
                self._write(f"{one['time']}  {one.get('code')}  {one['message']}")
        assert not logged.keys() & NEVER_LOGGED

    # Acts ---------------------------------------------------------------------------------------

    async def _do(self, act: Act) -> str:
        match act:
            case CreateTopic(topic, assignment):
                await self._scene.view.create_topic(topic, dict(enumerate(assignment)))
                self._topics[topic] = None
                return f"topic {topic} is created: {assignment}"
            case DeleteTopic(topic):
                await self._tree.create(delete_topic_path(topic))
                del self._topics[topic]
                return f"topic {topic} is to be deleted"
            case Reassign(targets):
                return await self._reassign(targets)
            case Cancel(which):
                return await self._cancel(which)
            case ElectPreferred(names):
                return await self._elect(names)
            case TakeDown(broker, how):
                return await self._take_down(self._server(broker), how)
            case BringBack(broker):
                return await self._bring_back(self._server(broker))
            case LeaveToStock(how):
                return await self._leave(how)
            case TakeOver():
                return await self._take_over()

    async def _reassign(self, targets: Targets) -> str:
        """Adds to the existing request, if the controller is one that reads it again."""
        while True:
            znode = await self._tree.read(REASSIGN_PARTITIONS)
            if znode is not None and await self._scene.view.controller() != OWN_ID:
                return "no reassignment: a request exists, which stock controllers do not reread"
            entries = (targets_of(znode.content) if znode else {}) | targets
            request = reassignment_request(entries)
            try:
                if znode is None:
                    await self._tree.create(REASSIGN_PARTITIONS, request)
                else:
                    await self._tree.set(REASSIGN_PARTITIONS, request, znode.version)
            except (NodeExists, BadVersion, NoNode):
                continue
            added = "" if znode is None else f", added to {len(entries) - len(targets)} others"
            return f"reassignment {_in_words(targets)}{added}"

    async def _cancel(self, which: int) -> str:
        in_progress = await self._in_progress()
        if not in_progress:
            return "nothing to cancel"
        name = sorted(in_progress)[which % len(in_progress)]
        return f"cancelled: {await self._reassign({name: in_progress[name]})}"

    async def _in_progress(self) -> Targets:
        """The partitions that are being reassigned, with their original replicas."""
        found = {}
        for topic in await self._tree.children("/brokers/topics"):
            znode = await self._tree.read(f"/brokers/topics/{topic}")
            adding = znode.content.get("adding_replicas", {}) if znode else {}
            removing = znode.content.get("removing_replicas", {}) if znode else {}
            for key, replicas in znode.content["partitions"].items() if znode else ():
                if adding.get(key) or removing.get(key):
                    origin = [one for one in replicas if one not in adding.get(key, ())]
                    found[topic, int(key)] = origin
        return found

    async def _elect(self, names: list[Name]) -> str:
        """Requests preferred leaders for partitions that have a state. Without a state Kafka's
        controller fails at the request, and at every failover while it exists (KB 3.9 step 5)."""
        led = [one for one in names if one[1] in await self._scene.view.states(one[0])]
        try:
            await self._tree.create(PREFERRED_ELECTION, election_request(led))
        except NodeExists:
            return "no preferred election: a request exists"
        return f"preferred election of {', '.join(f'{topic}-{number}' for topic, number in led)}"

    async def _take_down(self, broker: KafkaBroker, how: str) -> str:
        if not await self._can_spare(broker.broker_id):
            return f"{broker.name} is not stopped: producers need it under a stock controller"
        match how:
            case "killed":
                broker.kill()
            case "stopped":
                await broker.stop()
            case "paused":
                broker.pause()
                self._were_paused.add(broker.broker_id)
        return f"{broker.name} is {how}"

    async def _can_spare(self, broker: int) -> bool:
        """Waits until producers do not need this broker, which must happen under refold."""

        async def spare() -> bool:
            states = [
                state
                for topic, assignment in STAYING.items()
                for state in (await self._scene.view.states(topic)).values()
            ]
            return all(
                state["leader"] >= 0 and len(set(state["isr"]) - {broker}) >= IN_SYNC_MIN
                for state in states
            )

        try:
            await until(spare, SPARE_SECONDS_MAX, f"broker {broker} can be spared")
        except TimeoutError:
            if self._refold is None or self._gave_up():
                return False
            raise
        return True

    async def _bring_back(self, broker: KafkaBroker) -> str:
        match broker.state:
            case "paused":
                broker.resume()
                return f"{broker.name} is resumed"
            case "down":
                await broker.start()
                self._were_paused.discard(broker.broker_id)
                return f"{broker.name} is started"
            case "running":
                return f"{broker.name} is running"

    async def _leave(self, how: Leave) -> str:
        assert self._refold is not None
        if self._gave_up():
            return "refold gave up before"
        match how:
            case "hands the role back":
                status = await self._refold.stop()
                assert status == 0, self._refold.last_output()
            case "is killed":
                await self._refold.kill_if_running()
            case "is paused":
                self._refold.pause()
                self._paused = self._refold
        self._refold = None
        return f"refold {how}"

    async def _take_over(self) -> str:
        if self._paused is None:
            self._refold = await self._scene.controlling(settings=REFOLD_SETTINGS)
            return "refold takes the role"
        self._refold, self._paused = self._paused, None
        self._refold.resume()
        gave_up = False

        async def decided() -> bool:
            nonlocal gave_up
            gave_up = self._gave_up()
            return gave_up or await self._scene.view.controller() == OWN_ID

        await until(decided, ROLE_SECONDS_MAX, "refold takes the role with a new session")
        return await self._take_over() if gave_up else "refold is resumed and takes the role"

    def _gave_up(self) -> bool:
        """Whether refold exited, as it does if it was paused during an append to its log
        (docs/design.md#terms)."""
        if self._refold is None or self._refold.running:
            return False
        assert "one append to the log" in self._refold.last_output(), self._refold.last_output()
        self._refold = None
        return True

    # The final state -----------------------------------------------------------------------------

    async def _until_right(self, what: str) -> None:
        wrong: list[str] = []

        async def right() -> bool:
            whole = await self._tree.whole()
            wrong[:] = wrong_in_zookeeper(whole, self._topics)
            if not wrong:
                brokers = self._scene.lab.brokers
                wrong[:] = await wrong_on_brokers(whole, brokers, self._were_paused)
            return not wrong

        try:
            await until(right, SETTLED_SECONDS_MAX, what)
        except TimeoutError as error:
            raise TimeoutError("\n".join([str(error), *wrong])) from None
        await self._say(what)

    def _server(self, broker: int) -> KafkaBroker:
        return self._scene.lab.brokers[broker - 1]

    async def _say(self, text: str) -> None:
        """Writes a line with the time, the controller, and the number of acknowledged records."""
        seconds = time.monotonic() - self._began
        controller = await self._scene.view.controller()
        written = "+".join(str(one.acknowledged) for one in self._traffic)
        self._write(f"{seconds:6.1f} s  {controller or '-':>4}  {written:>13}  {text}")


def _in_words(targets: Targets) -> str:
    return ", ".join(f"{topic}-{one} -> {to}" for (topic, one), to in targets.items())
