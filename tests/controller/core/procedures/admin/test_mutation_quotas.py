"""Controller mutation quotas (KIP-599): what clients may create and delete, by their rates.

With a rate of 2 and Kafka's eleven windows of one second, a full bucket has 22 mutations.
"""

from typing import Any

import msgspec
import pytest
from msgspec import structs

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.api_requests.received_request import ClientIdentity
from controller.core.api_requests.topics import (
    CreatePartitionsReceived,
    CreateTopicsReceived,
    DeleteTopicsReceived,
    MutatingRequest,
    NewPartitions,
    TopicToDelete,
)
from controller.core.commands import ThrottleClient
from controller.core.configuration import QuotaWindow
from controller.core.mutation_quotas import DEFAULT, MutationQuotas, QuotaEntity, parse_rate
from controller.core.snapshot import load_snapshot, take_snapshot
from tests.controller.core.cluster import Cluster, writes
from tests.controller.core.endpoint import call, next_request
from tests.controller.core.procedures.topics.topic_requests import errors, new_topic

ALICE = ClientIdentity("User:alice", "10.0.0.1")
QUOTA_EXCEEDED = codes.THROTTLING_QUOTA_EXCEEDED
FULL = 22
STRICT, PERMISSIVE = 7, 5


def put(cluster: Cluster, entity: str, rate: str | None) -> None:
    """A quota of an entity such as "users/alice", as kafka-configs writes it."""
    config = {} if rate is None else {"controller_mutation_rate": rate}
    put_config(cluster, entity, znodes.write_config(config))


def put_config(cluster: Cluster, entity: str, data: bytes) -> None:
    cluster.put_with_parents(f"/config/{entity}", data)


def announce(cluster: Cluster, entity: str, number: int) -> None:
    """The notification of kafka-configs."""
    path = f"{znodes.CONFIG_CHANGES}/config_change_{number:010}"
    cluster.put(path, znodes.write_config_change(entity))


def started(**rates: str) -> Cluster:
    """A controller with the rates of users, and the topic t with four partitions."""
    cluster = Cluster(1, 2, mutation_quotas=QuotaWindow())
    for user, rate in rates.items():
        put(cluster, f"users/{user}", rate)
    cluster.create_topic("t", {number: [1, 2] for number in range(4)})
    return cluster.start()


def ask(cluster: Cluster, request: MutatingRequest, client: ClientIdentity | None, id: str) -> Any:
    return call(cluster, structs.replace(request, client=client, client_id=id))


def create(
    cluster: Cluster,
    *partitions: int,
    version: int = STRICT,
    client: ClientIdentity | None = ALICE,
    id: str = "app",
    dry: bool = False,
) -> list[int]:
    """The errors of new topics with these numbers of partitions."""
    number = next_request(cluster)
    topics = [new_topic(f"r{number}-{n}", count, 1) for n, count in enumerate(partitions)]
    request = CreateTopicsReceived(number, version, 30_000, dry, topics)
    return errors(ask(cluster, request, client, id))


def throttles(cluster: Cluster) -> list[int]:
    """For how long clients were throttled, in the order of the requests."""
    return [
        one.command.until_ms - recorded.wall_ns // 1_000_000
        for recorded, issued in cluster.history
        for one in issued
        if isinstance(one.command, ThrottleClient)
    ]


# Requests ---------------------------------------------------------------------------------------


def test_strict_quota_is_exceeded_once_and_then_refuses() -> None:
    cluster = started(alice="2")
    assert create(cluster, FULL + 10) == [codes.NONE]
    assert throttles(cluster) == []
    assert create(cluster, 1) == [QUOTA_EXCEEDED]
    (throttle_ms,) = throttles(cluster)
    assert 4_000 < throttle_ms <= 5_000
    assert cluster.data("/brokers/topics/r2-0") is None
    cluster.now_ms += throttle_ms
    assert create(cluster, 1) == [codes.NONE]


def test_topics_of_one_request_count_one_after_another() -> None:
    cluster = started(alice="2")
    assert create(cluster, FULL, 1, 1) == [codes.NONE, codes.NONE, QUOTA_EXCEEDED]


