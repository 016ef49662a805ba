"""Extra reassignments and requests in a real cluster, also without a controller; drop examples."""

import pytest

from controller.core import znodes
from controller.core.znodes import REASSIGN_PARTITIONS_EXTRA, reassignment_path
from tests.controller.daemon.lab_cluster import timed
from tests.lab.interrupted.moving import ABSENT_BROKER, Moving

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

BYTES_A_SECOND = 200_000
UNLIMITED = 1_000_000_000
RECORDS = 400
SECONDS_MAX = 15.0


async def test_stuck_reassignment_does_not_delay_others(moving: Moving) -> None:
    daemon = await moving.controlling()
    for topic in ("stuck", "extra", "requested"):
        await moving.create_topic(topic, {0: [1, 2]})
    await moving.submit({("stuck", 0): [3, ABSENT_BROKER]})
    await moving.until_adding("stuck")
    await moving.reassign("--execute-extra", given={("extra", 0): [3, 4]})
    printed = await moving.reassign("--request", "--json", given={("requested", 0): [4, 3]})
    await moving.until_assigned("extra", [3, 4])
    await moving.until_assigned("requested", [4, 3])
    assert (await moving.replicas("stuck"))[1]
    assert "czxid" in printed
    await moving.reassign("--cancel")
    await moving.until_assigned("stuck", [1, 2])
    await moving.until_nothing_is_left()
    assert await daemon.stop() == 0


async def test_examples_of_kip_236_have_their_results(moving: Moving) -> None:
    """Brokers 4 and 5 are down, so foo1-0 waits; brokers 8 to 10 for foo2-1 do not exist."""
    daemon = await moving.controlling()
    await moving.create_topic("foo1", {0: [1, 2, 3]})
    await moving.create_topic("foo2", {0: [1, 2, 3], 1: [6, 7, 8]})
    foo1, foo2 = ("foo1", 0), ("foo2", 1)
    for broker in moving.lab.brokers[3:5]:
        broker.kill()

    async def entries() -> dict[tuple[str, int], tuple[list[int], list[int]]]:
        znode = await moving.view.content(znodes.REASSIGN_PARTITIONS)
        return {
            (one["topic"], one["partition"]): (one["replicas"], one.get("original_replicas"))
            for one in (znode or {"partitions": []})["partitions"]
        }

    async def until(expected: dict[tuple[str, int], tuple[list[int], list[int]]]) -> None:
        async def there() -> bool:
            return await entries() == expected

        await timed(there, f"the entries {expected}")

    await moving.submit({foo1: [1, 2, 4], foo2: [5, 9, 8]})
    await until({foo1: ([1, 2, 4], [1, 2, 3]), foo2: ([5, 9, 8], [6, 7, 8])})
    await moving.until_adding("foo2", 1)
    await moving.submit({foo1: [1, 2, 5], foo2: [5, 9, 10]}, REASSIGN_PARTITIONS_EXTRA)
    await until({foo1: ([1, 2, 5], [1, 2, 3]), foo2: ([5, 9, 10], [6, 7, 8])})
    for broker in moving.lab.brokers[3:5]:
        await broker.start()
    await moving.until_assigned("foo1", [1, 2, 5])
    await until({foo2: ([5, 9, 10], [6, 7, 8])})
    assert not await moving.view.exists(REASSIGN_PARTITIONS_EXTRA)
    await moving.reassign("--cancel")
    await moving.until_assigned("foo2", [6, 7, 8], 1)
    await moving.until_nothing_is_left()
    assert await daemon.stop() == 0


