"""Kafka's ACLs are read at the failover and after changes, as far as ZooKeeper allows it
(AclAuthorizer, ZkAclChangeStore)."""

import pytest

from controller.core import error_codes as codes
from controller.core.api_requests.topics import CreateTopicsReceived, NewTopic
from controller.core.configuration import Authorization
from controller.core.snapshot import load_snapshot, take_snapshot
from tests.controller.core.cluster import Cluster
from tests.controller.core.denied_reads import ReadDenyingCluster
from tests.controller.core.endpoint import call, next_request
from tests.controller.core.procedures.admin.test_authorization import (
    ALICE,
    CLUSTER,
    ROOT,
    acls,
    allows,
    by,
    change,
    create,
    denies,
    listing,
    started,
)


def test_changed_acls_count_for_the_next_request() -> None:
    cluster = started(allows("Describe", "User:bob"))
    assert listing(cluster) == codes.CLUSTER_AUTHORIZATION_FAILED
    cluster.put_with_parents(CLUSTER, acls(allows("Describe")))
    change(cluster, "kafka-cluster", kind="CLUSTER")
    assert listing(cluster) == codes.NONE
    cluster.remove(CLUSTER)
    change(cluster, "kafka-cluster", kind="CLUSTER", number=1)
    assert listing(cluster) == codes.CLUSTER_AUTHORIZATION_FAILED
    assert create(cluster, "a-1") == [("a-1", codes.TOPIC_AUTHORIZATION_FAILED)]
    cluster.put_with_parents("/kafka-acl-extended/prefixed/Topic/a-", acls(allows("Create")))
    change(cluster, "a-", is_prefix=True)
    assert create(cluster, "a-1") == [("a-1", codes.NONE)]
    cluster.remove("/kafka-acl-extended/prefixed/Topic/a-")
    change(cluster, "a-", is_prefix=True, number=1)
    assert create(cluster, "a-1") == [("a-1", codes.TOPIC_AUTHORIZATION_FAILED)]


PREFIXES = "/kafka-acl-extended/prefixed/Topic"


def test_acls_of_a_prefix_count_again_after_they_were_deleted() -> None:
    cluster = started()
    for number in (0, 2):
        cluster.put_with_parents(f"{PREFIXES}/a-", acls(allows("Create")))
        change(cluster, "a-", is_prefix=True, number=number)
        assert create(cluster, "a-1") == [("a-1", codes.NONE)]
        cluster.remove(f"{PREFIXES}/a-")
        change(cluster, "a-", is_prefix=True, number=number + 1)
        assert create(cluster, "a-1") == [("a-1", codes.TOPIC_AUTHORIZATION_FAILED)]


def test_deleted_acls_of_a_prefix_affect_no_other_prefix_of_its_length() -> None:
    cluster = started(allows("Create"), path=f"{PREFIXES}/a-")
    cluster.put_with_parents(f"{PREFIXES}/b-", acls(allows("Create")))
    change(cluster, "b-", is_prefix=True)
    cluster.remove(f"{PREFIXES}/b-")
    # The second time, the controller knows no ACLs of the prefix.
    for number in (1, 2):
        change(cluster, "b-", is_prefix=True, number=number)
        refused = ("b-1", codes.TOPIC_AUTHORIZATION_FAILED)
        assert create(cluster, "a-1", "b-1") == [("a-1", codes.NONE), refused]


def test_unreadable_notification_has_all_acls_read_again() -> None:
    cluster = started()
    cluster.put_with_parents(CLUSTER, acls(allows("Describe")))
    cluster.put_with_parents("/kafka-acl-extended-changes/acl_changes_0000000000", b"{")
    assert listing(cluster) == codes.NONE
    cluster.remove(CLUSTER)
    cluster.put_with_parents("/kafka-acl-extended-changes/acl_changes_0000000001", b"{")
    assert listing(cluster) == codes.CLUSTER_AUTHORIZATION_FAILED


def test_child_without_a_number_among_the_notifications_hides_no_later_one() -> None:
    cluster = Cluster(1, 2, authorization=Authorization())
    cluster.put_with_parents("/kafka-acl-changes/acl_changes_x", b"CLUSTER:kafka-cluster")
    cluster.start()
    cluster.put_with_parents(CLUSTER, acls(allows("Describe")))
    change(cluster, "kafka-cluster", kind="CLUSTER")
    assert listing(cluster) == codes.NONE


def test_notifications_from_before_the_failover_are_not_read() -> None:
    cluster = Cluster(1, 2, authorization=Authorization())
    for number in (0, 1):
        cluster.put_with_parents(f"/kafka-acl-changes/acl_changes_{number:010}", b"unreadable")
    cluster.start()
    seen = cluster.seen()
    cluster.put_with_parents(CLUSTER, acls(allows("Describe")))
    change(cluster, "kafka-cluster", kind="CLUSTER", number=2)
    assert listing(cluster) == codes.NONE
    assert seen.notices() == []


def test_changed_acls_of_a_group_are_the_business_of_brokers() -> None:
    cluster = started(allows("Describe"))
    seen = cluster.seen()
    change(cluster, "g", kind="GROUP")
    assert listing(cluster) == codes.NONE
    assert seen.notices() == []