def test_permissive_quota_carries_out_and_throttles() -> None:
    cluster = started(alice="2")
    assert create(cluster, FULL + 10, version=PERMISSIVE) == [codes.NONE]
    assert 4_900 < throttles(cluster)[0] <= 5_000
    assert create(cluster, 2, version=PERMISSIVE) == [codes.NONE]
    assert 5_900 < throttles(cluster)[1] <= 6_000
    assert cluster.data("/brokers/topics/r2-0") is not None


def test_validation_alone_counts_nothing() -> None:
    cluster = started(alice="2")
    for _ in range(2):
        assert create(cluster, FULL + 10, dry=True) == [codes.NONE]
    assert create(cluster, FULL) == [codes.NONE]


def test_partitions_that_are_added_count() -> None:
    cluster = started(alice="2")

    def grow(count: int, version: int = 3, *, dry: bool = False) -> list[int]:
        asked = [NewPartitions("t", count, None)]
        number = next_request(cluster)
        request = CreatePartitionsReceived(number, version, 30_000, dry, asked)
        return errors(ask(cluster, request, ALICE, "app"))

    assert grow(40, dry=True) == [codes.NONE]
    assert grow(4 + FULL + 2) == [codes.NONE]
    assert grow(40) == [QUOTA_EXCEEDED]
    assert 0 < throttles(cluster)[0] <= 1_000
    assert grow(40, version=2) == [codes.NONE]
    assert len(throttles(cluster)) == 2


def test_added_partitions_count_once_although_the_topic_is_written_again() -> None:
    """Another client writes the topic in between."""
    cluster = started(alice="2")
    path = znodes.topic_path("t")
    data = cluster.data(path) or b""
    cluster.once(writes(path), lambda: cluster.put_quietly(path, data))
    asked = [NewPartitions("t", 4 + FULL - 1, None)]
    request = CreatePartitionsReceived(next_request(cluster), 3, 30_000, False, asked)
    assert errors(ask(cluster, request, ALICE, "app")) == [codes.NONE]
    assert create(cluster, 1) == [codes.NONE]


def test_partitions_that_are_deleted_count() -> None:
    cluster = started(alice="2")
    assert create(cluster, FULL) == [codes.NONE]

    def delete(topic: str, version: int) -> list[int]:
        number = next_request(cluster)
        doomed = [TopicToDelete(topic, None)] * 2
        request = DeleteTopicsReceived(number, version, 30_000, doomed)
        return errors(ask(cluster, request, ALICE, "app"))

    assert delete("t", 5) == [codes.NONE] * 2
    assert delete("r1-0", 5) == [QUOTA_EXCEEDED] * 2
    assert cluster.data("/brokers/topics/r1-0") is not None
    assert delete("r1-0", 4) == [codes.NONE] * 2
    strict, permissive = throttles(cluster)
    assert 1_900 < strict <= 2_000
    assert 12_900 < permissive <= 13_000


def test_partitions_of_a_topic_that_a_tool_replaced_do_not_count_as_deleted() -> None:
    """Only partition 4 is in the new topic of the same name."""
    cluster = started(alice="2")
    cluster.remove_topic_znodes("t")
    cluster.create_topic("t", {4: [1, 2]})
    assert create(cluster, FULL) == [codes.NONE]
    number = next_request(cluster)
    request = DeleteTopicsReceived(number, 5, 30_000, [TopicToDelete("t", None)])
    assert errors(ask(cluster, request, ALICE, "app")) == [codes.NONE]
    assert create(cluster, 1) == [QUOTA_EXCEEDED]
    (throttle_ms,) = throttles(cluster)
    assert 400 < throttle_ms <= 500


def test_requests_that_are_handled_together_have_separate_quotas() -> None:
    cluster = started(alice="2", bob="2")
    requests = [
        CreateTopicsReceived(
            number,
            STRICT,
            30_000,
            False,
            [new_topic(f"n{number}", count, 1)],
            client=ClientIdentity(f"User:{user}", "10.0.0.1"),
            client_id="app",
        )
        for number, (user, count) in enumerate((("alice", 30), ("bob", 1), ("alice", 1)), 1)
    ]
    for request in requests:
        cluster.happen_next(request, "api:1")
    cluster.run()
    created = [cluster.data(f"/brokers/topics/n{number}") is not None for number in (1, 2, 3)]
    assert created == [True, True, False]


