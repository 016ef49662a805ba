"""Election requests to a simulated controller, and events that cause elections."""

from typing import Any, Literal

import msgspec

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.api_requests.elections import ElectLeadersReceived, ElectLeadersResponse
from controller.core.commands import CancelTimer, StartTimer
from controller.core.events import TimerFired
from controller.core.operations import CreateSequential
from controller.core.procedures.elections.rebalance import rebalance_timer
from tests.controller.core.cluster import Cluster, Seen
from tests.controller.core.endpoint import call, next_request
from tests.controller.core.procedures.reassignment.reassigning import Name, catch_up

Election = Literal["preferred", "unclean"]
Errors = dict[Name, int]


# By API request ---------------------------------------------------------------------------------


def request(cluster: Cluster, election: Election, *names: Name) -> ElectLeadersReceived:
    """An ElectLeaders request. Without names it is for all partitions."""
    return ElectLeadersReceived(next_request(cluster), 2, election, list(names) or None)


def answered(cluster: Cluster, election: Election, *names: Name) -> ElectLeadersResponse:
    """The response to such a request."""
    answer = call(cluster, request(cluster, election, *names))
    assert isinstance(answer, ElectLeadersResponse)
    return answer


def elect(cluster: Cluster, election: Election, *names: Name) -> Errors:
    """The error code of each partition, in the order of the response."""
    answer = answered(cluster, election, *names)
    assert answer.error == codes.NONE
    return {(one.topic, one.partition): one.error for one in answer.partitions}


# By /admin/preferred_replica_election -----------------------------------------------------------


def election_json(*names: Name) -> bytes:
    """The content of the znode as a tool writes it."""
    named = [{"topic": topic, "partition": number} for topic, number in names]
    return msgspec.json.encode({"version": 1, "partitions": named})


def put_election(cluster: Cluster, *names: Name) -> None:
    """A tool writes /admin/preferred_replica_election."""
    cluster.put(znodes.PREFERRED_ELECTION, election_json(*names))


def put_election_quietly(cluster: Cluster, *names: Name) -> None:
    """As `put_election`, but the controller does not react yet."""
    cluster.put_quietly(znodes.PREFERRED_ELECTION, election_json(*names))


def is_requested(cluster: Cluster) -> bool:
    """Whether the request znode exists."""
    return cluster.data(znodes.PREFERRED_ELECTION) is not None


# By configuration -------------------------------------------------------------------------------


def configure(cluster: Cluster, entity: str, unclean: str | None) -> None:
    """A tool sets, or removes, unclean.leader.election.enable of "topics/t" or the like."""
    config = {} if unclean is None else {"unclean.leader.election.enable": unclean}
    configure_quietly(cluster, entity, {"version": 1, "config": config})
    notify(cluster, {"version": 2, "entity_path": entity})


def configure_quietly(cluster: Cluster, entity: str, content: Any) -> None:
    """The configuration is set, and its notification not sent yet."""
    cluster.put_quietly(f"/config/{entity}", msgspec.json.encode(content))


def notify_quietly(cluster: Cluster, content: Any) -> None:
    """As `notify`, but the controller does not react yet."""
    data = content if isinstance(content, bytes) else msgspec.json.encode(content)
    cluster.ask(CreateSequential(f"{znodes.CONFIG_CHANGES}/config_change_", data))


def notify(cluster: Cluster, content: Any) -> None:
    """A notification of a changed configuration."""
    notify_quietly(cluster, content)
    cluster.run()


# By timer ---------------------------------------------------------------------------------------


def timer(cluster: Cluster) -> str:
    """The timer of the automatic elections in this term."""
    return rebalance_timer(cluster.fold.controller)


def rebalance(cluster: Cluster) -> None:
    """Fire the timer of the automatic elections, which must be running."""
    assert runs(cluster, timer(cluster))
    cluster.fire(timer(cluster))


def runs(cluster: Cluster, name: str) -> bool:
    """Whether a timer was started, and has neither fired nor been cancelled since."""
    running = False
    for recorded, issued in cluster.history:
        if recorded.event == TimerFired(name):
            running = False
        for one in issued:
            if isinstance(one.command, StartTimer | CancelTimer) and one.command.timer == name:
                running = isinstance(one.command, StartTimer)
    return running


def delays(seen: Seen) -> list[int]:
    """The delays of the started timers for automatic elections, in ms."""
    return [one.delay_ms for one in seen.commands if isinstance(one, StartTimer)]


# Brokers ----------------------------------------------------------------------------------------


def restart(cluster: Cluster, broker: int, *names: Name) -> None:
    """A broker dies, returns and joins the ISRs of these partitions again."""
    cluster.stop_broker(broker)
    cluster.start_broker(broker)
    for name in names:
        catch_up(cluster, broker, name=name)


def leaders(cluster: Cluster, topic: str) -> dict[int, int]:
    """The leader of each partition of a topic, from its state znode."""
    numbers = sorted(cluster.topic(topic).assignments)
    return {number: cluster.leadership(topic, number).leader for number in numbers}
