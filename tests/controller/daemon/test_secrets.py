"""Credentials of users are written to ZooKeeper. Neither the log nor the fold contains them."""

from pathlib import Path

import pytest

from controller.core import znodes
from controller.core.api_requests.scram_credentials import (
    AlterUserScramCredentialsReceived,
    AlterUserScramCredentialsResponse,
    ScramDeletion,
    ScramUpsertion,
    UserResult,
)
from controller.core.commands import CommandId, ReadZnodes, WriteZnodes
from controller.core.events import Event, ZnodesRead
from controller.core.operations import Create, Delete, SetData
from controller.event_log.secret_digests import SecretDigests
from replay.world.requests import GetChildren
from tests.controller.daemon.peers import (
    DaemonHarness,
    replayed,
)

OLD = "salt=b2xk,stored_key=T0xE,server_key=b2xkZXI=,iterations=4096"
NEW = "salt=bmV3,stored_key=TkVX,server_key=bmV3ZXI=,iterations=8192"
OTHER = "salt=bzM=,stored_key=T1RI,server_key=b3RoZXI=,iterations=4096"
ANN, BOB = map(znodes.user_config_path, ("ann", "bob"))
QUOTA = {"producer_byte_rate": "9000000"}


def asked(
    *given: tuple[str, str], request: int = 1, gone: tuple[str, ...] = ()
) -> AlterUserScramCredentialsReceived:
    """Users with their new credentials for SCRAM-SHA-256, and users whose credential is deleted."""
    return AlterUserScramCredentialsReceived(
        request,
        0,
        [ScramDeletion(user, 1) for user in gone],
        [ScramUpsertion(user, 1, 8192, credential) for user, credential in given],
    )


# The whole daemon -------------------------------------------------------------------------------


@pytest.mark.parametrize("rules", ["refold", "kafka"])
async def test_credential_is_in_zookeeper_and_not_in_the_log(tmp_path: Path, rules: str) -> None:
    harness = DaemonHarness(tmp_path / "log", 1, rules=rules)
    others = harness.others
    for path in (znodes.USER_CONFIGS, znodes.CONFIG_CHANGES):
        others.put_quietly(path, b"")
    others.put_quietly(ANN, znodes.write_config(QUOTA | {"SCRAM-SHA-512": OTHER}))
    others.put_quietly(BOB, znodes.write_config({"SCRAM-SHA-256": OLD}))
    async with harness.running():
        await harness.until_controller()
        harness.inbox.put(asked(("ann", NEW), ("cat", OTHER), gone=("bob",)), "api:1")
        await harness.until(lambda: others.data(BOB) is None, "bob has no credential")
        await harness.until(lambda: len(changes(harness)) == 3, "all are announced")
        harness.inbox.put(asked(("ann", OLD), request=2), "api:1")
        await harness.until(lambda: len(changes(harness)) == 4, "it is announced")
    assert others.data(ANN) == znodes.write_config(
        QUOTA | {"SCRAM-SHA-512": OTHER, "SCRAM-SHA-256": OLD}
    )
    assert others.data(znodes.user_config_path("cat")) == znodes.write_config(
        {"SCRAM-SHA-256": OTHER}
    )
    stored = b"".join(file.read_bytes() for file in (tmp_path / "log").rglob("*") if file.is_file())
    assert b"9000000" in stored, "settings without credentials are in the log"
    for secret in (OLD, NEW, OTHER):
        for part in secret.split(","):
            if not part.startswith("iterations"):
                assert part.partition("=")[2].encode() not in stored
    replayed(tmp_path / "log")


def changes(harness: DaemonHarness) -> list[str]:
    """The notifications of changed configurations."""
    return list(harness.others.ask(GetChildren(znodes.CONFIG_CHANGES)).children or ())


# Seals ------------------------------------------------------------------------------------------


def logged_credentials(event: Event) -> list[str]:
    assert isinstance(event, AlterUserScramCredentialsReceived)
    return [one.credential for one in event.upsertions]


def read(digests: SecretDigests, data: list[bytes | None], *paths: str) -> list[bytes | None]:
    """The data at these paths as the fold reads it."""
    id = CommandId(5, 0)
    assert digests.restore_secrets(id, ReadZnodes(paths)) == ReadZnodes(paths)
    none = [-1] * len(data)
    outcome = digests.replace_secrets(
        ZnodesRead(id, 0, [0] * len(data), data, none, none, none, none)
    )
    assert isinstance(outcome, ZnodesRead)
    return outcome.data


