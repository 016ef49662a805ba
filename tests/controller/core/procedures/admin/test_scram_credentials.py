"""AlterUserScramCredentials (KIP-554): ZkAdminManager.alterUserScramCredentials.

Credentials are keyed digests here, as everywhere in the fold, so that any text will do.
"""

import msgspec
import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.api_requests.scram_credentials import (
    AlterUserScramCredentialsReceived,
    AlterUserScramCredentialsResponse,
    ScramDeletion,
    ScramUpsertion,
    UserResult,
)
from controller.core.operations import Create, CreateSequential, Delete, SetData
from controller.core.user_configs import is_secret
from replay.world.requests import GetChildren
from tests.controller.core.cluster import Cluster, reads, writes
from tests.controller.core.denied_reads import ReadDenyingCluster
from tests.controller.core.endpoint import call, next_request
from tests.controller.core.unreliable import Delivery

SHA_256, SHA_512 = 1, 2
ANN = "/config/users/ann"
TWICE = "A user credential cannot be altered twice in the same request"
ABSENT = "Attempt to delete a user credential that does not exist"
FAILED = "The server experienced an unexpected error when processing the request."

Given = tuple[str, int, int, str]
Gone = tuple[str, int]


def alter(
    cluster: Cluster, given: tuple[Given, ...] = (), gone: tuple[Gone, ...] = ()
) -> tuple[UserResult, ...]:
    answer = call(
        cluster,
        AlterUserScramCredentialsReceived(
            next_request(cluster),
            0,
            [ScramDeletion(*one) for one in gone],
            [ScramUpsertion(*one) for one in given],
        ),
    )
    assert isinstance(answer, AlterUserScramCredentialsResponse)
    return answer.users


def configured(cluster: Cluster, user: str) -> dict[str, str] | None:
    """The content of a user's znode."""
    data = cluster.data(znodes.user_config_path(user))
    return None if data is None else znodes.read_config("", data)


def announced(cluster: Cluster) -> list[str]:
    """The entities of the notifications, in order."""
    names = cluster.ask(GetChildren(znodes.CONFIG_CHANGES)).children or ()
    found = [
        msgspec.json.decode(cluster.data(f"{znodes.CONFIG_CHANGES}/{one}") or b"") for one in names
    ]
    assert all(one["version"] == 2 for one in found)
    return [one["entity_path"] for one in found]


def of(**users: dict[str, str]) -> ReadDenyingCluster:
    """A cluster with configurations of users, all of which the controller may read."""
    cluster = ReadDenyingCluster(1)
    for path in (znodes.USER_CONFIGS, znodes.CONFIG_CHANGES):
        cluster.put(path, b"")
    for user, configs in users.items():
        cluster.put(znodes.user_config_path(user), znodes.write_config(configs))
    cluster.start()
    return cluster


def test_credential_is_written_and_announced() -> None:
    cluster = of()
    seen = cluster.seen()
    assert alter(cluster, (("ann", SHA_512, 4096, "x"),)) == (UserResult("ann"),)
    assert configured(cluster, "ann") == {"SCRAM-SHA-512": "x"}
    assert announced(cluster) == ["users/ann"]
    entity = znodes.write_config_change("users/ann")
    content = znodes.write_config({"SCRAM-SHA-512": "x"})
    assert seen.writes() == [
        SetData(ANN, content, -1),
        Create(ANN, content),
        CreateSequential(f"{znodes.CONFIG_CHANGES}/config_change_", entity),
    ]


def test_unrelated_configurations_of_a_user_are_kept() -> None:
    cluster = of(ann={"producer_byte_rate": "9", "SCRAM-SHA-256": "old", "SCRAM-SHA-512": "other"})
    seen = cluster.seen()
    assert alter(cluster, (("ann", SHA_256, 4096, "new"),)) == (UserResult("ann"),)
    assert configured(cluster, "ann") == {
        "producer_byte_rate": "9",
        "SCRAM-SHA-256": "new",
        "SCRAM-SHA-512": "other",
    }
    assert seen.written() == [ANN, f"{znodes.CONFIG_CHANGES}/config_change_"]


