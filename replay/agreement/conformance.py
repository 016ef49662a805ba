"""Reads an imported log and checks each of its controllers against the fold."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

from msgspec import structs

from controller.core import znodes
from controller.core.configuration import Configuration
from eventstore.records import EventRecord
from replay.agreement.assumptions import Assumptions, Choices
from replay.agreement.broker_requests.comparing import compare_term
from replay.agreement.broker_requests.request_log import (
    UnreadableError,
    request_in_log,
)
from replay.agreement.broker_requests.sent_request import SentRequest
from replay.agreement.broker_requests.settled_requests import settled_requests
from replay.agreement.broker_requests.state_change_log import StateChangeRequests
from replay.agreement.broker_requests.unknown_calls import NEVER, UnknownCalls
from replay.agreement.conformance_result import ConformanceResult
from replay.agreement.decisions.judgements import Judgement, judge_without_election
from replay.agreement.decisions.observed import DecisionEvent, pair_decisions
from replay.agreement.decisions.write_batch import StockDecision
from replay.agreement.kraft_terms import KraftSessions, add_terms
from replay.agreement.logs.broker_responses import response_of_line, response_of_request
from replay.agreement.logs.index import BrokerLogIndex, operations_of, path_of
from replay.agreement.logs.log_ends import REQUEST_LOG, STATE_CHANGE_LOG, DamagedPart
from replay.agreement.logs.markers import marker_of
from replay.agreement.trace.controller_trace import ControllerTrace
from replay.agreement.trace.unmatched_decisions import EXPIRY_MS, unmatched_decisions
from replay.parsed_znodes import parsed_epoch
from replay.stock_clusters.imported_log.events import (
    ControllerLogged,
    ImportEnded,
    RequestInferred,
    RequestServed,
    StateChangeLogged,
    TransactionsMissing,
)
from replay.stock_clusters.imported_log.reading import ImportedRecord
from replay.stock_clusters.imported_log.state_events import apply
from replay.stock_clusters.zookeeper_log.restoring import ZooKeeperState
from replay.stock_clusters.zookeeper_log.transactions import (
    Check,
    CloseSession,
    Multi,
    Transaction,
)
from replay.znode_view import Overlay, ZnodeView

_NS: Final = 1_000_000
_PROTOCOL: Final = "inter.broker.protocol.version"
_DELETES: Final = "delete.topic.enable"
_ELECTIONS: Final = ("election", "controller_epoch")
_TIMEOUT_MS: Final = 18_000
"""The session timeout, if the log does not have the beginning of the session."""

Follow = Callable[[ControllerTrace], None]


class ConformanceChecker:
    """Checks one gap-free range of a log, once."""

    def __init__(
        self,
        state: ZooKeeperState,
        chroot: str,
        configuration: Configuration,
        index: BrokerLogIndex,
        given: Mapping[str, str],
        follow: Follow | None = None,
        choices: Choices | None = None,
    ) -> None:
        """`state` is the one before the first record, and is changed. `given` settings take
        precedence over what the log shows. `follow` is called with each session that takes part in
        an election; its fold then stays where the log ends, and the decisions that it waits for are
        not judged. `choices` has the assumptions."""
        self._given = given
        self._choices = choices or Choices()
        self.settings: dict[str, str] = dict(given)
        """By Kafka's names, the values of all processes that were controller."""
        self._state = state
        self._configuration = configuration
        self._follow = follow
        self.index = index
        self._view = ZnodeView(self._state.tree, chroot)
        self._controllers: dict[int, ControllerTrace] = {}
        self._free: Overlay = {}
        self._unsent: dict[int, dict[str, None]] = {}
        self._cut: set[int] = set()
        self._closed: dict[int, tuple[int, int]] = {}
        self._warm_session, self._warm_epoch = _role(self._view)
        self._sessions_before = frozenset(self._state.sessions)
        self._is_begun = self._lacks_election = False
        self._lines = StateChangeRequests()
        self._logged: dict[int, list[SentRequest]] = defaultdict(list)
        self._served: dict[int, dict[int, list[SentRequest]]] = defaultdict(
            lambda: defaultdict(list)
        )
        self._sent: dict[int, list[SentRequest]] = defaultdict(list)
        self._unknown_calls: dict[int, int] = {}
        self._elected: set[int] = set()
        self._waits_ms: dict[int, int] = {}
        """How long it takes until a session of a controller that hangs has expired."""
        self._last_seq = 0
        self._kraft = KraftSessions(self._view)
        at_start = self._kraft.at_start
        self.result = ConformanceResult(kraft_terms=[at_start] if at_start else [])
        self._known: ConformanceResult | None = None
        self.learned: Mapping[int, Configuration] = {}
        """Settings of controllers by session, if they are known from elsewhere."""

    @property
    def notes(self) -> list[str]:
        """Notes about the brokers' logs, after the check."""
        logs = self.index.request_logs_of
        unlogged = sorted(self._elected - logs) if logs else []
        text = "was controller and has no request log, but other brokers have: its requests"
        inferred = [f"broker {one} {text} are inferred" for one in unlogged]
        return [*inferred, *self.index.coverage.notes]

    def run(self, records: Iterable[ImportedRecord]) -> ConformanceResult:
        """Read the log's records."""
        self.advance(records)
        return self.finish()

    def assume(self, assumptions: Assumptions, *, is_recorded: bool) -> None:
        """Continue under other assumptions."""
        self._choices.assume(assumptions, is_recorded=is_recorded)

    @property
    def choices(self) -> Choices:
        """The choices that were made so far, if they are recorded."""
        return self._choices

    @property
    def is_outdated(self) -> bool:
        """Whether the index shows by now that a controller has other settings than supposed."""
        seen = self.seen_settings
        return any(
            seen[session] != one.fold.controller.configuration
            for session, one in self._controllers.items()
        )

    @property
    def seen_settings(self) -> dict[int, Configuration]:
        """The settings of the controllers, as the index shows them by now, by session."""
        return {
            session: self._of_broker(session, one.broker)
            for session, one in self._controllers.items()
        }

    def advance(self, records: Iterable[ImportedRecord]) -> None:
        """Read the next records, each transaction together with its classification."""
        for record, event, found in pair_decisions(records):
            if self._known is None and not self._is_known(record):
                self._judge_known()
                if self.index.coverage.is_cut or self._follow:
                    break
            if not isinstance(event, ImportEnded):
                self._last_seq = record.seq
            time_ms = record.wall_ns // _NS
            for one in self._controllers.values():
                one.advance(record.seq, time_ms, self._state.zxid)
            match event:
                case Transaction():
                    self._transaction(record, event, found)
                case ControllerLogged():
                    self._line(record, event)
                case StateChangeLogged():
                    self._state_change(record, event)
                case RequestServed():
                    self._request(record, event)
                case TransactionsMissing():
                    self._lacks_election = not self._is_begun
                case _:
                    apply(self._state, event)

    def _is_known(self, record: EventRecord) -> bool:
        """Whether the log has all transactions up to a record."""
        is_before = record.wall_ns // _NS < self.index.coverage.known_ms
        return is_before or record.seq <= self.index.last_transaction

    def finish(self) -> ConformanceResult:
        """The result, after all records."""
        if self._known is None:
            self._judge_known()
        assert self._known is not None, "it was just judged"
        for one in () if self._follow else self._controllers.values():
            self._known.undecided += unmatched_decisions(one, self.index.last_transaction)
        return self._known

    def _judge_known(self) -> None:
        """Judge the log so far: after its last transaction, ZooKeeper's state is unknown. Later
        decisions of the fold are undecided."""
        for one in self._controllers.values():
            self._end(one, self.index.last_transaction, self.index.coverage.known_ms)
        self._compare_requests()
        self.result.malformed_lines = self._lines.malformed.copy()
        self.result.is_cut = self.index.coverage.is_cut
        self.result.cut_logs = self.index.coverage.cut_logs
        self._known, self.result = self.result, ConformanceResult()

    def take_settled(self) -> ConformanceResult:
        """Remove and return what was judged so far, so that memory does not grow with the log: the
        verdicts on decisions, and requests of which no log differs."""
        for one in self._controllers.values():
            if one.checkpoint is not None:
                # Going back would undo this.
                continue
            self._note_judgements(one, one.compared.take_judgements())
            for sent in one.fold.take_sent():
                self._sent[sent.controller_epoch].append(sent)
        taken, self.result = self.result, ConformanceResult()
        for epoch in sorted({*self._sent, *self._logged}):
            if self._compares(epoch):
                self._take_settled_requests(epoch, taken)
            else:
                self._sent.pop(epoch, None)
                self._logged.pop(epoch, None)
        return taken

    def _take_settled_requests(self, epoch: int, taken: ConformanceResult) -> None:
        sent, logged = self._sent.get(epoch, []), self._logged.get(epoch, [])
        controller = next((one.controller for one in (*sent, *logged)), None)
        if controller is None:
            return
        term = (controller, epoch)
        has_log = any(broker == controller for broker, _ in self.index.state_changes_of)
        span = self.index.coverage.state_changes(term)
        settled, rest, left = settled_requests(sent, logged, span, has_log=has_log)
        taken.requests[epoch] = settled
        for requests, others in ((self._sent, rest), (self._logged, left)):
            requests.pop(epoch, None)
            if others:
                requests[epoch] = others

    def _transaction(
        self, record: EventRecord, one: Transaction, found: DecisionEvent | None
    ) -> None:
        self._is_begun = True
        if found is not None:
            self._decision(record, one, found)
        changes = self._view.changes(one)
        self._choices.record_changes(record.seq, changes)
        if (znodes.CONTROLLER, "created") in changes:
            epoch = self._view.find(znodes.CONTROLLER_EPOCH)
            self._free = {znodes.CONTROLLER: None, znodes.CONTROLLER_EPOCH: epoch}
            self._lacks_election = False
        if isinstance(one.content, CloseSession) and one.session in self._controllers:
            ended = self._controllers.pop(one.session)
            self._closed[ended.epoch] = (record.seq, one.time_ms)
            self._end(ended, record.seq, one.time_ms)
        self._state.apply(one)
        for controller in self._controllers.values():
            controller.change(changes)

    def _decision(self, record: EventRecord, one: Transaction, found: DecisionEvent) -> None:
        is_of_broker = one.session in self._controllers
        kraft = self._kraft.term_of(one, found, is_of_broker=is_of_broker)
        if kraft is not None:
            add_terms(self.result.kraft_terms, [structs.replace(kraft, decisions=1)])
            return
        is_input = isinstance(found, RequestInferred)
        if isinstance(found, RequestInferred):
            self.result.inputs += 1
        controller = self._controllers.get(one.session)
        what = "input" if isinstance(found, RequestInferred) else found.what
        error = 0 if isinstance(found, RequestInferred) else found.error
        if self._lacks_election and not error and what not in _ELECTIONS:
            self._lacks_election = False
            if one.session != self._warm_session:
                # The session's election is among the transactions missing before the first one.
                self._warm_session, self._warm_epoch = one.session, self._warm_epoch + 1
        if not self._warm_session and self._is_of_term_before(one, found):
            self._warm_session = one.session
        if controller is None and self._is_warm(one.session, found):
            self.result.warm += not is_input
            return
        decision = StockDecision(
            record.seq,
            one.zxid,
            one.time_ms,
            what,
            error,
            tuple((self._view.in_kafka(path_of(each)) or "", each) for each in operations_of(one)),
            is_input,
        )
        if controller is None and what not in _ELECTIONS:
            self.result.judgements.append(judge_without_election(decision, found.broker))
            return
        if controller is None:
            controller = self._new(one.session, found.broker)
            controller.advance(record.seq, one.time_ms, self._state.zxid)
        overlay = self._free if what == "election" and error else {}
        if isinstance(found, RequestInferred):
            controller.infer(self.index.inferred.whole_request(found))
        controller.decide(decision, overlay)

    def _is_warm(self, session: int, found: DecisionEvent) -> bool:
        """Whether the decision belongs to a term that began before the log, also if it was refused.

        The session of such a term may be elected again.
        """
        if session == self._warm_session:
            return isinstance(found, RequestInferred) or found.what != "election"
        if isinstance(found, RequestInferred) or not found.error:
            return False
        return found.warm or session in self._sessions_before

    def _is_of_term_before(self, one: Transaction, found: DecisionEvent) -> bool:
        """Whether the session was controller before the log, was deposed before it, and has not
        noticed yet; no other session was elected since."""
        if isinstance(found, RequestInferred) or not found.warm or found.error:
            return False
        guard = one.content.operations[0] if isinstance(one.content, Multi) else None
        epoch = self._view.find(znodes.CONTROLLER_EPOCH)
        if not isinstance(guard, Check) or epoch is None:
            return False
        return one.session in self._sessions_before and guard.version == epoch.version + 1

    def _new(self, session: int, broker: int) -> ControllerTrace:
        controller = ControllerTrace(
            session,
            broker,
            self.learned.get(session) or self._of_broker(session, broker),
            self._view,
            self.index,
            self._choices,
        )
        if session not in self.index.starts:
            controller.fold.controller.unsent.update(self._unsent.get(broker, {}))
        self._controllers[session] = controller
        self._waits_ms[session] = self._state.sessions.get(session, _TIMEOUT_MS) + EXPIRY_MS
        if self._follow:
            self._follow(controller)
        return controller

    def _of_broker(self, session: int, broker: int) -> Configuration:
        """The settings of a broker's process."""
        configuration = structs.replace(self._configuration, broker_id=broker, is_broker=True)
        shown = {
            _PROTOCOL: self.index.protocol_version(session),
            _DELETES: str(session not in self.index.keeps_topics).lower(),
        }
        self._note_settings(shown)
        used = {**shown, **self._given}
        return structs.replace(
            configuration,
            inter_broker_protocol_version=used[_PROTOCOL],
            delete_topic_enable=used[_DELETES] == "true",
        )

    def _note_settings(self, shown: Mapping[str, str]) -> None:
        """Add the settings that the log shows for a process to `settings`, except given ones."""
        for key, value in shown.items():
            values = self.settings.get(key, "").split(", ")
            if key not in self._given and value not in values:
                self.settings[key] = ", ".join(one for one in (*values, value) if one)

    def _line(self, record: EventRecord, logged: ControllerLogged) -> None:
        if self.index.is_consumed(record.seq):
            return
        found = marker_of(logged)
        for one in self._controllers.values():
            if one.broker == logged.broker and self.index.coverage.has_lines(one.session):
                if found is not None:
                    one.on_event_line(found)
                else:
                    one.on_failover_line(logged.text)

    def _state_change(self, record: EventRecord, event: StateChangeLogged) -> None:
        malformed = self._lines.malformed.total()
        requests = self._lines.add(event, record.seq)
        if self._lines.malformed.total() > malformed:
            self._note_damage(STATE_CHANGE_LOG, event.broker, record)
        for sent in requests:
            if event.epoch in self._closed:
                # The controller does not know yet that its session is over; it decides nothing.
                continue
            self._logged[event.epoch].append(self._with_cause(sent))
            for one in self._controllers.values():
                if one.broker == event.broker and one.epoch == event.epoch:
                    one.kafka_sent(sent)
        if event.what != "response":
            return
        found = response_of_line(event)
        for one in self._controllers.values():
            if found and one.broker == event.broker and one.epoch == event.epoch:
                one.answered(found)

    def _note_damage(self, log: str, broker: int, record: EventRecord) -> None:
        time_ms = record.wall_ns // _NS
        self.result.damaged_parts.append(DamagedPart(log, broker, time_ms, time_ms))

    def _request(self, record: EventRecord, event: RequestServed) -> None:
        seq = record.seq
        for one in self._controllers.values():
            if one.broker == event.broker:
                one.served(seq)
        try:
            sent = request_in_log(event, seq)
        except UnreadableError:
            self.result.unreadable[event.broker] += 1
            self._note_damage(REQUEST_LOG, event.broker, record)
            return
        closed = self._closed.get(sent.controller_epoch) if sent is not None else None
        if sent is not None and (closed is None or event.received_ms <= closed[1]):
            self._served[sent.controller_epoch][event.broker].append(self._with_cause(sent))
        found = response_of_request(event)
        if found is None:
            return
        epoch, answer = found
        for one in self._controllers.values():
            if one.epoch == epoch and (one.broker, epoch) not in self.index.state_changes_of:
                one.answered(answer)

    def _with_cause(self, sent: SentRequest) -> SentRequest:
        """Kafka's request, with the event and rule that the fold is processing."""
        for one in self._controllers.values():
            if one.epoch == sent.controller_epoch:
                return one.fold.with_cause(sent)
        return sent

    def _end(self, one: ControllerTrace, seq: int, time_ms: int) -> None:
        """Judge a session up to its end, or to the last transaction of the log."""
        # A process keeps this state beyond its sessions.
        self._unsent[one.broker] = one.fold.controller.unsent
        self._note_judgements(one, one.judgements)
        self._unknown_calls |= one.unknown_calls
        for sent in one.fold.sent:
            self._sent[sent.controller_epoch].append(sent)
        if one.fold.is_active:
            self._cut.add(one.epoch)
        if not self._follow:
            one.compared.take_judgements()
            self.result.judgements += unmatched_decisions(
                one, seq, time_ms - self._waits_ms[one.session]
            )

    def _note_judgements(self, one: ControllerTrace, judgements: Sequence[Judgement]) -> None:
        self.result.judgements += judgements
        if any(each.epoch for each in judgements):
            self._elected.add(one.broker)

    def _unknown_calls_of(self, controller: int, epoch: int) -> UnknownCalls:
        """A broker that exits does not answer all requests, and no log has the others; nor has the
        end of a request log."""
        coverage = self.index.coverage
        since = coverage.unserved_from(controller)
        has_log = controller in self.index.markers and coverage.has_lines_of((controller, epoch))
        shutdowns_since = NEVER if has_log else since
        return UnknownCalls(min(self._unknown_calls.get(epoch, NEVER), since), shutdowns_since)

    def _compares(self, epoch: int) -> bool:
        """Whether the requests of a term are compared: the log has its beginning, and it is a
        broker's."""
        return epoch > self._warm_epoch and not self._kraft.has_epoch(epoch)

    def _compare_requests(self) -> None:
        """Compare the requests of each term that began in the log."""
        logs = self.index.state_changes_of
        for epoch in sorted({*self._sent, *self._logged, *self._served}):
            if not self._compares(epoch):
                continue
            sent, served = self._sent.get(epoch, []), self._served.get(epoch, {})
            requests = chain(sent, self._logged.get(epoch, ()), *served.values())
            controller = next(one.controller for one in requests)
            term = (controller, epoch)
            has_log = term in logs
            of_logs = {one: served.get(one, []) for one in self.index.request_logs_of}
            sent = [one for one in sent if one.seq < self._last_seq]
            self.result.requests[epoch] = compare_term(
                sent,
                self._logged.get(epoch, []) if has_log else None,
                of_logs,
                is_cut=epoch in self._cut,
                span=self.index.coverage.state_changes(term),
                served_spans={one: self.index.coverage.served(term, one) for one in of_logs},
                unknown_calls=self._unknown_calls_of(controller, epoch),
            )


def _role(view: ZnodeView) -> tuple[int, int]:
    """The session that is controller in the first state, and the last epoch so far; 0: none."""
    holder, epoch = view.find(znodes.CONTROLLER), view.find(znodes.CONTROLLER_EPOCH)
    last = 0 if epoch is None else parsed_epoch(epoch.data) or 0
    return 0 if holder is None else holder.owner, last