def written(digests: SecretDigests, *operations: Create | SetData | Delete) -> list[bytes | None]:
    """The data as it is written to ZooKeeper."""
    command = digests.restore_secrets(CommandId(6, 0), WriteZnodes(operations, 3))
    assert isinstance(command, WriteZnodes)
    assert command.epoch_version == 3
    return [getattr(one, "data", None) for one in command.operations]


def test_secret_read_back_has_the_digest_that_was_written() -> None:
    """The fold compares the two to resolve a write whose reply was lost."""
    digests = SecretDigests()
    [digest] = logged_credentials(digests.replace_secrets(asked(("ann", NEW))))
    ours = znodes.write_config(QUOTA | {"SCRAM-SHA-256": digest})
    [theirs] = written(digests, SetData(ANN, ours, -1))
    assert theirs == znodes.write_config(QUOTA | {"SCRAM-SHA-256": NEW})
    assert read(digests, [theirs], ANN) == [ours]
    assert NEW not in digest


def test_kafkas_own_spelling_is_read() -> None:
    digests = SecretDigests()
    digests.replace_secrets(asked())
    theirs = b'{"config": {"SCRAM-SHA-256": "%s", "consumer_byte_rate": "5"}, "version": 1}'
    [ours] = read(digests, [theirs % OLD.encode()], ANN)
    configs = znodes.read_config(ANN, ours)
    assert configs.keys() == {"SCRAM-SHA-256", "consumer_byte_rate"}
    assert configs["consumer_byte_rate"] == "5"
    assert OLD not in configs["SCRAM-SHA-256"]
    [again] = written(digests, Create(ANN, ours or b""))
    assert znodes.read_config(ANN, again) == {"SCRAM-SHA-256": OLD, "consumer_byte_rate": "5"}


@pytest.mark.parametrize("theirs", [b"{", b"\xff", b'{"config":{"SCRAM-SHA-256":1}}', b'"secret"'])
def test_unreadable_content_is_not_passed_to_the_fold(theirs: bytes) -> None:
    digests = SecretDigests()
    digests.replace_secrets(asked())
    assert read(digests, [theirs], ANN) == [b"sealed as a whole"]


def test_znodes_outside_user_configs_are_unchanged() -> None:
    digests = SecretDigests()
    digests.replace_secrets(asked())
    path = znodes.topic_config_path("t")
    data = znodes.write_config({"SCRAM-SHA-256": "a topic's"})
    assert read(digests, [data, None], path, ANN) == [data, None]
    assert written(digests, SetData(path, data, 2), Delete(ANN, -1)) == [data, None]
    deletion = Delete(ANN, -1)
    assert digests.restore_secrets(CommandId(1, 0), WriteZnodes((deletion,), 1)) == WriteZnodes(
        (deletion,), 1
    )


def test_secrets_in_all_pages_of_one_read_are_replaced() -> None:
    digests = SecretDigests()
    digests.replace_secrets(asked())
    id = CommandId(5, 0)
    digests.restore_secrets(id, ReadZnodes((ANN, BOB)))
    pages = b""
    for place in range(2):
        data: list[bytes | None] = [znodes.write_config({"SCRAM-SHA-256": OLD})]
        event = digests.replace_secrets(ZnodesRead(id, place, [0], data, [1], [1], [1], [1]))
        assert isinstance(event, ZnodesRead)
        pages += event.data[0] or b""
    assert OLD.encode() not in pages


def test_digests_of_two_runs_differ() -> None:
    one, other = (
        logged_credentials(SecretDigests().replace_secrets(asked(("ann", NEW)))) for _ in range(2)
    )
    assert one != other


def test_credentials_are_forgotten_after_the_last_answer() -> None:
    digests = SecretDigests()
    [digest] = logged_credentials(digests.replace_secrets(asked(("ann", NEW), request=1)))
    digests.replace_secrets(asked(("bob", OLD), request=2))
    ours = SetData(ANN, znodes.write_config({"SCRAM-SHA-256": digest}), -1)
    theirs = znodes.write_config({"SCRAM-SHA-256": NEW})
    digests.forget(AlterUserScramCredentialsResponse(2, (UserResult("bob"),)))
    assert written(digests, ours) == [theirs], "another request may need it"
    digests.forget(AlterUserScramCredentialsResponse(1, (UserResult("ann"),)))
    digests.replace_secrets(asked(request=3))
    with pytest.raises(KeyError):
        written(digests, ours)


def test_missing_credential_has_no_digest() -> None:
    assert logged_credentials(SecretDigests().replace_secrets(asked(("ann", "")))) == [""]