def test_log_says_why_a_request_was_refused() -> None:
    cluster = started(alice="2")
    create(cluster, FULL + 10)
    seen = cluster.seen()
    create(cluster, 1)
    (text,) = seen.texts_of("quota_exceeded")
    assert "user alice exceeds controller_mutation_rate: refused (CreateTopicsReceived)" in text
    rules = [one.reason.rule for one in cluster.commands() if "quota" in one.reason.rule]
    assert "quota exceeded: controller_mutation_rate of user alice" in rules


def test_log_says_when_the_client_may_try_again() -> None:
    cluster = started(alice="2")
    create(cluster, FULL + 10)
    seen = cluster.seen()
    create(cluster, 1)
    (text,) = seen.texts_of("quota_exceeded")
    assert text.endswith(f"; {throttles(cluster)[-1]} ms until the next mutation")


def test_log_says_that_a_request_of_an_old_client_was_carried_out() -> None:
    cluster = started(alice="2")
    seen = cluster.seen()
    for _ in range(2):
        assert create(cluster, FULL, version=PERMISSIVE) == [codes.NONE]
    (text,) = seen.texts_of("quota_exceeded")
    assert "carried out, and the client is throttled (CreateTopicsReceived)" in text


def test_rule_names_the_user_and_the_client_id_of_the_quota() -> None:
    cluster = Cluster(1, 2, mutation_quotas=QuotaWindow())
    put(cluster, "users/alice/clients/app", "2")
    cluster.start()
    create(cluster, FULL + 10)
    create(cluster, 1)
    rules = [one.reason.rule for one in cluster.commands() if "quota" in one.reason.rule]
    assert "quota exceeded: controller_mutation_rate of user alice with client id app" in rules


def test_quotas_of_a_log_without_the_setting_do_not_apply() -> None:
    cluster = Cluster(1, 2)
    put(cluster, "users/alice", "0")
    cluster.start()
    announce(cluster, "users/alice", 0)
    for _ in range(2):
        assert create(cluster, FULL) == [codes.NONE]
    assert "mutation quotas" not in {one.reason.rule for one in cluster.commands()}


def test_rate_of_zero_throttles_forever() -> None:
    cluster = started(alice="0")
    assert create(cluster, 1) == [codes.NONE]
    cluster.now_ms += 1_000_000
    assert create(cluster, 1) == [QUOTA_EXCEEDED]
    assert throttles(cluster) == [2**31 - 1]


# The quotas in ZooKeeper ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entity", "client", "id"),
    [
        ("users/alice", ALICE, "app"),
        ("users/alice/clients/app", ALICE, "app"),
        ("users/alice/clients/<default>", ALICE, "other"),
        ("users/<default>/clients/app", ALICE, "app"),
        ("users/<default>/clients/<default>", ALICE, "app"),
        ("users/<default>", ALICE, "app"),
        ("users/CN%3Dbroker%2C%20O%3Dx%7E%2A", ClientIdentity("User:CN=broker, O=x~*", "h"), "app"),
        ("users/ANONYMOUS", None, "app"),
        ("clients/app", ALICE, "app"),
        ("clients/my%20app", None, "my app"),
        ("clients/<default>", None, "app"),
    ],
)
def test_quota_of_each_kind_of_entity_applies(
    entity: str, client: ClientIdentity | None, id: str
) -> None:
    cluster = Cluster(1, 2, mutation_quotas=QuotaWindow())
    put(cluster, entity, "2")
    cluster.start()
    assert create(cluster, FULL + 2, client=client, id=id) == [codes.NONE]
    assert create(cluster, 1, client=client, id=id) == [QUOTA_EXCEEDED]
    other = ClientIdentity("User:bob", "10.0.0.1")
    is_for_all = entity in ("users/<default>", "clients/<default>", "clients/app") or (
        entity.startswith("users/<default>/")
    )
    if not is_for_all:
        assert create(cluster, 1, client=other, id="another") == [codes.NONE]


