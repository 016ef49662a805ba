"""Authorization of requests by Kafka's ACLs in ZooKeeper (AclAuthorizer, KafkaApis)."""

from collections.abc import Callable
from typing import get_args

import msgspec
import pytest
from msgspec import structs

from controller.core import error_codes as codes
from controller.core.api_requests import ApiRequest
from controller.core.api_requests.alter_partition import AlterPartitionReceived
from controller.core.api_requests.controlled_shutdown import ControlledShutdownReceived
from controller.core.api_requests.elections import ElectLeadersReceived
from controller.core.api_requests.features import UpdateFeaturesReceived
from controller.core.api_requests.producer_ids import AllocateProducerIdsReceived
from controller.core.api_requests.reassignments import (
    AlterPartitionReassignmentsReceived,
    ListPartitionReassignmentsReceived,
    ReassignmentTarget,
)
from controller.core.api_requests.received_request import ClientIdentity
from controller.core.api_requests.scram_credentials import (
    AlterUserScramCredentialsReceived,
    ScramDeletion,
)
from controller.core.api_requests.topics import (
    CreatePartitionsReceived,
    CreateTopicsReceived,
    DeleteTopicsReceived,
    NewPartitions,
    NewTopic,
    TopicToDelete,
)
from controller.core.commands import Notice
from controller.core.configuration import Authorization
from controller.core.fold import Fold
from tests.controller.core.cluster import Cluster
from tests.controller.core.endpoint import answers, call, next_request

CLUSTER = "/kafka-acl/Cluster/kafka-cluster"
HOST = "10.0.0.1"
ALICE = ClientIdentity("User:alice", HOST)
ROOT = ClientIdentity("User:root", HOST)

Rule = tuple[str, str, str, str]
"""Principal, permission, operation, host."""


def acls(*rules: Rule) -> bytes:
    """The content of a pattern's znode, as Kafka's AclEntry.toJsonCompatibleMap."""
    entries = [
        {"principal": who, "permissionType": permission, "operation": operation, "host": host}
        for who, permission, operation, host in rules
    ]
    return msgspec.json.encode({"version": 1, "acls": entries})


def allows(operation: str, who: str = "User:alice", host: str = "*") -> Rule:
    return who, "Allow", operation, host


def denies(operation: str, who: str = "User:alice", host: str = "*") -> Rule:
    return who, "Deny", operation, host


def started(*rules: Rule, path: str = CLUSTER, **settings: bool) -> Cluster:
    """A controller with an authorizer, these ACLs and the topic t."""
    authorization = Authorization(super_users=("User:root",), **settings)
    cluster = Cluster(1, 2, authorization=authorization)
    if rules:
        cluster.put_with_parents(path, acls(*rules))
    cluster.create_topic("t", {0: [1, 2]})
    return cluster.start()


def by(client: ClientIdentity | None, request: ApiRequest) -> ApiRequest:
    return structs.replace(request, client=client)


def listing(cluster: Cluster, client: ClientIdentity | None = ALICE) -> int:
    """The error of a ListPartitionReassignments, which needs Describe."""
    request = ListPartitionReassignmentsReceived(next_request(cluster), 0, None)
    answer = call(cluster, by(client, request))
    error: int = answer.error
    return error


def change(
    cluster: Cluster, name: str, *, kind: str = "TOPIC", is_prefix: bool = False, number: int = 0
) -> None:
    """A broker announces that ACLs have changed."""
    if is_prefix:
        fields = {"version": 1, "resourceType": kind, "name": name, "patternType": "PREFIXED"}
        path, data = "/kafka-acl-extended-changes", msgspec.json.encode(fields)
    else:
        path, data = "/kafka-acl-changes", f"{kind}:{name}".encode()
    cluster.put_with_parents(f"{path}/acl_changes_{number:010}", data)


