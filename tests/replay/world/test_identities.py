"""Requests about no topic: blocks of producer ids, SCRAM credentials, finalized features."""

from msgspec import structs

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.api_requests.features import UpdateFeaturesResponse
from controller.core.api_requests.producer_ids import (
    AllocateProducerIdsReceived,
    AllocateProducerIdsResponse,
)
from controller.core.api_requests.scram_credentials import AlterUserScramCredentialsResponse
from controller.core.configuration import Configuration
from replay.world.cluster import Cluster
from replay.world.inputs import (
    AllocateProducerIds,
    AlterUserScramCredentials,
    CrashBroker,
    CredentialChange,
    ExpireSession,
    FeatureChange,
    HoldLink,
    Input,
    PauseProcess,
    UpdateFeatures,
)
from replay.world.messages import ControllerRequest, ControllerResponse
from replay.world.network import Delivery
from replay.world.observer import Observer
from replay.world.scenario import ControllerSpec, Scenario
from tests.replay.world.test_cluster import REFOLD, SCENARIO, data

_SHORT = structs.replace(SCENARIO, active_ms=20_000, quiet_ms=0, load=None)
_OTHER = ControllerSpec(Configuration(broker_id=101), starts_after_ms=500)
_TWO_REFOLDS = structs.replace(_SHORT, controllers=(ControllerSpec(REFOLD), _OTHER))
_FIRST, _SECOND = (0, 1000), (1000, 1000)


