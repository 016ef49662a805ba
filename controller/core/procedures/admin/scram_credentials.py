"""AlterUserScramCredentials: credentials of users in ZooKeeper (KIP-554).

ZkAdminManager.alterUserScramCredentials, with its checks, codes and messages in their order; writes
as AdminZkClient.changeUserOrUserClientIdConfig. Brokers read a credential when the change is
announced; the controller itself does not use it.
"""

from collections.abc import Iterable
from typing import Final

from controller.core import error_codes, user_configs, znodes
from controller.core.api_requests.scram_credentials import (
    AlterUserScramCredentialsReceived,
    AlterUserScramCredentialsResponse,
    ScramDeletion,
    ScramUpsertion,
    UserResult,
)
from controller.core.commands import Reason
from controller.core.controller import Controller
from controller.core.errors import RequestRefused, ZnodeError
from controller.core.operations import (
    NO_NODE,
    NODE_EXISTS,
    OK,
    Create,
    CreateSequential,
    Delete,
    SetData,
    WriteOperation,
)
from controller.core.procedures.admin.waiting_requests import send_response
from controller.core.values import ANY_VERSION
from controller.core.zookeeper_io import read_children, read_znodes, write_named

_RULE: Final = AlterUserScramCredentialsReceived.RULE
_ITERATIONS_MIN: Final = 4096
_ITERATIONS_MAX: Final = 16384
_FAILED: Final = "The server experienced an unexpected error when processing the request."
"""Kafka's text for UNKNOWN_SERVER_ERROR."""

Alteration = ScramDeletion | ScramUpsertion
Results = dict[str, UserResult]
"""The answer for each user."""
Configs = dict[str, dict[str, str]]
"""The configuration of each user."""


async def process_alter_scram_credentials(
    controller: Controller, request: AlterUserScramCredentialsReceived
) -> None:
    """Validate every user, write the configurations of the users without an error, announce them.

    KafkaApis.handleAlterUserScramCredentialsRequest.
    """
    answers = _invalid_user_results(request)
    named = [one.user for one in request.upsertions] + [one.user for one in request.deletions]
    users = [user for user in dict.fromkeys(named) if user not in answers]
    configs = await _present(controller, users, answers)
    _alter(request, configs, answers)
    wanted = {user: configs[user] for user in configs if user not in answers}
    for user in wanted:
        _check_configs(controller, user, configs[user], answers)
    await _write(controller, wanted, answers)
    await _announce(controller, wanted, answers)
    answers |= {user: UserResult(user) for user in wanted if user not in answers}
    answer = AlterUserScramCredentialsResponse(request.request, tuple(answers.values()))
    send_response(controller, answer, _RULE)


# Validation -------------------------------------------------------------------------------------


def _invalid_user_results(request: AlterUserScramCredentialsReceived) -> Results:
    """The users whose alterations are invalid, whatever ZooKeeper has."""
    answers: Results = {}
    deletions: list[Alteration] = [*request.deletions]
    upsertions: list[Alteration] = [*request.upsertions]
    for one in deletions + upsertions:
        try:
            _check(one)
        except RequestRefused as refused:
            # If there are several reasons, the last one is answered.
            answers[one.user] = UserResult(one.user, refused.error, refused.message)
    named: dict[tuple[str, int], None] = {}
    twice: Results = {}
    for one in upsertions + deletions:
        if one.user not in answers and (one.user, one.mechanism) in named:
            text = "A user credential cannot be altered twice in the same request"
            twice[one.user] = UserResult(one.user, error_codes.DUPLICATE_RESOURCE, text)
        named[one.user, one.mechanism] = None
    return answers | twice