@pytest.mark.parametrize(
    ("original", "first", "in_sync", "second", "files"),
    [
        ([1, 2], [2, 3], [1, 2], [2, 4], [1, 2, 4]),
        ([1, 2, 3], [4, 5, 6], [1, 2, 3, 4], [4, 5, 7], [1, 2, 3, 4, 5, 7]),
    ],
)
async def test_files_of_a_dropped_replica_are_deleted_at_once(
    moving: Moving,
    original: list[int],
    first: list[int],
    in_sync: list[int],
    second: list[int],
    files: list[int],
) -> None:
    """The examples KIP-236 P-04 and KIP-236 P-06. The throttle keeps the new replicas out of sync,
    except those in `in_sync`."""
    daemon = await moving.controlling()
    topic = f"dropped-{len(original)}"
    await moving.create_topic(topic, {0: original})
    await moving.fill(topic, RECORDS)
    await moving.until_in_sync(topic, len(original))
    throttle = ("--throttle", str(BYTES_A_SECOND))
    await moving.reassign("--request", *throttle, given={(topic, 0): first})
    await moving.until_files(topic, sorted({*original, *first}))
    for broker in [1, *in_sync[len(original) :]]:
        await moving.limit(broker, UNLIMITED)
    await moving.until_in_sync(topic, len(in_sync))
    assert sorted((await moving.view.states(topic))[0]["isr"]) == in_sync
    await moving.reassign("--request", *throttle, given={(topic, 0): second})
    seconds = await moving.until_files(topic, files)
    replicas, in_progress = await moving.replicas(topic)
    assert in_progress
    assert sorted(replicas) == files
    assert seconds < SECONDS_MAX
    await moving.reassign("--request", given={(topic, 0): original})
    await moving.until_assigned(topic, original)
    assert await daemon.stop() == 0


async def test_reassignments_requested_without_a_controller_are_processed(moving: Moving) -> None:
    first = await moving.controlling()
    for topic in ("case-1", "case-2", "case-3"):
        await moving.create_topic(topic, {0: [1, 2]})
    await moving.request({"case-3": {0: [3, 4, ABSENT_BROKER]}})
    await moving.until_isr("case-3", {0: 4})
    with moving.brokers_paused():
        first.kill()
        await first.ended()
        await moving.submit({("case-1", 0): [3, 4]})
        await moving.request({"case-2": {0: [4, 3]}})
        daemon = await moving.controlling(broker_id=1001)
    await moving.until_assigned("case-1", [3, 4])
    await moving.until_assigned("case-2", [4, 3])
    assert (await moving.replicas("case-3"))[1]
    await moving.reassign("--request", given={("case-3", 0): [3, 4]})
    await moving.until_assigned("case-3", [3, 4])
    await moving.until_nothing_is_left()
    assert await daemon.stop() == 0


async def test_znodes_changed_by_hand_are_repaired(moving: Moving) -> None:
    daemon = await moving.controlling()
    for topic in ("entry", "requested-by-hand", "more"):
        await moving.create_topic(topic, {0: [1, 2]})
    await moving.submit({("entry", 0): [3, ABSENT_BROKER]})
    await moving.request({"requested-by-hand": {0: [3, ABSENT_BROKER]}})
    await moving.until_adding("entry")
    await moving.until_adding("requested-by-hand")
    path = reassignment_path("requested-by-hand", 0)
    before = await moving.view.content(path)
    await moving.view.overwrite(path, "garbage")
    await moving.view.delete(reassignment_path("entry", 0))
    assert await moving.view.exists(znodes.REASSIGN_PARTITIONS)
    await moving.view.delete(znodes.REASSIGN_PARTITIONS)
    await moving.until_reported(daemon, "entries_mended")
    await moving.until_reported(daemon, "record_mended")
    await moving.until_repaired(path, before)
    await moving.view.overwrite(path, "{}")
    await moving.reassign("--request", given={("more", 0): [3, 4]})
    await moving.until_repaired(path, before)
    await moving.until_assigned("more", [3, 4])
    await moving.reassign("--cancel")
    await moving.until_assigned("entry", [1, 2])
    await moving.reassign("--remove-cancel")
    await moving.reassign("--request", given={("requested-by-hand", 0): [1, 2]})
    await moving.until_nothing_is_left()
    assert await daemon.stop() == 0
