"""Secrets of /config/users do not reach the log, for any read of the znodes."""

from controller.core import znodes
from controller.core.api_requests.scram_credentials import (
    AlterUserScramCredentialsReceived,
    AlterUserScramCredentialsResponse,
    ScramUpsertion,
)
from controller.core.commands import CommandId, ReadZnodes, WriteZnodes
from controller.core.events import ZnodesRead
from controller.core.operations import SetData
from controller.event_log.secret_digests import SecretDigests

ALICE, QUOTA = "/config/users/alice", "/config/users/alice/clients/app"
SECRET = "salt=c2FsdA==,stored_key=a2V5,server_key=a2V5,iterations=4096"
CONFIG = znodes.write_config({"SCRAM-SHA-256": SECRET, "controller_mutation_rate": "5"})


def read(digests: SecretDigests, id: CommandId, *paths: str) -> dict[str, str]:
    """The event of a read of these znodes in the log, all with the same content."""
    digests.restore_secrets(id, ReadZnodes(paths, False))
    count = len(paths)
    numbers = [0] * count
    event = ZnodesRead(
        command=id,
        offset=0,
        errors=numbers,
        data=[CONFIG] * count,
        versions=numbers,
        czxids=numbers,
        mzxids=numbers,
        owners=numbers,
    )
    replaced = digests.replace_secrets(event)
    assert isinstance(replaced, ZnodesRead)
    assert SECRET not in str(replaced.data)
    return znodes.read_config(paths[0], replaced.data[0])


def test_quotas_are_read_without_the_secrets_next_to_them() -> None:
    digests = SecretDigests()
    found = read(digests, CommandId(1, 0), ALICE, QUOTA)
    assert found["controller_mutation_rate"] == "5"
    assert SECRET not in found["SCRAM-SHA-256"]
    # No secret is kept for a read that no request about secrets needs.
    assert SECRET not in str(vars(digests))


def test_secret_that_a_request_reads_is_written_again() -> None:
    digests = SecretDigests()
    upsertion = ScramUpsertion("alice", 2, 4096, "new")
    digests.replace_secrets(AlterUserScramCredentialsReceived(1, 0, [], [upsertion]))
    found = read(digests, CommandId(2, 0), ALICE)
    write = WriteZnodes((SetData(ALICE, znodes.write_config(found), 0),), None)
    restored = digests.restore_secrets(CommandId(3, 0), write)
    assert SECRET in str(restored)
    digests.forget(AlterUserScramCredentialsResponse(1, ()))
    assert SECRET not in str(vars(digests))
