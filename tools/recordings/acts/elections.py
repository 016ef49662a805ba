"""Elections that are asked for."""

from random import Random

from tools.recordings.acts.reassignments import Plan, plan_of
from tools.recordings.scene import Scene


async def elect_leaders(scene: Scene, rng: Random) -> None:
    """Preferred or unclean, by ElectLeaders: some partitions or all."""
    plan = await plan_of(scene, rng)
    unclean = rng.random() < 0.4
    partitions = _by_topic(plan) if rng.random() < 0.7 else None
    kind = "unclean" if unclean else "preferred"
    with scene.journal.action(
        "elect_leaders", via="admin", kind=kind, partitions=partitions or "all"
    ) as action:
        answer = await scene.ask(
            lambda admin: admin.elect_leaders(int(unclean), partitions, raise_errors=False)
        )
        action["output"] = str(answer)


async def elect_by_znode(scene: Scene, rng: Random) -> None:
    """/admin/preferred_replica_election, sometimes with a topic that is not there."""
    names = [{"topic": one.topic, "partition": one.partition} for one in await plan_of(scene, rng)]
    if rng.random() < 0.2:
        names.append({"topic": "never-there", "partition": 0})
    with scene.journal.action("elect_leaders", via="znode", kind="preferred", partitions=names):
        content = {"version": 1, "partitions": names}
        await scene.znodes.create("/admin/preferred_replica_election", content)


def _by_topic(plan: Plan) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for one in plan:
        found.setdefault(one.topic, []).append(one.partition)
    return found