def test_most_specific_quota_applies() -> None:
    cluster = started()
    order = [
        "clients/<default>",
        "clients/app",
        "users/<default>",
        "users/<default>/clients/<default>",
        "users/<default>/clients/app",
        "users/alice",
        "users/alice/clients/<default>",
        "users/alice/clients/app",
    ]
    for number, entity in enumerate(order):
        # The next one is larger: what the one before would refuse is allowed.
        put(cluster, entity, str(number + 1))
        announce(cluster, entity, number)
        now_ms = cluster.now_ms
        cluster.now_ms += 100_000
        assert create(cluster, 11 * (number + 1), 1) == [codes.NONE] * 2, entity
        assert create(cluster, 1) == [QUOTA_EXCEEDED], entity
        assert cluster.now_ms < now_ms + 101_000


def test_changed_quota_counts_for_the_next_request() -> None:
    cluster = started()
    for _ in range(2):
        assert create(cluster, FULL + 10) == [codes.NONE]
    put(cluster, "users/alice", "2")
    announce(cluster, "users/alice", 0)
    assert create(cluster, FULL + 10) == [codes.NONE]
    assert create(cluster, 1) == [QUOTA_EXCEEDED]
    put(cluster, "users/alice", None)
    announce(cluster, "users/alice", 1)
    assert create(cluster, FULL + 10) == [codes.NONE]
    put(cluster, "users/alice/clients/app", "1")
    announce(cluster, "users/alice/clients/app", 2)
    assert create(cluster, FULL) == [codes.NONE]
    assert create(cluster, 1) == [QUOTA_EXCEEDED]
    cluster.remove("/config/users/alice/clients/app")
    announce(cluster, "users/alice/clients/app", 3)
    assert create(cluster, 1) == [codes.NONE]


@pytest.mark.parametrize(
    "entity",
    [
        "users/",
        "users//clients/app",
        "users/../brokers/ids/1",
        "clients/",
        "clients/a/b",
        "users/alice/clients/",
        "ips/1",
    ],
)
def test_notification_of_no_quota_reads_nothing(entity: str) -> None:
    cluster = started()
    seen = cluster.seen()
    announce(cluster, entity, 0)
    assert [one for one in seen.commands if f"/config/{entity}" in str(one)] == []
    assert seen.texts_of("procedure_failed") == []


def test_deleted_notification_changes_no_quota() -> None:
    """A broker deletes old notifications."""
    cluster = started(alice="2")
    announce(cluster, "users/alice", 0)
    seen = cluster.seen()
    cluster.remove(f"{znodes.CONFIG_CHANGES}/config_change_0000000000")
    assert seen.notices() == []
    assert create(cluster, FULL + 1, 1) == [codes.NONE, QUOTA_EXCEEDED]


def test_user_without_a_quota_has_the_default() -> None:
    cluster = started()
    put(cluster, "users/<default>", "2")
    put(cluster, "users/alice", None)
    for number, entity in enumerate(("users/<default>", "users/alice")):
        announce(cluster, entity, number)
    assert create(cluster, FULL + 10) == [codes.NONE]
    assert create(cluster, 1) == [QUOTA_EXCEEDED]
    cluster.remove("/config/users/alice")
    announce(cluster, "users/alice", 2)
    assert create(cluster, 1) == [QUOTA_EXCEEDED]


def test_unreadable_quota_is_reported_and_does_not_apply() -> None:
    cluster = Cluster(1, 2, mutation_quotas=QuotaWindow())
    put(cluster, "users/alice", "many")
    seen = cluster.seen()
    cluster.start()
    assert create(cluster, FULL + 10) == [codes.NONE]
    assert create(cluster, 1) == [codes.NONE]
    assert "Not a number" in "".join(seen.texts_of("unreadable_znode"))


def test_next_controller_reads_the_quotas_and_begins_with_full_buckets() -> None:
    cluster = started(alice="2")
    create(cluster, FULL + 10)
    cluster.expire()
    cluster.connect()
    assert create(cluster, FULL) == [codes.NONE]
    assert create(cluster, 1, 1) == [codes.NONE, QUOTA_EXCEEDED]