def test_unreadable_acls_deny_everything() -> None:
    cluster = Cluster(1, authorization=Authorization(allows_without_acl=True))
    cluster.put_with_parents(CLUSTER, b'{"version":1,"acls":[{"principal":"User:alice"}]}')
    cluster.start()
    assert listing(cluster) == codes.CLUSTER_AUTHORIZATION_FAILED


SECRET = "/kafka-acl/Topic/secret"
OTHER = "/kafka-acl/Topic/other"


def created(cluster: Cluster, topic: str) -> int:
    """The error of a CreateTopics that only validates."""
    new = NewTopic(topic, 1, 1, [], [])
    request = CreateTopicsReceived(next_request(cluster), 7, 1_000, True, [new])
    error: int = call(cluster, by(ALICE, request)).topics[0].error
    return error


def allowed() -> ReadDenyingCluster:
    """A controller that may read everything, and a client that may create the topic other."""
    cluster = ReadDenyingCluster(1, 2, authorization=Authorization())
    cluster.put_with_parents("/kafka-acl-changes", b"")
    cluster.put_with_parents(OTHER, acls(allows("Create")))
    cluster.start()
    assert created(cluster, "other") == codes.NONE
    return cluster


def test_acls_that_may_not_be_read_deny_everything_and_stop_no_failover() -> None:
    cluster = ReadDenyingCluster(1, 2, authorization=Authorization(allows_without_acl=True))
    cluster.denied = (SECRET,)
    cluster.put_with_parents(CLUSTER, acls(allows("Describe")))
    cluster.put_with_parents(SECRET, acls(allows("Create")))
    seen = cluster.seen()
    cluster.start()
    assert cluster.is_active
    assert created(cluster, "secret") == codes.TOPIC_AUTHORIZATION_FAILED
    assert created(cluster, "other") == codes.NONE
    assert f"{SECRET} cannot be read (NoAuth)" in seen.texts_of("unreadable_znode")[0]


def test_change_is_applied_although_the_acls_of_another_change_may_not_be_read() -> None:
    cluster = allowed()
    cluster.denied = (SECRET,)
    cluster.put_with_parents(SECRET, acls(allows("Create")))
    cluster.put_with_parents(OTHER, acls(allows("Create"), denies("Create")))
    cluster.put_quietly("/kafka-acl-changes/acl_changes_0000000000", b"TOPIC:secret")
    change(cluster, "other", number=1)
    assert created(cluster, "other") == codes.TOPIC_AUTHORIZATION_FAILED


def test_notification_that_may_not_be_read_has_all_acls_read_again() -> None:
    """The unreadable notification must not stop later changes."""
    cluster = allowed()
    seen = cluster.seen()
    cluster.denied = ("/kafka-acl-changes/acl_changes_0000000000",)
    cluster.put_with_parents(OTHER, acls(allows("Create"), denies("Create")))
    cluster.put_with_parents(CLUSTER, acls(allows("Describe")))
    change(cluster, "secret")
    assert created(cluster, "other") == codes.TOPIC_AUTHORIZATION_FAILED
    assert listing(cluster) == codes.NONE
    assert "cannot be read (NoAuth)" in seen.texts_of("unreadable_znode")[0]
    cluster.put_with_parents(OTHER, acls(allows("Create")))
    change(cluster, "other", number=1)
    assert created(cluster, "other") == codes.NONE


@pytest.mark.parametrize(
    "denied", ["/kafka-acl/Topic", "/kafka-acl-extended/prefixed/Cluster", "/kafka-acl-changes"]
)
def test_acls_that_may_not_be_listed_deny_everything_until_they_may(denied: str) -> None:
    authorization = Authorization(super_users=("User:root",), allows_without_acl=True)
    cluster = ReadDenyingCluster(1, 2, authorization=authorization)
    cluster.put_with_parents("/kafka-acl-changes", b"")
    cluster.put_with_parents(CLUSTER, acls(allows("Describe")))
    cluster.put_with_parents(OTHER, acls(allows("Create")))
    cluster.denied = (denied,)
    seen = cluster.seen()
    cluster.start()
    assert cluster.is_active
    assert created(cluster, "other") == codes.TOPIC_AUTHORIZATION_FAILED
    assert listing(cluster) == codes.CLUSTER_AUTHORIZATION_FAILED
    assert listing(cluster, ROOT) == codes.NONE
    change(cluster, "other")
    texts = seen.texts_of("unreadable_znode")
    assert [f"{denied} cannot be read (NoAuth)" in one for one in texts] == [True, True]
    cluster.denied = ()
    change(cluster, "other", number=1)
    assert created(cluster, "other") == codes.NONE
    assert listing(cluster) == codes.NONE


def test_list_that_may_no_longer_be_read_denies_everything() -> None:
    cluster = allowed()
    cluster.denied = ("/kafka-acl-changes",)
    change(cluster, "other")
    assert created(cluster, "other") == codes.TOPIC_AUTHORIZATION_FAILED


def test_snapshot_has_the_acls() -> None:
    cluster = started(allows("Describe"))
    fold = load_snapshot(take_snapshot(cluster.fold), cluster.fold.controller.configuration)
    assert fold.controller.context.acls.acls == cluster.fold.controller.context.acls.acls
    assert fold.controller.context.acls.acls
