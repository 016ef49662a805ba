"""One server of an ensemble.

A member that does not lag shares the leader's state. A member that lags has a copy of the state,
and applies each transaction later; its reads and watches come from the copy.
"""

from collections import deque
from collections.abc import Callable

from replay.world.ensemble.client import EnsembleClient, EnsembleContext
from replay.world.ensemble.protocol import CloseSession, CreateSession
from replay.world.ensemble.transactions import Transaction
from replay.world.zookeeper import ZooKeeper


class Member:
    """A server and its clients."""

    def __init__(self, ensemble: EnsembleContext, number: int) -> None:
        self._ensemble = ensemble
        self.number = number
        self.is_alive = True
        self.view: ZooKeeper = ensemble.state
        self._clients: dict[EnsembleClient, None] = {}
        self._lag_transactions = 0
        self._lag_us = 0
        self._backlog: deque[Transaction] = deque()  # bounded by the lag
        self._deferred: deque[Callable[[], None]] | None = None  # bounded by the hang

    @property
    def lags(self) -> bool:
        """Whether the member has its own state."""
        return self.view is not self._ensemble.state

    # Clients

    def add_client(self, client: EnsembleClient) -> None:
        """A client connected."""
        self._clients[client] = None

    def remove_client(self, client: EnsembleClient) -> None:
        """A client's connection ended."""
        self._clients.pop(client, None)
        session = client.session
        if session is not None and session.client is client and self.view.is_live(session.id):
            self.view.disconnect(session.id)

    def end_clients(self) -> None:
        """End all connections."""
        for client in list(self._clients):
            client.end()

    def defer(self, action: Callable[[], None]) -> bool:
        """Do an action later if the member hangs. Returns whether it does.

        A member that hangs in an ensemble that hangs too keeps its own order: what arrived first is
        done first, whichever wakes first."""
        if self._deferred is None:
            return self._ensemble.defer(action)
        self._deferred.append(action)
        return True

    # Faults

    def lag(self, transactions: int, lag_us: int) -> None:
        """Apply each transaction `lag_us` after its commit, or once `transactions` later ones are
        committed, whichever is first. Without both, lag no more."""
        self._lag_transactions, self._lag_us = transactions, lag_us
        self._share_state()

    def hang(self) -> None:
        """Do nothing until `end_hang`."""
        if self._deferred is None:
            self._deferred = deque()  # bounded by the hang
        self._share_state()

    def end_hang(self) -> None:
        """Apply the transactions that are due, then do what was deferred, in order."""
        deferred, self._deferred = self._deferred, None
        self._share_state()
        self._apply_due()
        for action in deferred or ():
            if not self.defer(action):
                action()

    def stop(self) -> None:
        """Lose the state, the connections and what was deferred. A later start begins with the
        leader's state."""
        self._deferred = None
        self.end_clients()
        self._backlog.clear()
        self.view = self._ensemble.state

    def start(self) -> None:
        """Serve again, with the lag that was set before."""
        self._share_state()

    # Transactions

    def on_commit(self, transaction: Transaction) -> None:
        """A transaction was committed, and this member lags."""
        self._backlog.append(transaction)
        if self._lag_us:
            self._ensemble.scheduler.call_at(transaction.at_us + self._lag_us, self._apply_due)
        self._apply_due()

    def await_zxid(self, zxid: int) -> None:
        """A client waits for a transaction. Applies waiting transactions up to it, unless the
        member lags by time or hangs."""
        if not self._lag_us and self._deferred is None:
            while self._backlog and self.view.zxid < zxid:
                self._apply_next()

    def _share_state(self) -> None:
        """Share the leader's state or not, as the faults require."""
        is_hung = self._deferred is not None
        is_behind = self.is_alive and bool(self._lag_transactions or self._lag_us or is_hung)
        state = self._ensemble.state
        if is_behind and not self.lags:
            self.view = state.split(self._sessions())
        elif not is_behind and self.lags:
            while self._backlog:
                self._apply_next()
            state.join(self.view, self._sessions())
            self.view = state

    def _sessions(self) -> list[int]:
        return [one.session.id for one in self._clients if one.session is not None]

    def _apply_due(self) -> None:
        if self._deferred is not None or self._ensemble.defer(self._apply_due):
            return
        backlog, lag_us = self._backlog, self._lag_us
        due_us = self._ensemble.scheduler.now_us - lag_us
        while backlog and (
            (lag_us and backlog[0].at_us <= due_us)
            or (self._lag_transactions and len(backlog) > self._lag_transactions)
        ):
            self._apply_next()

    def _apply_next(self) -> None:
        """Apply a transaction: first its watch events are sent, then the replies that waited."""
        transaction = self._backlog.popleft()
        view, session, request = self.view, transaction.session, transaction.request
        network = self._ensemble.network
        before, network.current = network.current, transaction.cause
        match request:
            case CreateSession():
                view.create_session(session)
            case CloseSession():
                view.end_session(session)
            case _:
                view.apply(session, request, transaction.now_ms)
        assert view.zxid == transaction.zxid, (view.zxid, transaction)
        clients = [(one, one.session.id) for one in self._clients if one.session is not None]
        for client, own in clients:
            if events := view.take_events(own):
                client.fire(events)
        for client, own in clients:
            client.applied(view.zxid)
            if own == session and isinstance(request, CloseSession):
                client.end()
        network.current = before
