"""Compares a log with the fold while the log is written.

A comparison looks ahead: a request, a line or the end of a session can explain an earlier decision.
So there are two positions in the log. The checker has read the records up to the first one, and
holds the fold's state there. The records after it are the window. After new records, a copy of the
process (`run_forked`) reads the window to its end, compares as `refold agree` does, and reports
what diverges. The checker itself follows some seconds later. Thus the result is always the one of a
log that ends here, and each record is compared a few times, however long the log is.
"""

import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from controller.core.configuration import Configuration
from controller.core.triggers import AutoPreferredReplicaLeaderElection
from replay.agreement.assumptions import (
    NO_ASSUMPTIONS,
    Assumptions,
    Choices,
    ControllerStep,
    OpenChoice,
)
from replay.agreement.comparison import Rules, configuration_of
from replay.agreement.conformance import ConformanceChecker
from replay.agreement.forking import run_forked
from replay.agreement.logs.index import BrokerLogIndex
from replay.agreement.logs.log_ends import DELETION, damaged_parts
from replay.agreement.results import AgreementResult, Divergence, result_of
from replay.agreement.search.event_order import EventOrder
from replay.agreement.search.lost_replies import LostReply
from replay.agreement.search.search import search
from replay.agreement.unjudged_divergences import (
    BrokersWithLogs,
    IncompleteLogs,
    Term,
    may_be_requested,
    remove_divergences,
    term_of,
    unseen_of,
)
from replay.stock_clusters.imported_log.api_requests import STOCK_APIS
from replay.stock_clusters.imported_log.events import (
    DamagedLines,
    DecisionObserved,
    ImportBegun,
    ImportedEvent,
    RequestInferred,
    SessionsRestored,
    ZnodesRestored,
)
from replay.stock_clusters.imported_log.reading import ImportedRecord
from replay.stock_clusters.imported_log.state_events import restore
from replay.stock_clusters.zookeeper_log.restoring import ZooKeeperState
from replay.stock_clusters.zookeeper_log.transactions import Transaction
from replay.znode_view import ZnodeView

SETTLED_MS: Final = 20_000
"""The checker follows this time after the newest record. Another order of the events since then may
explain a divergence, and a broker that does not answer shows when its session expires (18 s)."""
WINDOW_MAX: Final = 50_000
"""A window of more records is compared without waiting for more evidence."""
EVIDENCE_MS: Final = 1_000
"""Evidence about a decision is in the files after this time."""
REQUEST_MS: Final = 3_000
"""A request to brokers is in state-change.log after this time."""
EXTRA_MS: Final = 20_000
"""Without controller.log, a broker that did not answer a request shows when its session expires."""
DELETION_MS: Final = 20_000
"""A topic's deletion depends on the brokers' responses, also on those of a broker that fails
meanwhile. Its knowledge shows when its session ends."""
SHUTDOWN_MS: Final = 61_000
"""Without controller.log, a controlled shutdown only shows when the broker ends its session, up to
60 s later."""
_ORDERS_MAX: Final = 40
SEARCH_SECONDS: Final = 30.0
"""The search for another order of events takes at most this long. During the search nothing is
read."""
_RUNS_MIN: Final = 2
"""A search compares the window once without an assumption, and then at least once with one."""
_RESPONSES: Final = frozenset(
    {"LeaderAndIsrResponseReceived", "TopicDeletionStopReplicaResponseReceived"}
)
_BY_RESPONSES: Final = "topic deletion"
"""The rule whose requests depend on such responses."""
_SUPPOSED: Final = (
    _RESPONSES
    | {AutoPreferredReplicaLeaderElection.__name__}
    | {one.event for one in STOCK_APIS if not one.is_in_zookeeper}
)
"""The controller events that ZooKeeper does not show."""

_Key = tuple[object, ...]
_Run = tuple[AgreementResult, dict[ControllerStep, OpenChoice], list[int], dict[str, list[int]]]
"""The result of a comparison, and what `Choices` has recorded in it."""
_NS: Final = 1_000_000


IsStopping = Callable[[], bool]


def _never() -> bool:
    return False


class _SearchTime:
    """Ends a search before a comparison that would take too long, and if refold stops."""

    def __init__(self, compared_s: float, is_stopping: IsStopping) -> None:
        """`compared_s`: how long a comparison of the window takes."""
        self._compared_s = compared_s
        self._is_stopping = is_stopping
        self._end = time.monotonic() + SEARCH_SECONDS
        self.is_over = False
        """Whether an assumption was not tried for lack of time."""

    def check(self, runs: int = 1) -> bool:
        """Returns whether `runs` more comparisons may begin. If not, the search is over."""
        is_late = time.monotonic() + runs * self._compared_s > self._end
        self.is_over |= is_late or self._is_stopping()
        return not self.is_over