def test_one_mechanism_is_deleted_while_another_is_added() -> None:
    cluster = of(ann={"SCRAM-SHA-256": "old"})
    answers = alter(cluster, (("ann", SHA_512, 8192, "new"),), (("ann", SHA_256),))
    assert answers == (UserResult("ann"),)
    assert configured(cluster, "ann") == {"SCRAM-SHA-512": "new"}


def test_last_credential_is_deleted_with_the_users_znode() -> None:
    cluster = of(ann={"SCRAM-SHA-256": "old"})
    assert alter(cluster, gone=(("ann", SHA_256),)) == (UserResult("ann"),)
    assert cluster.data(ANN) is None
    assert announced(cluster) == ["users/ann"]


def test_users_znode_is_kept_while_its_clients_have_quotas() -> None:
    cluster = of(ann={"SCRAM-SHA-256": "old"})
    cluster.put(f"{ANN}/clients", b"")
    assert alter(cluster, gone=(("ann", SHA_256),)) == (UserResult("ann"),)
    assert configured(cluster, "ann") == {}
    assert announced(cluster) == ["users/ann"]


@pytest.mark.parametrize(
    ("user", "name"),
    [
        ("CN=ann,O=x y", "CN%3Dann%2CO%3Dx%20y"),
        ("a*b-c._~", "a%2Ab-c._%7E"),
        ("<default>", "%3Cdefault%3E"),
        ("Ä/ü", "%C3%84%2F%C3%BC"),
    ],
)
def test_user_names_are_encoded_as_in_kafka(user: str, name: str) -> None:
    """Sanitizer.sanitize."""
    cluster = of()
    assert alter(cluster, ((user, SHA_256, 4096, "x"),)) == (UserResult(user),)
    assert cluster.data(f"/config/users/{name}") == znodes.write_config({"SCRAM-SHA-256": "x"})
    assert announced(cluster) == [f"users/{name}"]


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (("", SHA_256, 4096, "x"), codes.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (("", 9, 1, "x"), codes.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (("ann", 0, 4096, ""), codes.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (("ann", 3, 1, ""), codes.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (("ann", SHA_256, 4095, "x"), codes.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        (("ann", SHA_512, 4095, "x"), codes.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        (("ann", SHA_256, 16385, "x"), codes.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
    ],
)
def test_alterations_that_kafka_rejects_are_rejected(given: Given, error: int, text: str) -> None:
    cluster = of()
    seen = cluster.seen()
    answers = alter(cluster, (given, ("bob", SHA_256, 16384, "y")))
    assert answers == (UserResult(given[0], error, text), UserResult("bob"))
    assert {"/config/users/bob"} == set(seen.written()) - {
        f"{znodes.CONFIG_CHANGES}/config_change_"
    }


@pytest.mark.parametrize(
    ("gone", "error", "text"),
    [
        (("", SHA_256), codes.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (("ann", 7), codes.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (("ann", SHA_512), codes.RESOURCE_NOT_FOUND, ABSENT),
        (("bob", SHA_256), codes.RESOURCE_NOT_FOUND, ABSENT),
    ],
)
def test_deletions_that_kafka_rejects_are_rejected(gone: Gone, error: int, text: str) -> None:
    cluster = of(ann={"SCRAM-SHA-256": "x"})
    seen = cluster.seen()
    assert alter(cluster, gone=(gone,)) == (UserResult(gone[0], error, text),)
    assert seen.writes() == []


def test_rejected_alteration_changes_nothing_of_its_user() -> None:
    """Valid alterations and deletions of the same user are not carried out either."""
    cluster = of(ann={"SCRAM-SHA-256": "x"}, bob={"SCRAM-SHA-256": "x"})
    answers = alter(
        cluster,
        (("ann", SHA_512, 1, "y"), ("bob", SHA_256, 4096, "y")),
        (("ann", SHA_256), ("bob", SHA_512)),
    )
    few = UserResult("ann", codes.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    assert answers == (few, UserResult("bob", codes.RESOURCE_NOT_FOUND, ABSENT))
    assert configured(cluster, "ann") == configured(cluster, "bob") == {"SCRAM-SHA-256": "x"}


@pytest.mark.parametrize(
    ("given", "gone"),
    [
        ((("ann", SHA_256, 4096, "x"), ("ann", SHA_256, 5000, "y")), ()),
        ((("ann", SHA_256, 4096, "x"),), (("ann", SHA_256),)),
        ((), (("ann", SHA_256), ("ann", SHA_256))),
    ],
)
def test_credential_named_twice_in_a_request_is_rejected(
    given: tuple[Given, ...], gone: tuple[Gone, ...]
) -> None:
    cluster = of(ann={"SCRAM-SHA-256": "old"})
    assert alter(cluster, given, gone) == (UserResult("ann", codes.DUPLICATE_RESOURCE, TWICE),)
    assert configured(cluster, "ann") == {"SCRAM-SHA-256": "old"}


def test_invalid_alteration_is_the_reason_although_the_credential_is_named_twice() -> None:
    cluster = of()
    answers = alter(cluster, (("ann", SHA_256, 1, "x"), ("ann", SHA_256, 4096, "x")))
    assert answers == (UserResult("ann", codes.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),)


def test_password_that_java_cannot_use_as_a_key_fails_all_users() -> None:
    """In Kafka, one exception ends the preparation of all users. Users that were rejected before
    keep their error."""
    cluster = of()
    alterations = (("ann", SHA_256, 4096, ""), ("bob", SHA_256, 4096, "x"))
    answers = alter(cluster, alterations, (("cleo", SHA_256),))
    assert sorted(answers, key=lambda one: one.user) == [
        UserResult("ann", codes.UNKNOWN_SERVER_ERROR, FAILED),
        UserResult("bob", codes.UNKNOWN_SERVER_ERROR, FAILED),
        UserResult("cleo", codes.RESOURCE_NOT_FOUND, ABSENT),
    ]
    assert configured(cluster, "bob") is None


@pytest.mark.parametrize(
    "configs", [{"no.such": "1"}, {"producer_byte_rate": "much"}, {"request_percentage": "x"}]
)
def test_invalid_stored_configuration_is_not_written_again(configs: dict[str, str]) -> None:
    """DynamicConfig.User.validate."""
    cluster = of(ann=configs)
    seen = cluster.seen()
    answers = alter(cluster, (("ann", SHA_256, 4096, "x"),))
    assert answers == (UserResult("ann", codes.UNKNOWN_SERVER_ERROR, FAILED),)
    assert seen.writes() == []
    assert seen.notices() == [("credentials_not_altered", ANN)]


def test_missing_credential_is_the_reason_although_the_stored_configuration_is_invalid() -> None:
    cluster = of(ann={"no.such": "1"})
    seen = cluster.seen()
    answers = alter(cluster, gone=(("ann", SHA_256),))
    assert answers == (UserResult("ann", codes.RESOURCE_NOT_FOUND, ABSENT),)
    assert seen.notices() == []


def test_configuration_that_may_not_be_read_fails_only_its_user() -> None:
    cluster = of(ann={"producer_byte_rate": "9"})
    cluster.denied = (ANN,)
    answers = alter(cluster, (("ann", SHA_256, 4096, "x"), ("bob", SHA_256, 4096, "y")))
    assert answers == (UserResult("ann", codes.UNKNOWN_SERVER_ERROR, FAILED), UserResult("bob"))
    assert configured(cluster, "ann") == {"producer_byte_rate": "9"}
    assert configured(cluster, "bob") == {"SCRAM-SHA-256": "y"}


def test_unreadable_content_fails_only_its_user() -> None:
    cluster = of()
    cluster.put(ANN, b"sealed as a whole")
    seen = cluster.seen()
    answers = alter(cluster, (("ann", SHA_256, 4096, "x"), ("bob", SHA_256, 4096, "y")))
    assert answers == (UserResult("ann", codes.UNKNOWN_SERVER_ERROR, FAILED), UserResult("bob"))
    assert cluster.data(ANN) == b"sealed as a whole"
    assert seen.notices() == [("credentials_not_altered", ANN)]
    assert "repair or delete the znode" in seen.texts()[0]


def test_users_znode_created_meanwhile_is_overwritten() -> None:
    cluster = of()
    made = znodes.write_config({"producer_byte_rate": "1"})

    def is_create(issued: object) -> bool:
        return any(isinstance(one, Create) for one in getattr(issued.command, "operations", ()))  # type: ignore[attr-defined]

    cluster.once(is_create, lambda: cluster.put_quietly(ANN, made))
    assert alter(cluster, (("ann", SHA_256, 4096, "x"),)) == (UserResult("ann"),)
    assert configured(cluster, "ann") == {"SCRAM-SHA-256": "x"}, "the last write wins, as in Kafka"


def test_users_znode_deleted_meanwhile_is_created() -> None:
    cluster = of(ann={"SCRAM-SHA-256": "x"})
    cluster.once(writes(ANN), lambda: cluster.remove_quietly(ANN))
    assert alter(cluster, gone=(("ann", SHA_256),)) == (UserResult("ann"),)
    assert cluster.data(ANN) is None


@pytest.mark.parametrize("path", [ANN, f"{znodes.CONFIG_CHANGES}/config_change_"])
@pytest.mark.parametrize("delivery", [Delivery.REPLY_LOST, Delivery.REQUEST_LOST])
def test_lost_reply_repeats_the_alteration_at_most_in_the_notification(
    path: str, delivery: Delivery
) -> None:
    """Two equal notifications are harmless."""
    cluster = of(ann={"SCRAM-SHA-256": "x"})
    cluster.lose(writes(path), delivery)
    assert alter(cluster, (("ann", SHA_256, 4096, "y"),)) == (UserResult("ann"),)
    assert configured(cluster, "ann") == {"SCRAM-SHA-256": "y"}
    assert list(dict.fromkeys(announced(cluster))) == ["users/ann"]


def test_failed_notification_is_an_error() -> None:
    cluster = of()
    cluster.remove_quietly(znodes.CONFIG_CHANGES)
    seen = cluster.seen()
    answers = alter(cluster, (("ann", SHA_256, 4096, "x"),))
    assert answers == (UserResult("ann", codes.UNKNOWN_SERVER_ERROR, FAILED),)
    assert seen.notices() == [("credentials_not_altered", ANN)]


def test_missing_parent_znode_is_an_error() -> None:
    cluster = of()
    cluster.remove_quietly(znodes.USER_CONFIGS)
    answers = alter(cluster, (("ann", SHA_256, 4096, "x"),))
    assert answers == (UserResult("ann", codes.UNKNOWN_SERVER_ERROR, FAILED),)
    assert announced(cluster) == []


def test_empty_request_has_an_empty_answer() -> None:
    cluster = of()
    seen = cluster.seen()
    assert alter(cluster) == ()
    assert seen.writes() == []


def test_standby_answers_not_controller() -> None:
    cluster = of()
    cluster.seize_role(1)
    cluster.run()
    answers = alter(cluster, (("b", SHA_256, 4096, "x"), ("c", 9, 1, "")), (("a", SHA_256),))
    assert answers == tuple(UserResult(one, codes.NOT_CONTROLLER) for one in "abc")


def test_replaced_controller_writes_nothing() -> None:
    cluster = of()
    cluster.once(writes(ANN), lambda: cluster.seize_role(1))
    answers = alter(cluster, (("ann", SHA_256, 4096, "x"),))
    assert answers == (UserResult("ann", codes.NOT_CONTROLLER),)
    assert configured(cluster, "ann") is None


def test_ended_session_is_answered_without_a_change() -> None:
    cluster = of()
    cluster.once(reads(ANN), cluster.expire)
    answers = alter(cluster, (("ann", SHA_256, 4096, "x"),))
    assert answers == (UserResult("ann", codes.NOT_CONTROLLER),)
    assert configured(cluster, "ann") is None


def test_deletion_does_not_delete_children_of_the_users_znode() -> None:
    """A client may have created a child meanwhile."""
    cluster = of(ann={"SCRAM-SHA-256": "x"})
    cluster.once(writes(ANN), lambda: cluster.put_quietly(f"{ANN}/clients", b""))
    seen = cluster.seen()
    answers = alter(cluster, gone=(("ann", SHA_256),))
    assert seen.writes() == [Delete(ANN, -1)]
    assert answers == (UserResult("ann", codes.UNKNOWN_SERVER_ERROR, FAILED),)


@pytest.mark.parametrize(
    ("key", "is_hidden"),
    [("SCRAM-SHA-256", True), ("password", True), ("producer_byte_rate", False)],
)
def test_values_of_users_other_than_quotas_are_secret(key: str, is_hidden: bool) -> None:
    assert is_secret(key) == is_hidden
