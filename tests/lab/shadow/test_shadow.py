"""A shadow next to a stock cluster in random incidents: topics are created and deleted, replicas
are reassigned, brokers and controllers are killed, stopped and started again.

    python -m tools.shadow --seconds 600

runs longer ones.
"""

import gc
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from replay.stock_clusters.zookeeper_log.transactions import CloseSession, CreateSession
from tools.lab.refold import run
from tools.shadow.incident import Follows, ShadowOutcome, shadow_incident

pytestmark = [
    pytest.mark.lab,
    pytest.mark.timeout(600),
    # The clients of the incident, aiokafka's, leave connections to killed brokers open.
    pytest.mark.filterwarnings(
        "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"
    ),
]


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Collect these connections while the filter above applies. Log records with tracebacks would
    keep them for longer."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
    gc.collect()


SEED = 11
SECONDS = 60.0
SHORT_SECONDS = 10.0


def check(outcome: ShadowOutcome) -> None:
    """No difference is reported, live or in the summary, and nothing is written to ZooKeeper."""
    warnings = [one for one in outcome.messages if one["level"] != "info"]
    assert warnings == []
    assert outcome.false_differences == 0
    assert outcome.is_silent
    assert outcome.summary["missing_transactions"] == outcome.summary["altered"] == 0


@pytest.mark.ci
async def test_short_shadows_of_one_incident_agree(tmp_path: Path) -> None:
    """Without an election the shadow that watches judges nothing."""
    both: list[Follows] = ["txnlog and logs", "watches"]
    outcomes = await shadow_incident(tmp_path, SEED, SHORT_SECONDS, both)
    for outcome in outcomes:
        check(outcome)
    with_logs, watches = outcomes
    assert with_logs.summary["agreed"] > 10
    assert with_logs.summary["requests"]["agreed"] > 10
    assert [type(one.content) for one in watches.transactions] == [CreateSession, CloseSession]


async def test_shadow_of_the_transaction_log_and_brokers_logs_agrees(tmp_path: Path) -> None:
    """Requests to brokers are judged, too."""
    [outcome] = await shadow_incident(tmp_path, SEED, SECONDS, ["txnlog and logs"])
    check(outcome)
    assert outcome.transactions == []
    assert outcome.summary["agreed"] > 100
    assert outcome.summary["requests"]["agreed"] > 50
    assert outcome.summary["by_kind"]["election"]["agreed"] >= 2
    status, output = await run("agree", str(outcome.log), "--json")
    assert json.loads(output)["agreed"] == outcome.summary["agreed"], output
    assert status in (0, 3)


async def test_shadow_of_the_transaction_log_agrees(tmp_path: Path) -> None:
    [outcome] = await shadow_incident(tmp_path, SEED, SECONDS, ["txnlog"])
    check(outcome)
    assert outcome.transactions == []
    assert outcome.summary["agreed"] > 100
    assert outcome.summary["requests"]["unjudged"] > 50
    assert outcome.status == 3


async def test_shadow_that_watches_writes_nothing_and_agrees(tmp_path: Path) -> None:
    [outcome] = await shadow_incident(tmp_path, SEED, SECONDS, ["watches"])
    check(outcome)
    contents = [type(one.content) for one in outcome.transactions]
    assert contents == [CreateSession, CloseSession]
    assert outcome.summary["agreed"] > 20
    assert outcome.status == 3