def test_snapshot_has_quotas_and_buckets() -> None:
    cluster = started(alice="2")
    create(cluster, FULL + 10)
    fold = load_snapshot(take_snapshot(cluster.fold), cluster.fold.controller.configuration)
    found = fold.controller.context.mutation_quotas
    before = cluster.fold.controller.context.mutation_quotas
    assert found.rates == before.rates != {}
    assert found.buckets == before.buckets != {}
    assert next(iter(found.buckets)).user == "alice"


# The bucket -------------------------------------------------------------------------------------

WINDOW = QuotaWindow(samples=3, seconds=2)
OWNER = QuotaEntity("alice", "")


def quotas(rate: str) -> MutationQuotas:
    found = MutationQuotas()
    found.set_rate(OWNER, parse_rate(rate), is_set=True)
    return found


def test_window_is_what_a_client_may_do_at_once() -> None:
    found = quotas("0.5")
    assert found.record(OWNER, 3, 0, WINDOW, strict=False) is None
    assert found.record(OWNER, 1, 0, WINDOW, strict=False) == 2_000
    # It is full again, and not more than full.
    assert found.record(OWNER, 3, 1_000_000, WINDOW, strict=False) is None
    assert found.record(OWNER, 1, 1_000_000, WINDOW, strict=False) == 2_000


def test_clock_that_is_set_back_takes_nothing() -> None:
    found = quotas("1")
    assert found.record(OWNER, 6, 10_000, WINDOW, strict=False) is None
    assert found.record(OWNER, 1, 5_000, WINDOW, strict=False) == 1_000


def test_changed_rate_keeps_what_was_done() -> None:
    found = quotas("1")
    assert found.record(OWNER, 10, 0, WINDOW, strict=False) == 4_000
    found.set_rate(OWNER, parse_rate("2"), is_set=True)
    assert found.record(OWNER, 0, 1_000, WINDOW, strict=False) == 1_000


def test_buckets_that_are_not_used_are_forgotten() -> None:
    found = quotas("1")
    other = QuotaEntity("bob", "")
    found.set_rate(other, parse_rate("1"), is_set=True)
    found.record(other, 100_000, 0, WINDOW, strict=False)
    found.record(OWNER, 1, 3_599_999, WINDOW, strict=False)
    assert list(found.buckets) == [other, OWNER]
    found.record(OWNER, 1, 3_600_000, WINDOW, strict=False)
    assert list(found.buckets) == [OWNER]


def test_rates_are_read_as_java_reads_a_double() -> None:
    assert parse_rate("1.5") == parse_rate(" 15e-1d ") == 1_500_000
    assert parse_rate("-1") == 0
    for unlimited in ("Infinity", "-Infinity", "NaN", "9.3E18", str(2**63 - 1)):
        assert parse_rate(unlimited) is None
    with pytest.raises(ValueError, match="DOUBLE"):
        parse_rate("fast")


def test_empty_client_id_has_no_quota_of_a_client() -> None:
    """As in Kafka, where the quota of the user with any client id hides that of the user."""
    found = MutationQuotas()
    found.set_rate(QuotaEntity("", "<default>"), 1, is_set=True)
    assert found.rate_of(found.owner("alice", "")) is None
    found.set_rate(QuotaEntity("alice", "<default>"), 1, is_set=True)
    assert found.rate_of(found.owner("alice", "")) is None
    assert found.rate_of(found.owner("alice", "app")) == 1


def test_fields_of_older_requests_have_no_client_id() -> None:
    old = msgspec.msgpack.encode(["delete_topics_received", 1, 5, 0, [], None])
    assert msgspec.msgpack.decode(old, type=DeleteTopicsReceived).client_id is None


def test_client_without_a_user_has_no_quota_of_users() -> None:
    found = MutationQuotas()
    found.set_rate(QuotaEntity(DEFAULT, "app"), 1_000_000, is_set=True)
    assert found.rate_of(QuotaEntity("", "app")) is None
    assert found.rate_of(QuotaEntity("alice", "app")) == 1_000_000