OF_THE_CLUSTER: dict[str, tuple[str, Callable[[int], ApiRequest]]] = {
    "AlterPartition": ("ClusterAction", lambda n: AlterPartitionReceived(n, 3, 1, 1, [])),
    "ControlledShutdown": ("ClusterAction", lambda n: ControlledShutdownReceived(n, 3, 2, 1)),
    "AllocateProducerIds": ("ClusterAction", lambda n: AllocateProducerIdsReceived(n, 0, 1, 1)),
    "ElectLeaders": ("Alter", lambda n: ElectLeadersReceived(n, 2, "preferred", [("t", 0)])),
    "AlterPartitionReassignments": (
        "Alter",
        lambda n: AlterPartitionReassignmentsReceived(n, 0, [ReassignmentTarget("t", 0, (2, 1))]),
    ),
    "ListPartitionReassignments": (
        "Describe",
        lambda n: ListPartitionReassignmentsReceived(n, 0, None),
    ),
    "UpdateFeatures": ("Alter", lambda n: UpdateFeaturesReceived(n, 1, 0, True, [])),
    "AlterUserScramCredentials": (
        "Alter",
        lambda n: AlterUserScramCredentialsReceived(n, 0, [ScramDeletion("bob", 1)], []),
    ),
}


def test_each_operation_on_the_cluster_is_tried() -> None:
    declared = {
        one.__name__.removesuffix("Received"): one.CLUSTER_OPERATION for one in get_args(ApiRequest)
    }
    needed = {name: operation for name, operation in declared.items() if operation is not None}
    assert {name: operation for name, (operation, _) in OF_THE_CLUSTER.items()} == needed


@pytest.mark.parametrize("api", OF_THE_CLUSTER)
def test_operation_on_the_cluster_needs_its_acl(api: str) -> None:
    operation, request = OF_THE_CLUSTER[api]
    for rules, is_allowed in (
        ((allows(operation),), True),
        ((allows("All"),), True),
        ((allows("Create"),), False),
        ((), False),
    ):
        cluster = started(*rules)
        asked = by(ALICE, request(next_request(cluster)))
        before = len(cluster.commands())
        answer = call(cluster, asked)
        refused = asked.refusal(codes.CLUSTER_AUTHORIZATION_FAILED)
        assert (answer == refused) is not is_allowed
        if not is_allowed:
            issued = cluster.commands()[before:]
            assert [type(one.command).__name__ for one in issued] == [
                "Notice",
                type(refused).__name__,
            ]
            [notice, _] = [one.command for one in issued]
            assert f"no ACL allows {operation} on Cluster kafka-cluster for User:alice" in (
                notice.text  # type: ignore[union-attr]
            )
            rule = issued[-1].reason.rule
            assert rule == f"not authorized: no ACL allows {operation} on Cluster"


def test_refused_reassignment_has_the_error_of_each_partition() -> None:
    cluster = started()
    _, request = OF_THE_CLUSTER["AlterPartitionReassignments"]
    answer = call(cluster, by(ALICE, request(next_request(cluster))))
    assert [(one.topic, one.partition, one.error) for one in answer.partitions] == [("t", 0, 31)]


@pytest.mark.parametrize(
    ("rules", "client", "is_allowed"),
    [
        ((allows("Describe"),), ALICE, True),
        ((allows("Describe"),), ClientIdentity("User:bob", HOST), False),
        ((allows("Describe", "User:*"),), ClientIdentity("User:bob", HOST), True),
        ((allows("Describe", host=HOST),), ALICE, True),
        ((allows("Describe", host="10.0.0.2"),), ALICE, False),
        ((allows("Alter"),), ALICE, True),
        ((allows("ClusterAction"),), ALICE, False),
        ((allows("All"), denies("Describe")), ALICE, False),
        ((denies("Describe", "User:*"), allows("Describe")), ALICE, False),
        ((allows("All"), denies("Describe", host="10.0.0.2")), ALICE, True),
        # ReadDenyingCluster one of the operations that imply Describe does not deny Describe.
        ((allows("Describe"), denies("Alter")), ALICE, True),
        ((denies("All", "User:*"),), ClientIdentity("User:root", HOST), True),
        ((), ClientIdentity("User:root", HOST), True),
        ((allows("Describe", "User:ANONYMOUS"),), None, True),
        ((), None, False),
    ],
)
def test_acls_are_read_as_kafkas_authorizer_reads_them(
    rules: tuple[Rule, ...], client: ClientIdentity | None, is_allowed: bool
) -> None:
    assert (listing(started(*rules), client) == codes.NONE) is is_allowed


