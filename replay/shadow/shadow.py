"""Follows a stock cluster: reads what it writes, compares, and reports differences."""

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Protocol

from controller.escaping import escape_unprintable
from controller.structured_log import utc_time
from eventstore.reader import LogReader
from replay.agreement.live import EVIDENCE_MS, IsStopping, LiveAgreement, LiveSettings
from replay.agreement.records_between import with_records_between
from replay.agreement.results import Divergence
from replay.logs.decode import UPCASTERS
from replay.shadow.status import ShadowStatus, status_of, write_status
from replay.shadow.summary import ShadowResult
from replay.stock_clusters.imported_log.encoding import event_of
from replay.stock_clusters.imported_log.reading import ImportedRecord, open_imported
from replay.stock_clusters.imports.following import FollowedImport

POLL_SECONDS: Final = 0.5
"""How often the files are read."""
_STATUS_SECONDS: Final = 60.0
_BATCH: Final = 20_000
"""Transactions that are read and compared at once."""
_LAST_READING_SECONDS: Final = 5.0
_NS: Final = 1_000_000

logger = logging.getLogger(__name__)

Begin = Callable[[int], FollowedImport]
"""Begins a log: the first one with 0, a later one after missing transactions, which follow this
zxid."""


class MonotonicClock(Protocol):
    """A monotonic clock in seconds."""

    def __call__(self) -> float: ...


