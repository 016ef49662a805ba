"""The log of one partition on one broker (UnifiedLog and LeaderEpochFileCache of Kafka).

Record n of the log has offset n: nothing is deleted from its beginning.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

from controller.core.values import NO_EPOCH
from replay.world.broker.messages import RecordBatch

UNKNOWN_END: Final = (NO_EPOCH, -1)
"""The end of an epoch that the log cannot know."""


class Log:
    """Records by id, the start of each leader epoch, and the high watermark.

    `end` is the log end offset: that of the next record. `flushed`: records below it survive every
    crash. `checkpoint` is the high watermark that the next run of the broker begins with.
    """

    __slots__ = (
        "checkpoint",
        "end",
        "epochs",
        "flushed",
        "high_watermark",
        "records",
        "starts",
        "topic_id",
    )

    def __init__(self, topic_id: bytes | None = None) -> None:
        self.topic_id = topic_id
        self.records: list[int] = []
        self.end = 0
        self.epochs: list[int] = []
        self.starts: list[int] = []
        self.flushed = 0
        self.checkpoint = 0
        self.high_watermark = 0

    @property
    def latest_epoch(self) -> int:
        """The latest leader epoch, NO_EPOCH if there is none."""
        return self.epochs[-1] if self.epochs else NO_EPOCH

    def epoch_before(self, offset: int) -> int:
        """The leader epoch of the record before `offset`, NO_EPOCH if there is none."""
        place = bisect_left(self.starts, offset)
        return self.epochs[place - 1] if place else NO_EPOCH

    def start_epoch(self, epoch: int, offset: int) -> None:
        """A leader epoch begins at `offset`, unless it has begun before (assign)."""
        if self.epochs and self.epochs[-1] == epoch:
            return
        # Entries that contradict the new one are removed (maybeTruncateNonMonotonicEntries).
        while self.epochs and (self.epochs[-1] >= epoch or self.starts[-1] >= offset):
            self.epochs.pop()
            self.starts.pop()
        self.epochs.append(epoch)
        self.starts.append(offset)

    def append(self, epoch: int, records: Sequence[int]) -> int:
        """Append records of one leader epoch; return the offset of the first."""
        offset = self.end
        if not self.epochs or self.epochs[-1] != epoch:
            self.start_epoch(epoch, offset)
        self.records += records
        self.end = offset + len(records)
        return offset

    def read(self, offset: int, end: int) -> tuple[RecordBatch, ...]:
        """The records from `offset` up to `end`, a batch for each leader epoch."""
        batches = []
        place = bisect_right(self.starts, offset) - 1
        while offset < end:
            following = self.starts[place + 1] if place + 1 < len(self.starts) else end
            until = min(following, end)
            batches.append(
                RecordBatch(self.epochs[place], offset, tuple(self.records[offset:until]))
            )
            offset = until
            place += 1
        return tuple(batches)

    def end_of(self, epoch: int) -> tuple[int, int]:
        """The largest leader epoch up to `epoch`, and the offset where it ends (endOffsetFor)."""
        if epoch == NO_EPOCH or not self.epochs:
            return UNKNOWN_END
        if self.epochs[-1] == epoch:
            return epoch, self.end
        higher = bisect_right(self.epochs, epoch)
        if higher == len(self.epochs):
            return UNKNOWN_END
        if higher == 0:
            return epoch, self.starts[0]
        return self.epochs[higher - 1], self.starts[higher]

    def truncate(self, end: int) -> None:
        """Remove the records from `end` on, and the epochs that begin there."""
        del self.records[end:]
        self.end = len(self.records)
        while self.starts and self.starts[-1] >= end:
            self.starts.pop()
            self.epochs.pop()
        self.flushed = min(self.flushed, end)
        self.high_watermark = min(self.high_watermark, end)