class LiveSettings(Struct, frozen=True):
    """`given` are the brokers' settings that the log does not show, by Kafka's names. `orders` is
    how many other orders of events are tried for a divergence. `sees_refusals`: the log has the
    transactions that ZooKeeper refused."""

    rules: Rules = "kafka"
    given: Mapping[str, str] = {}
    sees_refusals: bool = True
    orders: int = _ORDERS_MAX


class LiveAgreement:
    """The comparison of one log, from its first record on."""

    def __init__(
        self, settings: LiveSettings, learned: Mapping[int, Configuration] = MappingProxyType({})
    ) -> None:
        """`learned` has settings of controllers by session, from a comparison of the same log.

        Raises ReplayError if the settings cannot be used.
        """
        self.unseen_zxids: set[int] = set()
        """Transactions whose znodes had versions in between that were not seen."""
        self._settings = settings
        self._learned = learned
        self._configuration = configuration_of(settings.given, settings.rules)
        self._begun: ImportBegun | None = None
        self._state = ZooKeeperState()
        self._checker: ConformanceChecker | None = None
        self._index: BrokerLogIndex | None = None
        self._window: list[ImportedRecord] = []
        self._zxid = 0
        self._total = AgreementResult()
        self._result = AgreementResult()
        self._assumptions: Assumptions = NO_ASSUMPTIONS
        self._unseen = self._unseen_in_window = 0
        self._lost: dict[Term, int] = {}
        """By broker and epoch of a controller: from which record on it is unknown what it knows."""
        self._known: set[_Key] = set()
        self._explained: list[Divergence] = []
        self._waiting: list[Divergence] = []
        self.damaged: Sequence[DamagedLines] = ()
        """The lines of brokers' logs that could not be parsed so far."""
        self._times_ms: dict[int, int] = {}
        """The wall clock of the records of divergences, by number."""

    @property
    def is_waiting(self) -> bool:
        """Whether a divergence waits for evidence, so that time alone can settle it."""
        return bool(self.undecided)

    @property
    def undecided(self) -> int:
        """At the last comparison: divergences that more evidence could still explain."""
        return self._result.undecided

    @property
    def is_outdated(self) -> bool:
        """Whether the log shows by now that a controller has other settings than supposed. Then
        the log has to be compared from its beginning."""
        return self._checker is not None and self._checker.is_outdated

    @property
    def learned(self) -> Mapping[int, Configuration]:
        """The settings of controllers that the log shows by now, by session."""
        return {**self._learned, **(self._checker.seen_settings if self._checker else {})}

    @property
    def is_behind(self) -> bool:
        """Whether records have not been settled yet that may be by now."""
        return len(self._window) > 1

    @property
    def memory(self) -> int:
        """The number of records, and of entries about earlier ones, that are kept."""
        return len(self._window) + (self._index.size if self._index else 0)

    def add(self, records: Sequence[ImportedRecord]) -> None:
        """Add the next records of the log, each transaction together with its classification."""
        rest = [one for one in records if not self._restore(one[1])]
        if not rest:
            return
        if self._index is None:
            self._begin()
        assert self._index is not None, "the index was begun"
        self._index.extend(rest)
        self._window += rest

    def compare(
        self,
        now_ms: int,
        *,
        is_last: bool = False,
        is_stalled: bool = False,
        is_stopping: IsStopping = _never,
    ) -> list[Divergence]:
        """Compare up to the newest record, and return the divergences that are new and that no
        more evidence can explain. `now_ms`: nothing that was written before this time is unread,
        except transactions if `is_stalled`.

        If `is_stopping` becomes true, the comparison ends early without a result. The last
        comparison counts divergences as undecided if there is no time to try all other orders of
        events.
        """
        if self._checker is None:
            return []
        assert self._index is not None, "the comparison has begun"
        if not is_stalled:
            self._index.coverage.note_known(now_ms - EVIDENCE_MS)
        begun = time.monotonic()
        result = self._compare(Choices(self._assumptions))
        due, self._waiting = self._due(result, now_ms)
        seen = {_key(one) for one in due} - {_key(one) for one in self._after_lost(result)}
        if seen and self._settings.rules == "kafka" and self._settings.orders:
            search_time = _SearchTime(time.monotonic() - begun, is_stopping)
            result = self._search_assumptions(result, search_time)
            due, self._waiting = self._due(result, now_ms)
            if is_last and search_time.is_over:
                due, self._waiting = [], [*due, *self._waiting]
        if is_stopping():
            return []
        result.undecided += remove_divergences(result, self._waiting)
        explained = [one for one in result.divergences if one.explained]
        self._note_times(result)
        unseen = {_key(one) for one in self._unseen_of(result)}
        self._result = self._with_window(result)
        self._explained += explained
        self._known.update(map(_key, due))
        if not is_last:
            self._advance_settled(now_ms)
        return [one for one in due if _key(one) not in unseen]

    @property
    def result(self) -> AgreementResult:
        """The result at the last comparison, without divergences that wait for evidence."""
        return self._result

    @property
    def unseen(self) -> int:
        """The number of decisions up to the last comparison whose reason cannot be seen."""
        return self._unseen + self._unseen_in_window

    def _unseen_of(self, result: AgreementResult, *, is_settled: bool = False) -> list[Divergence]:
        """The divergences for which the files do not show enough to say that a decision differs.
        `is_settled`: note this for the rest of the log."""
        lost = self._lost if is_settled else dict(self._lost)
        incomplete = self._incomplete(result)

        def is_unseen(one: Divergence) -> bool:
            return self._is_unseen(one) or incomplete.reason(one) != ""

        received = [one for one in incomplete.lost_requests(result) if not one.explained]
        known = {_key(one) for one in received}
        others = [one for one in result.divergences if _key(one) not in known]
        return [*received, *unseen_of(others, is_unseen, lost)]

    def _incomplete(self, result: AgreementResult) -> IncompleteLogs:
        """The logs with lines that cannot be parsed."""
        assert self._index is not None, "the comparison has begun"
        damaged = [*damaged_parts(self.damaged), *result.damaged_parts]
        state_changes = {of for of, _ in self._index.state_changes_of}
        brokers = BrokersWithLogs(set(self._index.request_logs_of), state_changes)
        return IncompleteLogs([], damaged, brokers, self._times_ms)

    def _note_times(self, result: AgreementResult) -> None:
        """Note the times of the divergences, whose records may leave the window before they are
        settled: a request is judged when the log of its controller continues."""
        wanted = {one.seq for one in result.divergences}
        known = {seq: ms for seq, ms in self._times_ms.items() if seq in wanted}
        new = {one.seq: one.wall_ns // _NS for one, _ in self._window if one.seq in wanted}
        self._times_ms = known | new

    def _after_lost(self, result: AgreementResult) -> list[Divergence]:
        """The divergences of terms of which it is unknown what the controller knows."""
        return [
            one
            for one in result.divergences
            if one.seq >= self._lost.get(term_of(one), sys.maxsize)
        ]

    def _is_unseen(self, one: Divergence) -> bool:
        """Whether it is unknown which request, timer or response was the reason.

        - Some requests have no line in controller.log.
        - At level INFO responses of brokers have none, so that a decision of the fold may be early,
          and so may be the requests of a topic's deletion. A request whose write was refused has no
          line either; ZooKeeper logs only the error of this write, not its znode.
        - Without controller.log, all these only show by their writes, and no file has the order of
          events. Then a difference counts if both sides have written the znode, in an event that
          ZooKeeper shows.
        """
        if one.zxid in self.unseen_zxids:
            return True
        assert self._index is not None, "the comparison has begun"
        if may_be_requested(one):
            return True
        is_at_info = one.controller not in self._index.coverage.has_debug
        if one.subject == "request":
            return is_at_info and one.cause.rule == _BY_RESPONSES
        if not (self._settings.sees_refusals and self._index.markers.get(one.controller)):
            return one.verdict != "differs" or one.cause.event in _SUPPOSED
        is_early = one.verdict == "extra" or one.cause.event in _RESPONSES
        is_refused = one.verdict == "missing" and one.kind == "refused"
        is_requested = not one.cause.event or one.cause.event in _SUPPOSED
        return is_at_info and (is_early or (is_refused and is_requested))

    def _with_window(self, of_window: AgreementResult) -> AgreementResult:
        """The whole result. Earlier explained divergences count as agreed in the window's
        result."""
        for one in self._explained:
            of_window.explain(one)
        self._unseen_in_window = _take_unseen(of_window, self._unseen_of(of_window))
        total = self._total.copy()
        total.add_range(of_window)
        return total

    # The beginning --------------------------------------------------------------------------------

    def _restore(self, event: ImportedEvent) -> bool:
        """Take a part of the first state; False for other events."""
        if self._index is not None:
            return False
        if isinstance(event, ImportBegun):
            self._begun = event
            return True
        if isinstance(event, (SessionsRestored, ZnodesRestored)):
            restore(self._state, event)
            return True
        return False

    def _begin(self) -> None:
        assert self._begun is not None, "a log begins with its first state"
        chroot = self._begun.chroot
        self._zxid = self._state.zxid = self._state.exact_from = self._begun.zxid
        self._index = BrokerLogIndex((), chroot, ZnodeView(self._state.tree, chroot))
        self._checker = ConformanceChecker(
            self._state, chroot, self._configuration, self._index, self._settings.given
        )
        self._checker.learned = self._learned

    # Comparing the window -------------------------------------------------------------------------

    def _compare(self, choices: Choices) -> AgreementResult:
        """The result for the window under the assumptions of `choices`, which gets the choices that
        were made."""
        checker, window = self._checker, self._window
        assert checker is not None, "the comparison has begun"

        def work() -> _Run:
            checker.assume(choices.assumptions, is_recorded=choices.is_recorded)
            checker.advance(window)
            result = result_of(checker.finish(), "")
            result.settings, result.notes = checker.settings, [*result.notes, *checker.notes]
            made = checker.choices
            return result, made.made, made.repeated, dict(made.changed)

        result, choices.made, choices.repeated, changed = run_forked(work)
        choices.changed.update(changed)
        # The log continues, so its end says nothing.
        result.is_cut, result.cut_logs = False, []
        return result

    def _search_assumptions(
        self, unexplained: AgreementResult, search_time: _SearchTime
    ) -> AgreementResult:
        """The result for the window under the assumptions that explain most divergences;
        `unexplained` if the search would take too long."""
        if not search_time.check(_RUNS_MIN):
            return unexplained
        run = search(
            self._compare,
            (LostReply(), EventOrder(self._settings.orders)),
            len(self._window),
            self._assumptions,
            search_time.check,
        )
        self._assumptions = run.choices.assumptions
        return run.result

    def _due(
        self, result: AgreementResult, now_ms: int
    ) -> tuple[list[Divergence], list[Divergence]]:
        """The new divergences that are final, and those that wait for evidence. One that waits may
        be the reason of later ones, which wait as well."""
        fresh = [
            one for one in result.divergences if not one.explained and _key(one) not in self._known
        ]
        for place, one in enumerate(fresh):
            if self._time_ms(one.seq) + self._evidence_ms(one) > now_ms:
                if len(self._window) > WINDOW_MAX:
                    break
                return fresh[:place], fresh[place:]
        return fresh, []

    def _evidence_ms(self, one: Divergence) -> int:
        """How long the evidence about a divergence may still come."""
        assert self._index is not None, "the comparison has begun"
        if one.subject == "request":
            return REQUEST_MS
        if one.kind == DELETION:
            return DELETION_MS
        if self._index.markers.get(one.controller):
            return EVIDENCE_MS
        if one.verdict == "missing" and one.kind == "partition_state":
            return SHUTDOWN_MS
        return EXTRA_MS if one.verdict == "extra" else EVIDENCE_MS

    def _time_ms(self, seq: int) -> int:
        place = bisect_left(self._window, seq, key=lambda one: one[0].seq)
        return self._window[place][0].wall_ns // _NS if place < len(self._window) else 0

    # Following ------------------------------------------------------------------------------------

    def _advance_settled(self, now_ms: int) -> None:
        """Let the checker read the records that need no further comparison."""
        checker, index = self._checker, self._index
        assert checker is not None, "the comparison has begun"
        assert index is not None, "the comparison has begun"
        # After the last transaction ZooKeeper's state is unknown.
        first = min((min(one.since, one.seq) for one in self._waiting), default=sys.maxsize)
        first = min(first, index.last_transaction)
        place = 0
        for record, _ in self._window:
            if record.wall_ns // _NS + SETTLED_MS > now_ms or record.seq >= first:
                break
            place += 1
        while place and self._is_classification(place):
            place -= 1
        if not place:
            return
        settled, self._window = self._window[:place], self._window[place:]
        checker.assume(self._assumptions, is_recorded=False)
        checker.advance(settled)
        result = result_of(checker.take_settled(), "")
        self._unseen += _take_unseen(result, self._unseen_of(result, is_settled=True))
        self._total.add_range(result)
        last = settled[-1][0].seq
        for one in self._explained:
            if one.seq <= last:
                self._total.explain(one)
        self._explained = [one for one in self._explained if one.seq > last]
        zxids = [event.zxid for _, event in settled if isinstance(event, Transaction)]
        self._zxid = max([self._zxid, *zxids])
        index.forget(last, self._zxid)

    def _is_classification(self, place: int) -> bool:
        """Whether the record belongs to the transaction before it."""
        is_there = place < len(self._window)
        return is_there and isinstance(self._window[place][1], (DecisionObserved, RequestInferred))


def _take_unseen(result: AgreementResult, unseen: Sequence[Divergence]) -> int:
    """Remove divergences, and count their requests as not judged. Returns the number of the
    decisions."""
    remove_divergences(result, unseen)
    decisions = sum(one.subject == "decision" for one in unseen)
    result.requests.unjudged += len(unseen) - decisions
    return decisions


def _key(one: Divergence) -> _Key:
    """Identifies a divergence that is found again when the log is compared again."""
    return (one.subject, one.kind, one.seq, one.zxid, one.broker, one.paths)