def _check(one: Alteration) -> None:
    """Validate one alteration. Raises RequestRefused, which has the error message."""
    if not one.user:
        raise RequestRefused(error_codes.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if one.mechanism not in user_configs.MECHANISMS:
        raise RequestRefused(error_codes.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(one, ScramUpsertion):
        if one.iterations > _ITERATIONS_MAX:
            raise RequestRefused(error_codes.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
        if one.iterations < _ITERATIONS_MIN:
            raise RequestRefused(error_codes.UNACCEPTABLE_CREDENTIAL, "Too few iterations")


def _check_configs(
    controller: Controller, user: str, configs: dict[str, str], answers: Results
) -> None:
    """Check that brokers accept the whole configuration, with the entries that it already had."""
    problem = user_configs.problem_with(configs)
    if problem is not None:
        _fail(controller, user, f"the znode has an entry that no user may have: {problem}", answers)


# The new credentials ------------------------------------------------------------------------------


async def _present(controller: Controller, users: list[str], answers: Results) -> Configs:
    """The current configurations of the users. Users whose configuration cannot be read get an
    error."""
    paths = [znodes.user_config_path(user) for user in users]
    found = await read_znodes(controller, paths, _RULE, may_be_denied=True)
    configs: Configs = {}
    for user, path, error, data in zip(users, paths, found.errors, found.data, strict=True):
        try:
            if error not in (OK, NO_NODE):
                raise ZnodeError(f"ZooKeeper code {error}")
            configs[user] = znodes.read_config(path, data)
        except ZnodeError as unreadable:
            text = f"{unreadable}: repair or delete the znode"
            _fail(controller, user, text, answers)
    return configs


def _alter(request: AlterUserScramCredentialsReceived, configs: Configs, answers: Results) -> None:
    """Apply the alterations to `configs`. One credential that cannot be made fails all users."""
    names = user_configs.MECHANISMS
    deletions = [one for one in request.deletions if one.user in configs]
    for one in deletions:
        if names.get(one.mechanism) not in configs[one.user]:
            text = "Attempt to delete a user credential that does not exist"
            answers.setdefault(one.user, UserResult(one.user, error_codes.RESOURCE_NOT_FOUND, text))
    upsertions = [one for one in request.upsertions if one.user in configs.keys() - answers.keys()]
    if not all(one.credential for one in upsertions):
        answers |= {user: _failed_result(user) for user in configs if user not in answers}
    for one in deletions:
        configs[one.user].pop(names.get(one.mechanism, ""), None)
    for upsertion in upsertions:
        configs[upsertion.user][names[upsertion.mechanism]] = upsertion.credential


# The writes ---------------------------------------------------------------------------------------


async def _write(controller: Controller, wanted: Configs, answers: Results) -> None:
    """Write the configurations of the users without an error. An empty one is deleted with its
    znode, unless the user's clients have configurations below it
    (AdminZkClient.changeEntityConfig)."""
    operations: dict[str, WriteOperation] = {}
    for user, configs in wanted.items():
        if user in answers:
            continue
        path = znodes.user_config_path(user)
        if configs or (await read_children(controller, path, _RULE)).children:
            operations[user] = SetData(path, znodes.write_config(configs), ANY_VERSION)
        else:
            operations[user] = Delete(path, ANY_VERSION)
    errors = await write_named(controller, operations, Reason(_RULE))
    creates: dict[str, WriteOperation] = {
        user: Create(operation.path, operation.data)
        for user, operation in operations.items()
        if errors[user] == NO_NODE and isinstance(operation, SetData)
    }
    errors |= await write_named(controller, creates, Reason(_RULE))
    made_meanwhile = [user for user in creates if errors[user] == NODE_EXISTS]
    errors |= await write_named(
        controller, {user: operations[user] for user in made_meanwhile}, Reason(_RULE)
    )
    for user, error in errors.items():
        is_gone = error == NO_NODE and isinstance(operations[user], Delete)
        if error != OK and not is_gone:
            text = f"the znode cannot be written (ZooKeeper code {error})"
            _fail(controller, user, text, answers)


async def _announce(controller: Controller, users: Iterable[str], answers: Results) -> None:
    """Create the notifications that make brokers read the configurations again."""
    operations: dict[str, WriteOperation] = {
        user: CreateSequential(
            znodes.CONFIG_CHANGE_PREFIX, znodes.write_config_change(znodes.user_entity(user))
        )
        for user in users
        if user not in answers
    }
    for user, error in (await write_named(controller, operations, Reason(_RULE))).items():
        if error != OK:
            text = (
                "the znode is written, but brokers cannot be notified (ZooKeeper code "
                f"{error}): repeat the request"
            )
            _fail(controller, user, text, answers)


def _fail(controller: Controller, user: str, text: str, answers: Results) -> None:
    controller.notice("error", "credentials_not_altered", znodes.user_config_path(user), text)
    answers[user] = _failed_result(user)


def _failed_result(user: str) -> UserResult:
    return UserResult(user, error_codes.UNKNOWN_SERVER_ERROR, _FAILED)
