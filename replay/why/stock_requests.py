"""The requests of a stock controller that brokers have not answered, by its state-change.log."""

import re
from typing import Final

from msgspec import Struct, field

from replay.cluster_view.views import UnansweredView
from replay.stock_clusters.imported_log.events import StateChangeLogged
from replay.times import iso_time

_SENT: Final = {
    "leader_and_isr": "LeaderAndIsr",
    "update_metadata": "UpdateMetadata",
    "stop_replica": "StopReplica",
}
_ANSWERED: Final = re.compile(r" for request ([A-Z_]+) with correlation id ")
_APIS: Final = {
    "LEADER_AND_ISR": "LeaderAndIsr",
    "UPDATE_METADATA": "UpdateMetadata",
    "STOP_REPLICA": "StopReplica",
}
_WITHOUT_RESPONSES_MAX: Final = 1_000
"""Until a response is logged, at most this many requests of a kind to a broker are remembered."""


class StockRequests(Struct):
    """Follows the requests of the current controller.

    Responses are logged at TRACE: without one in this term nothing is known.
    """

    _controller: int = -1
    _sent: dict[tuple[int, str], list[tuple[int, int]]] = field(default_factory=dict)
    _logs_responses: bool = False

    def elected(self, broker: int) -> None:
        """A broker becomes controller: it sends all requests again."""
        self._controller = broker
        self._sent.clear()
        self._logs_responses = False

    def changed(self, broker: int) -> None:
        """A broker registers or is gone: its requests are dropped with the connection."""
        for key in [key for key in self._sent if key[0] == broker]:
            del self._sent[key]

    def note(self, logged: StateChangeLogged, seq: int, wall_ns: int) -> None:
        """A line of state-change.log."""
        if logged.broker != self._controller:
            return
        request = _SENT.get(logged.what)
        for broker in logged.brokers if request is not None else ():
            sent = self._sent.setdefault((broker, request or ""), [])
            sent.append((seq, wall_ns))
            if not self._logs_responses and len(sent) > _WITHOUT_RESPONSES_MAX:
                del sent[0]
        if logged.what == "response":
            self._logs_responses = True
            answered = _ANSWERED.search(logged.text)
            api = _APIS.get(answered[1], "") if answered is not None else ""
            for broker in logged.brokers:
                # The oldest one is answered first.
                del self._sent.get((broker, api), [])[:1]

    def unanswered(self) -> list[UnansweredView]:
        """By broker the oldest request that it has not answered."""
        if not self._logs_responses:
            return []
        waiting: dict[int, list[tuple[int, int, str]]] = {}
        for (broker, request), sent in self._sent.items():
            waiting.setdefault(broker, []).extend((*one, request) for one in sent)
        return [
            UnansweredView(broker, min(sent)[2], min(sent)[0], len(sent), iso_time(min(sent)[1]))
            for broker, sent in sorted(waiting.items())
            if sent
        ]