class Shadow:
    """One run. `step` does what is due; the caller waits between the steps."""

    def __init__(
        self,
        begin: Begin,
        settings: LiveSettings,
        clock: MonotonicClock = time.monotonic,
        metrics: Path | None = None,
        is_stopping: IsStopping = lambda: False,
    ) -> None:
        """`metrics` is a file for Prometheus. If `is_stopping` becomes true, a step ends soon, and
        `end` repeats its comparison. Raises ReplayError, LogError."""
        self._is_stopping = is_stopping
        self._metrics = metrics
        self._begin = begin
        self._settings = settings
        self._clock = clock
        self._import = begin(0)
        self._live = LiveAgreement(settings)
        self._live.unseen_zxids = self._import.unseen_zxids
        self._before = ShadowResult()
        self._reported: set[tuple[object, ...]] = set()
        self._kraft_terms: set[str] = set()
        self._last_ms = 0
        self._read_at = clock()
        self._not_before = self._next_status = 0.0
        self._stalled = ""
        self._has_caught_up = False
        self._is_connected = True

    @property
    def memory(self) -> int:
        """The number of records, and of entries about earlier ones, that are kept."""
        return self._live.memory

    @property
    def is_at_end(self) -> bool:
        """Whether everything that the cluster has written was read."""
        return self._import.is_at_end

    @property
    def _is_stalled(self) -> bool:
        """Whether ZooKeeper may have written transactions that cannot be read."""
        followed = self._import
        return bool(self._stalled) or followed.gap is not None or followed.known_ms is not None

    def step(self) -> list[Divergence]:
        """Read and compare; log and return the new divergences. Raises ReplayError, LogError."""
        now = self._clock()
        has_read = self._read_records(now)
        if self._import.gap is not None:
            return self._after_gap()
        found: list[Divergence] = []
        if (has_read or self._live.is_waiting or self._live.is_behind) and now >= self._not_before:
            found = self._compare(is_stopping=self._is_stopping)
            # At most half of a core.
            done = self._clock()
            self._not_before = done + (done - now)
            if self.is_at_end and not self._has_caught_up:
                self._has_caught_up, self._next_status = True, now
        self._warn_of_kraft_terms()
        is_connected = self._import.known_ms is None
        is_due = now >= self._next_status or is_connected != self._is_connected
        self._is_connected = is_connected
        if is_due or found:
            status = self._publish(self._total())
            if is_due:
                self._next_status = now + _STATUS_SECONDS
                logger.info("%s", _in_counts(status))
        return found

    def end(self) -> ShadowResult:
        """Read the rest, and end the log. Raises ReplayError, LogError."""
        until = self._clock() + _LAST_READING_SECONDS
        while self._clock() < until and self._import.gap is None:
            self._read_records(self._clock())
            if self._import.is_at_end:
                break
            time.sleep(POLL_SECONDS / 5)
        self._compare(is_last=True)
        return self._ended()

    def abandon(self) -> None:
        """End without a summary: after an error."""
        self._import.abandon()

    # Reading and comparing ------------------------------------------------------------------------

    def _read_records(self, now: float) -> bool:
        """Read the next records, which the next comparison takes into account. Returns whether
        there were any."""
        records = self._import.read(_BATCH, now)
        if records:
            self._last_ms, self._read_at = records[-1][0].wall_ns // _NS, now
            self._before.records += len(records)
            self._live.add(records)
        self._warn_if_stalled()
        return bool(records)

    def _warn_if_stalled(self) -> None:
        """Log a warning, once for each reason, if ZooKeeper's log cannot be read further."""
        if self._import.stalled != self._stalled:
            self._stalled = self._import.stalled
            if self._stalled:
                logger.warning("ZooKeeper's log cannot be read further: %s", self._stalled)

    def _compare(
        self, *, is_last: bool = False, is_stopping: IsStopping = lambda: False
    ) -> list[Divergence]:
        if self._live.is_outdated:
            self._compare_again()
        self._live.damaged = self._import.damaged_lines
        found = self._live.compare(
            self._now_ms(), is_last=is_last, is_stalled=self._is_stalled, is_stopping=is_stopping
        )
        new = [one for one in found if _key(one) not in self._reported]
        for one in new:
            self._reported.add(_key(one))
            logger.warning(
                "%s", _in_words(one), extra={"fields": {"code": f"shadow_{one.verdict}"}}
            )
        return new

    def _warn_of_kraft_terms(self) -> None:
        """Log a warning, once for each term, if a KRaft controller has taken the role."""
        for one in self._live.result.kraft_terms:
            if one.name not in self._kraft_terms:
                self._kraft_terms.add(one.name)
                logger.warning(
                    "%s took the role: its decisions are not judged, because it does not decide by "
                    "the rules of a controller in ZooKeeper mode",
                    one.name,
                    extra={"fields": {"code": "shadow_kraft"}},
                )

    def _now_ms(self) -> int:
        """The time up to which everything was read, by the cluster's clock."""
        waited = int((self._clock() - self._read_at) * 1000) if self._import.is_at_end else 0
        return self._last_ms + waited

    def _compare_again(self) -> None:
        """Compare the log from its beginning: it shows by now which settings the brokers have."""
        logger.info("the brokers' settings show now: the log is compared again from its beginning")
        learned = self._live.learned
        self._live = LiveAgreement(self._settings, learned)
        self._live.unseen_zxids = self._import.unseen_zxids
        self._live.damaged = self._import.damaged_lines
        with LogReader.open(self._import.folder, UPCASTERS) as reader:
            for batch in _batches(reader):
                self._live.add(batch)
                self._live.compare(batch[-1][0].wall_ns // _NS, is_stalled=self._is_stalled)

    def _after_gap(self) -> list[Divergence]:
        """End the log where transactions are missing, and begin another one after them."""
        gap = self._import.gap
        assert gap is not None, "transactions are missing"
        logger.warning("%s: the comparison continues after them, with another log", gap)
        found = self._compare()
        self._before = self._ended()
        self._import = self._begin(gap.after)
        self._live = LiveAgreement(self._settings)
        self._live.unseen_zxids = self._import.unseen_zxids
        return found

    # The result -----------------------------------------------------------------------------------

    def _ended(self) -> ShadowResult:
        """End the log, and return the result of the run so far."""
        known_ms = 0 if self._is_stalled else self._now_ms() - EVIDENCE_MS
        self._import.end((), known_ms)
        result = self._live.result
        if result.divergences:
            with LogReader.open(self._import.folder, UPCASTERS) as reader:
                with_records_between(result, open_imported(reader))
        total = self._total()
        self._publish(total)
        return total

    def _total(self) -> ShadowResult:
        """The result of the run so far: of the logs before, and of this one."""
        live, followed = self._live, self._import
        total = self._before.copy()
        total.add_range(live.result)
        total.logs.append(escape_unprintable(followed.folder))
        total.source = total.logs[-1]
        total.unseen_decisions += live.unseen
        total.unseen_versions += followed.unseen_versions
        total.missing_transactions += followed.begun.missing
        total.altered += followed.altered
        total.add_damage(followed.damaged)
        total.is_cut = bool(followed.stalled) or followed.known_ms is not None
        total.zxid = followed.zxid
        total.notes += [one for one in followed.notes if one not in total.notes]
        if followed.known_ms is not None:
            since = utc_time(followed.known_ms / 1000)
            total.notes.append(
                f"there was no connection to ZooKeeper after {since}: later changes are unknown"
            )
        return total

    def _publish(self, total: ShadowResult) -> ShadowStatus:
        status = status_of(total, self._import.known_ms)
        write_status(status, self._import.folder, self._metrics)
        return status


def _in_counts(status: ShadowStatus) -> str:
    decisions, requests = status.decisions, status.requests
    kraft = status.kraft_decisions
    of_kraft = f" {kraft} of KRaft controllers," if kraft else ""
    blind = "" if status.connected else f"{status.without_connection}; "
    return (
        f"{blind}up to zxid {status.zxid:#x}: {decisions.agreed} decisions agreed,"
        f" {decisions.different} differ, {decisions.unseen} unseen,{of_kraft}"
        f" {status.undecided} wait for evidence; {requests.agreed} requests agreed,"
        f" {requests.different} differ, {requests.unseen} unseen"
    )


def _batches(reader: LogReader) -> Iterator[list[ImportedRecord]]:
    """The records of a log. A batch never ends between a transaction and its classification."""
    batch: list[ImportedRecord] = []
    for record in reader.events():
        if len(batch) >= _BATCH and record.cause is None:
            yield batch
            batch = []
        batch.append((record, event_of(record)))
    if batch:
        yield batch


def _key(one: Divergence) -> tuple[object, ...]:
    return (one.subject, one.kind, one.zxid or one.seq, one.broker, one.paths)


def _in_words(one: Divergence) -> str:
    zxid = f" zxid {one.zxid:#x}" if one.zxid else ""
    where = f"broker {one.broker} epoch {one.epoch}"
    text = f"{one.verdict} {one.kind}{zxid}, {where}: {' '.join(one.paths)}".rstrip(": ")
    cause = f" (refold was processing {one.cause})" if one.cause.event else ""
    return f"{text}: {'; '.join(one.differences)}{cause}"
