"""The invariants of producer ids and SCRAM credentials, and defects that break them."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.api_requests.producer_ids import (
    AllocateProducerIdsReceived,
    AllocateProducerIdsResponse,
)
from controller.core.api_requests.scram_credentials import (
    AlterUserScramCredentialsReceived,
    AlterUserScramCredentialsResponse,
    ScramDeletion,
    ScramUpsertion,
    UserResult,
)
from controller.core.operations import OK, SetData
from controller.core.procedures.admin import producer_ids, scram_credentials
from controller.core.values import ANY_VERSION
from replay.explore.invariants.credentials import CredentialsAsRequested
from replay.explore.invariants.producer_ids import ProducerIdsUnique
from replay.world.inputs import (
    AllocateProducerIds,
    AlterUserScramCredentials,
    CredentialChange,
    DeleteControllerZnode,
    Input,
)
from tests.replay.explore.defects import assert_defect_breaks
from tests.replay.explore.invariants.facts import History

_ALICE = znodes.user_config_path("alice")
_FIRST, _SECOND = "SCRAM-SHA-256", "SCRAM-SHA-512"
_QUOTA = "producer_byte_rate"


class Allocating(History):
    """Blocks of ten producer ids."""

    def __init__(self) -> None:
        super().__init__(ProducerIdsUnique)

    def answer(self, start: int, *, process: str = "refold 100", error: int = 0) -> None:
        """A controller answers a request."""
        asked = AllocateProducerIdsReceived(1, 0, 1, 101)
        response = AllocateProducerIdsResponse(1, error, start, 0 if error else 10)
        self.invariant.answered(process, asked, response)

    def write(self, start: int, process: str) -> None:
        """A process writes the znode."""
        block = znodes.write_producer_ids(znodes.ProducerIds(2, start, start + 9))
        self.invariant.producer_ids_written(block, process)


def test_block_after_another_one_is_no_violation() -> None:
    history = Allocating()
    for number in (0, 1, 2):
        history.answer(10 * number)
    history.answer(0, error=codes.STALE_BROKER_EPOCH)
    assert not history.reported


@pytest.mark.parametrize("start", [10, 11, 19, 1])
def test_block_that_overlaps_one_of_another_controller_is_reported(start: int) -> None:
    history = Allocating()
    history.answer(10, process="refold 101")
    history.answer(start)
    assert history.reported == [
        f"producer-ids-unique: /latest_producer_id_block: refold 100 gave out the ids {start} to "
        f"{start + 9}, and refold 101 gave out the ids 10 to 19 before"
    ]


def test_block_that_overlaps_one_that_a_broker_has_written_is_reported() -> None:
    history = Allocating()
    history.write(0, "broker 2")
    history.write(10, "refold 100")
    history.answer(10)
    assert not history.reported
    history.answer(0)
    assert "and broker 2 gave out the ids 0 to 9 before" in history.reported[0]


def test_block_that_a_broker_writes_over_an_answered_one_is_reported() -> None:
    history = Allocating()
    history.answer(0)
    history.write(0, "broker 2")
    assert "broker 2 gave out the ids 0 to 9" in history.reported[0]


@pytest.mark.parametrize("is_deleted", [True, False])
def test_blocks_are_not_checked_after_a_tool_has_changed_the_znode(is_deleted: bool) -> None:
    history = Allocating()
    history.answer(0)
    if is_deleted:
        history.invariant.producer_ids_written(None, "admin")
    else:
        history.write(500, "admin")
    history.answer(0)
    assert not history.reported


def test_znode_at_the_start_of_a_run_is_no_change_by_a_tool() -> None:
    history = Allocating()
    history.write(0, "")
    history.answer(10)
    history.answer(10)
    assert history.reported


# Credentials --------------------------------------------------------------------------------------


class Altering(History):
    """Requests of one controller for the credentials of alice."""

    def __init__(self) -> None:
        super().__init__(CredentialsAsRequested)
        self._requests = 0

    def ask(self, mechanism: str, credential: str | None) -> AlterUserScramCredentialsReceived:
        """The controller receives a request."""
        self._requests += 1
        number = 1 if mechanism == _FIRST else 2
        deleted, set_ = [ScramDeletion("alice", number)], []
        if credential is not None:
            deleted, set_ = [], [ScramUpsertion("alice", number, 4_096, credential)]
        request = AlterUserScramCredentialsReceived(self._requests, 0, deleted, set_)
        self.invariant.received("refold 100", request)
        return request

    def write(self, after: dict[str, str], process: str = "refold 100") -> None:
        """A process writes the znode."""
        contents = self.known.configs.setdefault(_ALICE, [{}])
        contents.append(after)
        self.invariant.user_written(_ALICE, contents[-2], after, process)

    def answer(self, asked: AlterUserScramCredentialsReceived, error: int = 0) -> None:
        """The controller answers a request."""
        response = AlterUserScramCredentialsResponse(asked.request, (UserResult("alice", error),))
        self.invariant.answered("refold 100", asked, response)


def test_credential_that_is_written_as_requested_is_no_violation() -> None:
    history = Altering()
    asked = history.ask(_FIRST, "one")
    history.write({_FIRST: "one"})
    history.answer(asked)
    deleted = history.ask(_FIRST, None)
    history.write({})
    history.answer(deleted)
    assert not history.reported


def test_request_may_ask_what_is_there_already() -> None:
    history = Altering()
    history.known.configs[_ALICE] = [{}, {_FIRST: "one"}]
    history.answer(history.ask(_FIRST, "one"))
    assert not history.reported


def test_answer_without_the_write_is_reported() -> None:
    history = Altering()
    history.answer(history.ask(_FIRST, "one"))
    [found] = history.reported
    assert found == (
        "credentials-as-requested: /config/users/alice: refold 100 answered a request for "
        "SCRAM-SHA-256 without an error, and the znode has not had what was asked"
    )


def test_answer_with_an_error_needs_no_write() -> None:
    history = Altering()
    history.answer(history.ask(_FIRST, "one"), codes.RESOURCE_NOT_FOUND)
    assert not history.reported


def test_answer_is_right_if_the_credential_was_changed_again_since_the_write() -> None:
    history = Altering()
    asked, again = history.ask(_FIRST, "one"), history.ask(_FIRST, "two")
    history.write({_FIRST: "one"})
    history.write({_FIRST: "two"})
    history.answer(asked)
    history.answer(again)
    assert not history.reported


def test_content_from_before_the_request_does_not_count() -> None:
    history = Altering()
    history.known.configs[_ALICE] = [{}, {_FIRST: "one"}, {}]
    history.answer(history.ask(_FIRST, "one"))
    assert history.reported


@pytest.mark.parametrize(
    ("after", "what"),
    [
        ({_QUOTA: "5", _FIRST: "one", _SECOND: "two"}, "set SCRAM-SHA-512"),
        ({_QUOTA: "5", _FIRST: "other"}, "set SCRAM-SHA-256"),
        ({_FIRST: "one"}, "deleted producer_byte_rate"),
    ],
)
def test_change_that_no_request_asks_is_reported(after: dict[str, str], what: str) -> None:
    history = Altering()
    history.known.configs[_ALICE] = [{_QUOTA: "5"}]
    history.ask(_FIRST, "one")
    history.write(after)
    [found] = history.reported
    assert found.endswith(f"refold 100 {what}, which no open request asks")


def test_change_of_an_answered_request_is_reported() -> None:
    history = Altering()
    asked = history.ask(_FIRST, "one")
    history.write({_FIRST: "one"})
    history.answer(asked)
    history.write({})
    assert history.reported


def test_users_whose_znode_a_tool_has_written_do_not_count() -> None:
    history = Altering()
    asked = history.ask(_FIRST, "one")
    history.write({_SECOND: "by hand"}, "admin")
    history.write({_FIRST: "other"})
    history.answer(asked)
    assert not history.reported


# Defects ------------------------------------------------------------------------------------------


def _writes_any_version(patch: pytest.MonkeyPatch) -> None:
    """A controller does not check the version when it writes a block."""
    patch.setattr(
        producer_ids, "SetData", lambda path, data, version: SetData(path, data, ANY_VERSION)
    )


def _remembers_the_last_block(patch: pytest.MonkeyPatch) -> None:
    """A controller continues its last block, also if another one allocates blocks meanwhile."""
    last: dict[int, bytes] = {}
    read, write = producer_ids.read_znodes, producer_ids.write

    async def read_znodes(controller: Any, paths: list[str], rule: str) -> Any:
        found = await read(controller, paths, rule)
        found.data[0] = last.get(controller.configuration.broker_id, found.data[0])
        return found

    async def remember(controller: Any, operations: list[Any], reason: Any) -> Any:
        last[controller.configuration.broker_id] = operations[0].data
        return await write(controller, operations, reason)

    patch.setattr(producer_ids, "read_znodes", read_znodes)
    patch.setattr(producer_ids, "write", remember)


def _answers_without_a_write(patch: pytest.MonkeyPatch) -> None:
    async def write_named(controller: Any, operations: dict[str, Any], reason: Any) -> Any:
        return dict.fromkeys(operations, OK)

    patch.setattr(scram_credentials, "write_named", write_named)


def _forgets_other_credentials(patch: pytest.MonkeyPatch) -> None:
    """A controller writes only what was asked."""

    read = scram_credentials.read_znodes

    async def read_znodes(controller: Any, paths: list[str], rule: str, **options: Any) -> Any:
        found = await read(controller, paths, rule, **options)
        found.data = [None] * len(paths)
        return found

    patch.setattr(scram_credentials, "read_znodes", read_znodes)


_TWO_WRITERS: tuple[Input, ...] = (
    AllocateProducerIds(8_000, 1),
    AllocateProducerIds(9_000, 2),
    AllocateProducerIds(9_002, 3, "znode"),
)
_TWO_CONTROLLERS: tuple[Input, ...] = (
    AllocateProducerIds(8_000, 1),
    AllocateProducerIds(9_000, 2, "znode"),
    AllocateProducerIds(10_000, 1),
)
_CREDENTIALS: tuple[Input, ...] = (
    AlterUserScramCredentials(8_000, (CredentialChange("alice", "SCRAM-SHA-256", "one"),)),
    AlterUserScramCredentials(9_000, (CredentialChange("alice", "SCRAM-SHA-512", "two"),)),
    DeleteControllerZnode(9_001),
)


@pytest.mark.parametrize(
    ("plant", "inputs", "invariant"),
    [
        (_writes_any_version, _TWO_WRITERS, "producer-ids-unique"),
        (_remembers_the_last_block, _TWO_CONTROLLERS, "producer-ids-unique"),
        (_answers_without_a_write, _CREDENTIALS, "credentials-as-requested"),
        (_forgets_other_credentials, _CREDENTIALS, "credentials-as-requested"),
    ],
)
def test_defect_breaks_an_invariant_and_the_code_without_it_breaks_none(
    plant: Any, inputs: Sequence[Input], invariant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_defect_breaks(invariant, inputs, partial(plant, monkeypatch))