def test_resource_without_acls_may_be_open_to_all_principals() -> None:
    assert listing(started(allows_without_acl=True)) == codes.NONE
    others = started(allows("Describe", "User:bob"), allows_without_acl=True)
    assert listing(others) == codes.CLUSTER_AUTHORIZATION_FAILED


def test_without_an_authorizer_everything_is_allowed_and_no_acl_is_read() -> None:
    cluster = Cluster(1, 2)
    cluster.put_with_parents(CLUSTER, acls(denies("All", "User:*")))
    cluster.start()
    assert listing(cluster) == codes.NONE
    assert "kafka-acl" not in repr([one.command for one in cluster.commands()])


# Topics -----------------------------------------------------------------------------------------


def create(cluster: Cluster, *names: str, client: ClientIdentity = ALICE) -> list[tuple[str, int]]:
    topics = [NewTopic(name, 1, 1, [], []) for name in names]
    request = CreateTopicsReceived(next_request(cluster), 7, 0, True, topics)
    answer = call(cluster, by(client, request))
    return [(one.name, one.error) for one in answer.topics]


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        (CLUSTER, ["a-1", "a-2", "b"]),
        ("/kafka-acl/Topic/a-1", ["a-1"]),
        ("/kafka-acl/Topic/*", ["a-1", "a-2", "b"]),
        ("/kafka-acl-extended/prefixed/Topic/a-", ["a-1", "a-2"]),
        ("/kafka-acl-extended/prefixed/Topic/a-1", ["a-1"]),
        ("/kafka-acl/Topic/a-", []),
        ("/kafka-acl/Group/a-1", []),
    ],
)
def test_topics_are_created_where_an_acl_allows_it(path: str, allowed: list[str]) -> None:
    cluster = started(allows("Create"), path=path)
    for name, error in create(cluster, "a-1", "a-2", "b"):
        expected = codes.NONE if name in allowed else codes.TOPIC_AUTHORIZATION_FAILED
        assert error == expected, name


def test_denied_prefix_precedes_an_allowed_name() -> None:
    cluster = started(allows("Create"), path="/kafka-acl/Topic/a-1")
    cluster.put_with_parents("/kafka-acl-extended/prefixed/Topic/a", acls(denies("Create")))
    change(cluster, "a", is_prefix=True)
    assert create(cluster, "a-1") == [("a-1", codes.TOPIC_AUTHORIZATION_FAILED)]


def test_refused_topic_has_kafkas_text_and_duplicates_come_first() -> None:
    cluster = started()
    topics = [NewTopic(name, 1, 1, [], []) for name in ("a", "b", "b")]
    request = CreateTopicsReceived(next_request(cluster), 7, 0, False, topics)
    answer = call(cluster, by(ALICE, request))
    assert [(one.error, one.message) for one in answer.topics] == [
        (codes.TOPIC_AUTHORIZATION_FAILED, "Authorization failed."),
        *[(codes.INVALID_REQUEST, "Found multiple entries for this topic.")] * 2,
    ]
    assert cluster.data("/brokers/topics/a") is None


def test_configuration_of_a_new_topic_is_for_those_who_may_describe_it() -> None:
    for more, is_hidden in (((), True), ((allows("DescribeConfigs"),), False)):
        cluster = started(allows("Create"), *more, path="/kafka-acl/Topic/a")
        topics = [NewTopic("a", 1, 1, [], [])]
        request = CreateTopicsReceived(next_request(cluster), 7, 0, True, topics)
        [created] = call(cluster, by(ALICE, request)).topics
        assert created.error == codes.NONE
        assert created.hides_configs is is_hidden


def test_partitions_are_added_where_an_acl_allows_it() -> None:
    for rules, error in (((allows("Alter"),), 0), ((allows("Describe"),), 29)):
        cluster = started(*rules, path="/kafka-acl/Topic/t")
        new = [NewPartitions("t", 2, None)]
        request = CreatePartitionsReceived(next_request(cluster), 3, 0, True, new)
        [answer] = call(cluster, by(ALICE, request)).topics
        assert answer.error == error
        assert answer.message == ("The topic authorization is failed." if error else None)


