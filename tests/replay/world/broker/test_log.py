"""Logs: leader epochs and truncation."""

from hypothesis import given
from hypothesis import strategies as st

from replay.world.broker.disk import Disk
from replay.world.broker.log import UNKNOWN_END, Log
from replay.world.broker.messages import RecordBatch
from replay.world.observer import Observer

Step = tuple[int, int]
"""By how much the leader epoch rises, and how many records are appended."""
steps = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=12)


def log_of(*batches: tuple[int, int]) -> Log:
    """A log with a number of records of each leader epoch; record n has the id n."""
    log = Log()
    for epoch, count in batches:
        log.append(epoch, range(log.end, log.end + count))
    return log


def written(todo: list[Step]) -> tuple[Log, list[int]]:
    """A log after steps, and the leader epoch of each of its records."""
    log, epoch, epochs = Log(), 0, []
    for rise, count in todo:
        epoch += rise
        log.start_epoch(epoch, log.end)
        if count:
            log.append(epoch, range(log.end, log.end + count))
        epochs += [epoch] * count
    return log, epochs


def test_records_are_read_in_batches_of_one_leader_epoch() -> None:
    log = log_of((1, 2), (4, 3))
    assert log.read(1, 4) == (RecordBatch(1, 1, (1,)), RecordBatch(4, 2, (2, 3)))
    assert log.read(5, 5) == ()


def test_end_of_the_latest_epoch_is_the_end_of_the_log() -> None:
    assert log_of((1, 2), (4, 3)).end_of(4) == (4, 5)


def test_end_of_an_epoch_that_the_log_lacks_is_that_of_the_epoch_before() -> None:
    log = log_of((1, 2), (4, 3))
    assert [log.end_of(epoch) for epoch in (1, 2, 3)] == [(1, 2)] * 3


def test_epoch_outside_of_the_log_has_no_end_or_an_empty_one() -> None:
    log = log_of((1, 2), (4, 3))
    assert log.end_of(0) == (0, 0)
    assert log.end_of(5) == log.end_of(-1) == Log().end_of(0) == UNKNOWN_END


def test_epoch_without_records_is_replaced_by_the_next() -> None:
    log = log_of((1, 2))
    log.start_epoch(2, 2)
    log.start_epoch(3, 2)
    assert (log.epochs, log.starts) == ([1, 3], [0, 2])


def test_truncation_removes_epochs_and_lowers_the_high_watermark() -> None:
    log = log_of((1, 2), (4, 3))
    log.high_watermark = log.flushed = 4
    log.truncate(2)
    assert (log.records, log.epochs, log.end) == ([0, 1], [1], 2)
    assert (log.high_watermark, log.flushed) == (2, 2)


def test_crash_of_the_machine_keeps_what_is_flushed() -> None:
    disk, log = Disk(), log_of((1, 2))
    disk.logs["t", 0] = log
    disk.write_back("broker 1", Observer())
    log.append(3, (7, 8))
    log.high_watermark = 4
    disk.checkpoint()
    disk.lose_unflushed("broker 1", Observer())
    disk.start()
    assert (log.records, log.epochs, log.high_watermark) == ([0, 1], [1], 2)


def test_restart_begins_with_the_high_watermark_of_the_checkpoint() -> None:
    disk, log = Disk(), log_of((1, 5))
    disk.logs["t", 0] = log
    log.high_watermark = 2
    disk.checkpoint()
    log.high_watermark = 5
    disk.start()
    assert (log.high_watermark, log.end) == (2, 5)


@given(steps)
def test_epoch_of_each_record_is_known(todo: list[Step]) -> None:
    log, epochs = written(todo)
    assert [log.epoch_before(offset + 1) for offset in range(log.end)] == epochs
    read = [one for batch in log.read(0, log.end) for one in [batch.leader_epoch] * len(batch[2])]
    assert read == epochs
    assert log.epoch_before(0) == -1


@given(steps, st.integers(0, 40))
def test_truncation_leaves_a_log_as_if_the_rest_was_never_appended(
    todo: list[Step], end: int
) -> None:
    log, epochs = written(todo)
    log.truncate(end)
    assert [log.epoch_before(offset + 1) for offset in range(log.end)] == epochs[:end]
    assert log.records == list(range(min(end, len(epochs))))
    assert log.starts == sorted(log.starts)
    assert log.epochs == sorted(set(log.epochs))


@given(steps, steps, steps)
def test_logs_with_a_common_history_are_equal_below_the_end_of_the_follower_epoch(
    common: list[Step], leader: list[Step], follower: list[Step]
) -> None:
    """The question of KIP-101 has the answer to where two logs diverge, for a follower whose latest
    epoch the leader knows or has replaced."""
    base, epochs = written(common)
    latest = max(epochs, default=0)
    logs = []
    for todo, rise in ((leader, 1), (follower, 2)):
        log = Log()
        for batch in base.read(0, base.end):
            log.append(batch.leader_epoch, batch.records)
        # Leaders of both branches have different epochs: odd and even ones.
        epoch = 2 * (latest + 1) + rise
        for more, count in todo:
            epoch += 2 * more
            log.append(epoch, range(100 * rise, 100 * rise + count)) if count else None
        logs.append(log)
    leading, following = logs
    leading.start_epoch(10_000, leading.end)
    while following.end:
        epoch, end = leading.end_of(following.latest_epoch)
        if epoch == following.latest_epoch:
            following.truncate(end)
            break
        _, local_end = following.end_of(epoch)
        following.truncate(min(end, local_end if local_end >= 0 else end))
    assert following.records == leading.records[: following.end]
    assert following.end >= base.end
