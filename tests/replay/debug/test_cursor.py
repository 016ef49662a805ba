"""Steps and searches of the debugger, compared with an independent fold of the whole log."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from eventstore.errors import LogCorrupt
from replay.debug.conditions import condition_named
from replay.debug.cursor import Cursor, Unit
from replay.debug.seekable_log import SeekableLog
from replay.errors import ReplayError
from replay.inspect.at import cluster_at
from replay.inspect.projections import projection_of
from replay.logs.open_log import OpenedLog, open_log
from tests.replay.debug.damaged import log_with_changed_event

ROOT = Path(__file__).parents[3]
INCIDENT = ROOT / "tests/incidents/broker-crash"
RECORDING = ROOT / "tests/recordings/unclean-3.tar.xz"
LATER = ROOT / "tests/recordings/chaos-9120556-later.tar.xz"


@pytest.fixture(scope="module", params=[INCIDENT, RECORDING], ids=["recorded", "imported"])
def log(request: pytest.FixtureRequest) -> Iterator[OpenedLog]:
    with open_log(request.param) as opened:
        yield opened


@pytest.fixture(scope="module")
def seekable(log: OpenedLog) -> SeekableLog:
    return SeekableLog(log)


@pytest.fixture
def cursor(seekable: SeekableLog) -> Cursor:
    return Cursor(seekable)


def values(log: OpenedLog, of: Callable[[Any], Any]) -> dict[int, Any]:
    """A value of the state after each event, folded once from the start of the log."""
    projection = projection_of(log)
    found: dict[int, Any] = {projection.seq: of(projection)}
    for record, stored in log.reader.records():
        if record.seq > projection.seq:
            projection.apply(record, stored)
            found[record.seq] = of(projection)
    return found


@pytest.mark.parametrize(
    "path",
    [INCIDENT, pytest.param(LATER, marks=pytest.mark.long)],
    ids=["recorded", "imported"],
)
def test_state_after_each_step_equals_an_independent_fold(path: Path) -> None:
    with open_log(path) as log:
        cursor = Cursor(SeekableLog(log))
        expected = values(log, lambda one: one.cluster(""))
        states = [cursor.clusters()[1]]
        while cursor.step(Unit.EVENT):
            states.append(cursor.clusters()[1])
        assert [one.seq for one in states] == [*range(cursor.first_seq, cursor.last_seq + 1)]
        while cursor.step(Unit.EVENT, is_forward=False):
            states.append(cursor.clusters()[1])
        assert cursor.seq == cursor.first_seq
        assert len(states) == 2 * (cursor.last_seq - cursor.first_seq) + 1
        for found in states:
            assert found.partitions() == expected[found.seq].partitions()
            assert found.brokers == expected[found.seq].brokers
            assert found.controller == expected[found.seq].controller
        for found in states[::50]:
            assert found == cluster_at(log, found.seq)


def test_state_before_an_event_is_that_after_the_event_before(cursor: Cursor) -> None:
    cursor.go(72)
    before, after = cursor.clusters()
    cursor.step(Unit.EVENT, is_forward=False)
    assert cursor.clusters()[1] == before
    assert after.seq == before.seq + 1


@pytest.mark.sampled
@pytest.mark.parametrize("unit", [Unit.DECISION, Unit.PROCEDURE, Unit.FAILOVER])
def test_steps_back_stop_where_steps_forward_stop(unit: Unit, cursor: Cursor) -> None:
    forward = []
    while cursor.step(unit):
        forward.append(cursor.seq)
    assert len(forward) > 1
    backward = [cursor.seq]
    while cursor.step(unit, is_forward=False):
        backward.append(cursor.seq)
    assert [one for one in backward[::-1] if one > cursor.first_seq] == forward


def changes_in_scan(log: OpenedLog, topic: str, number: int, field: str) -> list[int]:
    """The events at which a field of a partition changes, as far as its controller knows it."""

    def value(state: Any) -> object:
        role, found = state.controller().role, state.partition(topic, number)
        if role == "standby" or (role == "failing over" and found is None):
            return "unknown"
        return getattr(found, field, None)

    scanned = values(log, value)
    return [
        seq
        for before, seq in pairwise(sorted(scanned))
        if scanned[before] != scanned[seq] != "unknown"
        and (scanned[before], scanned[seq]) != ("unknown", None)
        and (field != "status" or scanned[seq] == "offline")
    ]


@pytest.mark.sampled
@pytest.mark.parametrize("field", ["leader", "isr", "status"])
def test_search_backward_finds_what_a_scan_of_all_states_finds(
    field: str, log: OpenedLog, cursor: Cursor
) -> None:
    cursor.go(cursor.last_seq * 4 // 5)
    partitions = cursor.clusters()[1].partitions()
    assert partitions
    for one in partitions[:4]:
        changed = changes_in_scan(log, one.topic, one.partition, field)
        what = "offline" if field == "status" else field
        cursor.go(cursor.last_seq)
        found = []
        while cursor.search(condition_named(f"{what} {one.name}"), is_forward=False):
            found.append(cursor.seq)
        assert found == changed[::-1]


def test_last_write_of_a_znode_is_found_backward() -> None:
    with open_log(INCIDENT) as log:
        cursor = Cursor(SeekableLog(log), 124)
        znode = condition_named("znode /brokers/topics/orders/partitions/1/state")
        assert cursor.search(znode, is_forward=False)
        assert znode.name in cursor.event.listed.text
        assert (cursor.seq, cursor.event.listed.cause) == (99, 96)


def test_breakpoints_stop_at_the_nearest_one_in_both_directions() -> None:
    with open_log(INCIDENT) as log:
        cursor = Cursor(SeekableLog(log))
        with pytest.raises(ReplayError, match="no breakpoint is set"):
            cursor.run()
        cursor.breakpoints = [condition_named("leader orders-1"), condition_named("broker 2")]
        cursor.go(40)
        stops = []
        while (found := cursor.run()) is not None:
            stops.append((found.seq, str(found.condition)))
        assert stops[:2] == [(70, "broker 2"), (72, "leader orders-1")]
        assert cursor.run(is_forward=False) is not None
        assert cursor.seq == stops[-2][0]


def test_steps_with_a_filter_skip_events_about_other_subjects(cursor: Cursor) -> None:
    name = cursor_name(cursor)
    cursor.filter = name
    stops = []
    while cursor.step(Unit.EVENT):
        stops.append(cursor.seq)
        assert name in cursor.event.subjects
    assert 1 < len(stops) < cursor.last_seq / 2
    shown = [one.seq for one in cursor.events_around(3, 3).events]
    assert shown == stops[-4:]


def test_events_up_to_damage_are_around_the_cursor() -> None:
    with log_with_changed_event(INCIDENT, 80) as folder, open_log(folder) as log:
        cursor = Cursor(SeekableLog(log), 78)
        for shown in ("", "broker 1"):
            cursor.filter = shown
            found = cursor.events_around(100, 100)
            assert found.events[-1].seq == 79
            assert "event 80: it was changed" in found.damage
        cursor.go(80)
        with pytest.raises(LogCorrupt, match="event 80"):
            cursor.events_around(1, 1)


def cursor_name(cursor: Cursor) -> str:
    cursor.go(cursor.last_seq * 4 // 5)
    name = cursor.clusters()[1].partitions()[0].name
    cursor.go(cursor.first_seq)
    return name


@pytest.mark.long
def test_effects_are_the_events_that_have_the_event_as_a_cause(cursor: Cursor) -> None:
    checked = 0
    for seq in range(cursor.first_seq, min(cursor.last_seq, 120), 3):
        cursor.go(seq)
        for effect in cursor.effects()[:3]:
            cursor.go(effect.seq)
            assert seq in [one.seq for one in cursor.causes()]
            checked += 1
    assert checked > 3


@pytest.mark.parametrize(
    ("name", "chain"),
    [
        # A decision, the line of the broker change, the expired session.
        ("recordings/broker-crash-2.tar.xz", [477, 460, 459]),
        # A decision of a failover, the election, the expired session that deleted /controller.
        ("recordings/broker-crash-2.tar.xz", [632, 550, 549]),
        # The outcome of a read, the changed children, the deleted znode.
        ("incidents/broker-crash", [69, 68, 67]),
    ],
)
def test_causes_lead_to_the_lost_broker_and_its_effects_lead_back(
    name: str, chain: list[int]
) -> None:
    with open_log(ROOT / "tests" / name) as log:
        cursor = Cursor(SeekableLog(log))
        for later, earlier in pairwise(chain):
            cursor.go(later)
            assert [one.seq for one in cursor.causes()] == [earlier]
            cursor.go(earlier)
            assert later in [one.seq for one in cursor.effects()]
        assert not cursor.causes()


def test_children_that_changed_have_their_cause_also_after_a_jump() -> None:
    with open_log(INCIDENT) as log:
        [event] = SeekableLog(log).events(68, 68)
        assert event.causes == [67]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("leader", "leader T-0"),
        ("leader orders", "orders is not a partition"),
        ("broker x", "x is not the id of a broker"),
        ("znode brokers", "does not begin with /"),
        ("", "no condition is given"),
    ],
)
def test_condition_without_a_usable_name_is_refused(text: str, error: str) -> None:
    with pytest.raises(ReplayError, match=error):
        condition_named(text)


def test_text_without_the_name_of_a_condition_is_searched_for() -> None:
    with open_log(INCIDENT) as log:
        cursor = Cursor(SeekableLog(log))
        assert cursor.search(condition_named("watch of /brokers/ids/2"))
        assert cursor.seq == 67


def test_event_that_does_not_exist_is_refused(cursor: Cursor) -> None:
    with pytest.raises(ReplayError, match="there is no event 99999: the log has events"):
        cursor.go(99999)