@pytest.mark.parametrize(
    ("rules", "by_id", "name", "error"),
    [
        ((), False, "t", 29),
        # A client that may not see the topic does not learn the name that belongs to its id.
        ((), True, None, 29),
        ((allows("Describe"),), True, "t", 29),
        ((allows("Describe"),), False, "t", 29),
    ],
)
def test_topics_are_deleted_where_an_acl_allows_it(
    rules: tuple[Rule, ...], by_id: bool, name: str | None, error: int
) -> None:
    cluster = started(*rules, path="/kafka-acl/Topic/t")
    topic_id = cluster.topic("t").topic_id if by_id else None
    topics = [TopicToDelete(None if by_id else "t", topic_id)]
    request = DeleteTopicsReceived(next_request(cluster), 6, 0, topics)
    [answer] = call(cluster, by(ALICE, request)).topics
    assert (answer.name, answer.error) == (name, error)
    assert cluster.data("/admin/delete_topics/t") is None


def test_topic_of_a_client_with_the_right_is_deleted() -> None:
    cluster = started(allows("Delete"), path="/kafka-acl/Topic/t")
    request = DeleteTopicsReceived(next_request(cluster), 6, 1, [TopicToDelete("t", None)])
    cluster.happen(by(ALICE, request), "api:1")
    assert not any(one.topics[0].error == 29 for one in answers(cluster))
    assert "/admin/delete_topics/t" in repr([one.command for one in cluster.commands()])


def test_unknown_topic_without_rights_looks_like_a_known_one() -> None:
    cluster = started()
    request = DeleteTopicsReceived(next_request(cluster), 6, 0, [TopicToDelete("x", None)])
    [answer] = call(cluster, by(ALICE, request)).topics
    assert answer.error == codes.TOPIC_AUTHORIZATION_FAILED


def refusals(cluster: Cluster) -> list[str]:
    """The texts of all notices about refusals."""
    notices = [one.command for one in cluster.commands() if isinstance(one.command, Notice)]
    return [one.text for one in notices if one.code == "not_authorized"]


NAMES = [f"a-{number}" for number in range(8)]
OF_MANY_TOPICS: dict[str, tuple[str, Callable[[int, list[str]], ApiRequest]]] = {
    "CreateTopics": (
        "Create",
        lambda n, names: CreateTopicsReceived(
            n, 7, 0, False, [NewTopic(one, 1, 1, [], []) for one in names]
        ),
    ),
    "DeleteTopics": (
        "Delete",
        lambda n, names: DeleteTopicsReceived(n, 6, 0, [TopicToDelete(one, None) for one in names]),
    ),
    "CreatePartitions": (
        "Alter",
        lambda n, names: CreatePartitionsReceived(
            n, 3, 0, False, [NewPartitions(one, 2, None) for one in names]
        ),
    ),
}


@pytest.mark.parametrize("api", OF_MANY_TOPICS)
def test_all_refused_topics_of_a_request_are_reported_together(api: str) -> None:
    operation, request = OF_MANY_TOPICS[api]
    cluster = started()
    answer = call(cluster, by(ALICE, request(next_request(cluster), NAMES)))
    assert [one.error for one in answer.topics] == [codes.TOPIC_AUTHORIZATION_FAILED] * len(NAMES)
    assert refusals(cluster) == [
        f"no ACL allows {operation} on Topic a-0, a-1, a-2, a-3, a-4 and 3 more for User:alice at "
        f"{HOST}: refused ({api}Received)"
    ]


@pytest.mark.parametrize(
    ("count", "listed"),
    [(5, "a-0, a-1, a-2, a-3, a-4"), (6, "a-0, a-1, a-2, a-3, a-4 and 1 more")],
)
def test_report_has_the_number_of_other_topics_if_not_all_are_named(
    count: int, listed: str
) -> None:
    cluster = started()
    create(cluster, *NAMES[:count])
    [text] = refusals(cluster)
    assert text.startswith(f"no ACL allows Create on Topic {listed} for User:alice")


