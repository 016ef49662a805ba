import pytest
from kazoo.protocol.serialization import Create as KazooCreate
from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from controller.core.operations import Create
from controller.zookeeper import bulk
from controller.zookeeper.acls import CREATOR_ACLS, OPEN_ACLS, ZnodeAcls


@pytest.mark.parametrize(
    ("acls", "path", "expected"),
    [
        (OPEN_ACLS, "/brokers/topics/t", OPEN_ACL_UNSAFE),
        (OPEN_ACLS, "/config/users/alice", OPEN_ACL_UNSAFE),
        (CREATOR_ACLS, "/brokers/topics/t", CREATOR_ALL_ACL + READ_ACL_UNSAFE),
        (CREATOR_ACLS, "/config/topics/t", CREATOR_ALL_ACL + READ_ACL_UNSAFE),
        (CREATOR_ACLS, "/config/users/alice", CREATOR_ALL_ACL),
        (CREATOR_ACLS, "/config/brokers", CREATOR_ALL_ACL),
        (CREATOR_ACLS, "/delegation_token/tokens/id", CREATOR_ALL_ACL),
    ],
)
def test_znodes_are_created_with_kafkas_acls(
    acls: ZnodeAcls, path: str, expected: list[ACL]
) -> None:
    full = f"/kafka{path}"
    request = bulk.multi_request([(full.encode(), Create(path, b"data"))], acls.acl_of, None)
    of_kazoo = bytes(KazooCreate(full, b"data", expected, 0).serialize())
    # kazoo sends no text for the empty id, ZooKeeper's own client an empty one.
    assert of_kazoo.replace(b"auth\xff\xff\xff\xff", b"auth\0\0\0\0") in request