class BlockObserver(Observer):
    """The requests for producer ids that a controller got, and the responses that brokers got."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int, int]] = []
        self.answered: list[AllocateProducerIdsResponse] = []

    def delivered(self, delivery: Delivery) -> None:
        message = delivery.message
        if isinstance(message, ControllerRequest):
            request = message.request
            if isinstance(request, AllocateProducerIdsReceived):
                at_ms = delivery.at_us // 1_000
                self.asked.append((at_ms, request.broker, request.broker_epoch))
            return
        response = message.response if isinstance(message, ControllerResponse) else None
        if isinstance(response, AllocateProducerIdsResponse):
            self.answered.append(response)

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """The first id and the length of each block that was answered."""
        return [(one.start, one.length) for one in self.answered if one.error == codes.NONE]

    @property
    def errors(self) -> list[int]:
        """The errors that were answered."""
        return [one.error for one in self.answered if one.error != codes.NONE]


def run(*inputs: Input, scenario: Scenario = _SHORT) -> tuple[Cluster, BlockObserver]:
    blocks = BlockObserver()
    cluster = Cluster(scenario, inputs, blocks)
    cluster.run()
    return cluster, blocks


def stored(cluster: Cluster) -> tuple[int, int]:
    """The broker and the first id of the last block."""
    content = data(cluster, znodes.PRODUCER_IDS)
    assert content is not None
    block = znodes.read_producer_ids(content)
    return block.broker, block.first


def credentials(cluster: Cluster, user: str) -> dict[str, str] | None:
    path = znodes.user_config_path(user)
    content = data(cluster, path)
    return None if content is None else znodes.read_config(path, content)


def test_brokers_get_one_block_after_the_other_with_their_broker_epochs() -> None:
    inputs = AllocateProducerIds(12_000, 1), AllocateProducerIds(13_000, 2)
    cluster, blocks = run(*inputs)
    assert blocks.blocks == [_FIRST, _SECOND]
    assert stored(cluster) == (2, 1000)
    epochs = {number: one.broker_epoch for number, one in cluster.brokers.items()}
    assert [one[1:] for one in blocks.asked] == [(1, epochs[1]), (2, epochs[2])]


def test_broker_allocates_one_block_after_the_other_by_both_routes() -> None:
    _, blocks = run(
        AllocateProducerIds(12_000, 1),
        AllocateProducerIds(12_001, 1),
        AllocateProducerIds(12_001, 1, "znode"),
        AllocateProducerIds(13_000, 2, "znode"),
        AllocateProducerIds(13_001, 2),
        AllocateProducerIds(14_000, 2),
    )
    assert [one[1] for one in blocks.asked] == [1, 2]
    assert blocks.blocks == [_FIRST, (2000, 1000)]


def test_broker_asks_again_until_the_receiver_is_the_controller() -> None:
    _, blocks = run(
        ExpireSession(12_000, "refold 100"),
        # Broker 1 learns late who the controller is.
        HoldLink(12_000, "refold 101", "broker 1", 3_000),
        AllocateProducerIds(13_000, 1),
        scenario=_TWO_REFOLDS,
    )
    assert blocks.errors
    assert set(blocks.errors) == {codes.NOT_CONTROLLER}
    assert len(blocks.asked) == len(blocks.errors) + 1
    assert blocks.blocks == [_FIRST]


def test_broker_does_not_ask_before_it_is_registered_or_while_it_is_paused() -> None:
    _, blocks = run(
        AllocateProducerIds(100, 1),
        CrashBroker(12_000, 2, restart_after_ms=None),
        AllocateProducerIds(12_500, 2),
        PauseProcess(13_000, "broker 3", 1_000),
        AllocateProducerIds(13_100, 3),
    )
    [(at_ms, broker, _)] = blocks.asked
    assert (broker, 14_000 <= at_ms < 14_100) == (3, True)


def test_request_from_before_a_new_registration_is_refused() -> None:
    _, blocks = run(
        HoldLink(12_000, "broker 2", "refold 100", 3_000, accepts=True),
        AllocateProducerIds(12_000, 2),
        ExpireSession(12_100, "broker 2"),
    )
    assert blocks.errors == [codes.STALE_BROKER_EPOCH]
    assert blocks.blocks == []


def test_broker_that_writes_the_znode_itself_takes_the_next_block() -> None:
    cluster, blocks = run(
        AllocateProducerIds(12_000, 1),
        AllocateProducerIds(13_000, 2, "znode"),
        AllocateProducerIds(14_000, 3),
    )
    assert blocks.blocks == [_FIRST, (2000, 1000)]
    assert stored(cluster) == (3, 2000)


def test_brokers_that_write_the_znode_at_the_same_time_take_different_blocks() -> None:
    cluster, blocks = run(*(AllocateProducerIds(12_000, one, "znode") for one in (1, 2, 3)))
    assert blocks.asked == []
    assert stored(cluster)[1] == 2000


def test_credentials_are_set_and_deleted() -> None:
    first = (
        CredentialChange("alice", "SCRAM-SHA-256", "one"),
        CredentialChange("alice", "SCRAM-SHA-512", "two"),
        CredentialChange("bob", "SCRAM-SHA-512", "three"),
    )
    second = (
        CredentialChange("alice", "SCRAM-SHA-256", None),
        CredentialChange("bob", "SCRAM-SHA-512", None),
        CredentialChange("carol", "SCRAM-SHA-256", "weak", iterations=1),
    )
    cluster, _ = run(
        AlterUserScramCredentials(12_000, first), AlterUserScramCredentials(13_000, second)
    )
    assert credentials(cluster, "alice") == {"SCRAM-SHA-512": "two"}
    assert credentials(cluster, "bob") is None
    assert credentials(cluster, "carol") is None
    replies = [one.reply for one in cluster.admin.outcomes]
    errors = [
        {user.user: user.error for user in one.users}
        for one in replies
        if isinstance(one, AlterUserScramCredentialsResponse)
    ]
    refused = {"alice": 0, "bob": 0, "carol": codes.UNACCEPTABLE_CREDENTIAL}
    assert errors == [{"alice": 0, "bob": 0}, refused]


def test_administrator_asks_again_until_the_receiver_is_the_controller() -> None:
    change = CredentialChange("alice", "SCRAM-SHA-256", "one")
    cluster, _ = run(
        # The request arrives at the first controller after its term.
        HoldLink(12_000, "admin", "refold 100", 3_000, accepts=True),
        AlterUserScramCredentials(12_000, (change,)),
        ExpireSession(12_100, "refold 100"),
        scenario=_TWO_REFOLDS,
    )
    assert credentials(cluster, "alice") == {"SCRAM-SHA-256": "one"}
    [outcome] = cluster.admin.outcomes
    assert outcome.at_us > 15_000_000


def test_finalized_feature_is_deleted_and_none_is_set() -> None:
    levels = znodes.write_features(znodes.Features(True, {"a": 1, "b": 2, "c": 3}))
    scenario = structs.replace(_SHORT, znodes={znodes.FEATURE: levels.decode()})
    cluster, _ = run(
        UpdateFeatures(12_000, (FeatureChange("b", 0, "safe_downgrade"),), validate_only=True),
        UpdateFeatures(13_000, (FeatureChange("a", 0, "safe_downgrade"), FeatureChange("new", 1))),
        scenario=scenario,
    )
    content = data(cluster, znodes.FEATURE)
    assert znodes.read_features(content).levels == {"b": 2, "c": 3}
    answer = cluster.admin.outcomes[-1].reply
    assert isinstance(answer, UpdateFeaturesResponse)
    assert [(one.name, one.error) for one in answer.features] == [
        ("a", codes.NONE),
        ("new", codes.INVALID_REQUEST),
    ]