@pytest.mark.parametrize("api", OF_MANY_TOPICS)
def test_many_topics_are_checked_in_slices(api: str) -> None:
    """The daemon answers pings between two slices: a request may name 100,000 topics."""
    _, request = OF_MANY_TOPICS[api]
    cluster = started()
    names = [f"a-{number}" for number in range(3_000)]
    call(cluster, by(ALICE, request(next_request(cluster), names)))
    fold = Fold(cluster.fold.controller.configuration)
    slices = [len(list(fold.apply(recorded))) for recorded, _ in cluster.history]
    assert max(slices) > 5


def test_report_of_refused_topics_has_each_reason_and_no_very_long_name() -> None:
    cluster = started(denies("Delete"), path="/kafka-acl/Topic/t")
    _, request = OF_MANY_TOPICS["DeleteTopics"]
    call(cluster, by(ALICE, request(next_request(cluster), ["t", "t", "x" * 32_767])))
    assert refusals(cluster) == [
        f"an ACL denies Delete on Topic t; no ACL allows Delete on Topic {'x' * 249} for "
        f"User:alice at {HOST}: refused (DeleteTopicsReceived)"
    ]


def test_topics_that_a_client_may_not_see_are_reported_together() -> None:
    cluster = started(allows("Create"), path="/kafka-acl/Topic/x")
    topic_id = cluster.topic("t").topic_id
    topics = [TopicToDelete(None, topic_id), TopicToDelete("x", None), TopicToDelete("y", None)]
    call(cluster, by(ALICE, DeleteTopicsReceived(next_request(cluster), 6, 0, topics)))
    who = f"for User:alice at {HOST}: refused (DeleteTopicsReceived)"
    assert refusals(cluster) == [
        f"no ACL allows Describe on Topic t {who}",
        f"no ACL allows Delete on Topic x, y {who}",
    ]


@pytest.mark.parametrize("api", OF_MANY_TOPICS)
def test_log_from_before_reports_together_has_a_notice_for_each_topic(api: str) -> None:
    """A notice is a command with a number: later commands keep theirs."""
    operation, request = OF_MANY_TOPICS[api]
    cluster = Cluster(1, 2, authorization=Authorization(), reports_refusals_together=False)
    cluster.start()
    call(cluster, by(ALICE, request(next_request(cluster), NAMES[:2])))
    assert refusals(cluster) == [
        f"no ACL allows {operation} on Topic {name} for User:alice at {HOST}: refused "
        f"({api}Received)"
        for name in NAMES[:2]
    ]


def test_hidden_configurations_are_not_reported() -> None:
    for together in (True, False):
        cluster = Cluster(1, authorization=Authorization(), reports_refusals_together=together)
        cluster.put_with_parents(CLUSTER, acls(allows("Create")))
        cluster.start()
        assert create(cluster, "a-1") == [("a-1", codes.NONE)]
        assert refusals(cluster) == []


# Attacks ----------------------------------------------------------------------------------------


def test_principal_of_a_broker_may_speak_for_another_as_in_kafka() -> None:
    """ClusterAction is the only right that Kafka asks for. The epoch must be that of the broker in
    the request, and the log has the principal."""
    cluster = started(allows("ClusterAction", "User:broker-2"))
    as_broker_2 = ClientIdentity("User:broker-2", HOST)
    epoch = cluster.broker_epoch(1)
    for its_epoch, error in ((epoch, codes.NONE), (epoch - 1, codes.STALE_BROKER_EPOCH)):
        number = next_request(cluster)
        answer = call(
            cluster, by(as_broker_2, AllocateProducerIdsReceived(number, 0, 1, its_epoch))
        )
        assert answer.error == error
    events = [recorded.event for recorded, _ in cluster.history]
    sent = [one for one in events if isinstance(one, AllocateProducerIdsReceived)]
    assert [(one.client, one.broker) for one in sent] == [(as_broker_2, 1)] * 2
    answer = call(
        cluster, by(ALICE, AllocateProducerIdsReceived(next_request(cluster), 0, 1, epoch))
    )
    assert answer.error == codes.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize("name", ["../../config/users/alice", "a/b", "..", "."])
def test_path_as_a_name_reads_and_writes_nothing_else(name: str) -> None:
    cluster = started(allows("All"))
    seen = cluster.seen()
    assert create(cluster, name) == [(name, codes.INVALID_TOPIC_EXCEPTION)]
    assert seen.written() == []
