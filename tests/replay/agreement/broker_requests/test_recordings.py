"""In recordings, the controllers' logs and the brokers' logs have the same requests."""

from pathlib import Path

import pytest

from eventstore.reader import LogReader
from replay.agreement.broker_requests.comparing import RequestTally, compare_term
from replay.agreement.broker_requests.request_log import request_in_log
from replay.agreement.broker_requests.sent_request import SentRequest
from replay.agreement.broker_requests.state_change_log import StateChangeRequests
from replay.logs.decode import UPCASTERS
from replay.stock_clusters.imported_log.events import RequestServed, StateChangeLogged
from replay.stock_clusters.imported_log.reading import open_imported
from replay.stock_clusters.imports.importing import Selection, import_source
from tests.replay.stock_clusters.zookeeper_log.samples import RECORDING

Term = tuple[int, int]


class Logs:
    """The content of a recording's logs, by controller and term."""

    def __init__(self, log: Path) -> None:
        self.reader = StateChangeRequests()
        self.logged: dict[Term, list[SentRequest]] = {}
        self.served: dict[Term, dict[int, list[SentRequest]]] = {}
        with LogReader.open(log, UPCASTERS) as reader:
            for record, event in open_imported(reader).events():
                if isinstance(event, StateChangeLogged):
                    for request in self.reader.add(event, record.seq):
                        self.logged.setdefault(term_of(request), []).append(request)
                elif isinstance(event, RequestServed):
                    served = request_in_log(event, record.seq)
                    if served is not None:
                        of_term = self.served.setdefault(term_of(served), {})
                        of_term.setdefault(served.broker, []).append(served)


def term_of(request: SentRequest) -> Term:
    return request.controller, request.controller_epoch


@pytest.mark.parametrize(
    ("recording", "terms", "agreed", "unjudged"),
    [("chaos-5", 5, 813, 0), ("broker-crash-2", 3, 150, 3)],
)
def test_controllers_and_brokers_agree(
    recording: str, terms: int, agreed: int, unjudged: int, tmp_path: Path
) -> None:
    """`unjudged`: requests to a broker that was killed before it received them."""
    source = RECORDING.with_name(f"{recording}.tar.xz")
    import_source(source, tmp_path / "log", Selection())
    logs = Logs(tmp_path / "log")
    assert logs.reader.malformed.total() == 0
    assert len(logs.logged) == terms
    assert logs.served.keys() == logs.logged.keys()
    total = RequestTally()
    for term, logged in logs.logged.items():
        result = compare_term(logged, None, logs.served[term])
        assert [one.text for one in result.differences] == []
        total.agreed += result.total.agreed
        total.unjudged += result.total.unjudged
    assert (total.agreed, total.unjudged) == (agreed, unjudged)
