"""Loads Kafka's controller mutation quotas, follows their changes, and applies them to requests
(KIP-599; QuotaConfigHandler, KafkaApis)."""

from collections.abc import Iterable
from typing import Final

from controller.core import znodes
from controller.core.api_requests.received_request import ANONYMOUS
from controller.core.api_requests.topics import MutatingRequest
from controller.core.commands import Reason, ThrottleClient
from controller.core.controller import Controller
from controller.core.errors import ZnodeError
from controller.core.mutation_quotas import MUTATION_RATE, QuotaEntity, parse_rate
from controller.core.operations import OK
from controller.core.zookeeper_io import (
    read_children,
    read_children_of_each,
    read_contents,
    read_stats,
)

_RULE: Final = "mutation quotas"
_OF_USER: Final = "User:"


async def load_mutation_quotas(controller: Controller) -> None:
    """Read all quotas. Changes since the controller began to follow /config/changes are read
    again."""
    if controller.configuration.mutation_quotas is None:
        return
    users = (await read_children(controller, znodes.USER_CONFIGS, _RULE)).children
    clients = (await read_children(controller, znodes.CLIENT_CONFIGS, _RULE)).children
    parents = [f"{znodes.USER_CONFIGS}/{user}/clients" for user in users]
    # Few users have such a child: an event for each user would make the log long.
    stats = await read_stats(controller, parents, _RULE)
    some = [path for path, error in zip(parents, stats.errors, strict=True) if error == OK]
    of_users = await read_children_of_each(controller, some, _RULE)
    entities = [f"clients/{one}" for one in clients] + [f"users/{one}" for one in users]
    entities += [f"{znodes.config_entity(path)}/{one}" for path in some for one in of_users[path]]
    await follow_mutation_quotas(controller, entities)


async def follow_mutation_quotas(controller: Controller, entities: Iterable[str]) -> None:
    """Read the quotas of entities such as "users/alice/clients/app"; others are ignored."""
    if controller.configuration.mutation_quotas is None:
        return
    named = {one: entity for one in entities if (entity := _entity(one)) is not None}
    paths = [znodes.config_path(one) for one in named]
    quotas = controller.context.mutation_quotas
    rates = await read_contents(controller, paths, _RULE, _read_rate)
    for path, entity in zip(paths, named.values(), strict=True):
        is_set, rate = rates.get(path, (False, None))
        quotas.set_rate(entity, rate, is_set=is_set)


def _entity(path: str) -> QuotaEntity | None:
    match path.split("/"):
        case ["clients", client] if client:
            return QuotaEntity("", client)
        case ["users", user] if user:
            return QuotaEntity(user, "")
        case ["users", user, "clients", client] if user and client:
            return QuotaEntity(user, client)
        case _:
            return None


def _read_rate(path: str, data: bytes | None) -> tuple[bool, int | None]:
    """Whether an entity has a quota, and its rate. Raises ZnodeError."""
    text = znodes.read_config(path, data).get(MUTATION_RATE)
    try:
        return (False, None) if text is None else (True, parse_rate(text))
    except ValueError as error:
        raise ZnodeError(f"{path}: {MUTATION_RATE}={text}: {error}") from None


class ControllerMutationQuota:
    """The quota of one request's client, while the request is handled."""

    def __init__(self, controller: Controller, request: MutatingRequest) -> None:
        self._controller = controller
        self._request = request
        self._is_strict = request.version >= request.STRICT_SINCE
        principal = ANONYMOUS if request.client is None else request.client.principal
        quotas = controller.context.mutation_quotas
        self._owner = quotas.owner(principal.removeprefix(_OF_USER), request.client_id or "")
        self._throttled_until_ms = 0

    def admit(self, mutations: int) -> bool:
        """Count the creation or deletion of partitions; returns whether it may take place."""
        controller = self._controller
        window = controller.configuration.mutation_quotas
        if window is None:
            return True
        throttle_ms = controller.context.mutation_quotas.record(
            self._owner, mutations, controller.now_ms, window, strict=self._is_strict
        )
        if throttle_ms is None:
            return True
        self._throttled_until_ms = controller.now_ms + throttle_ms
        return not self._is_strict

    def throttle(self) -> None:
        """If the quota was exceeded, have the client throttled. The response has to follow."""
        if not self._throttled_until_ms:
            return
        controller, request = self._controller, self._request
        throttle_ms = self._throttled_until_ms - controller.now_ms
        names = [f"user {self._owner.user}"] * bool(self._owner.user)
        names += [f"client id {self._owner.client_id}"] * bool(self._owner.client_id)
        what = "refused" if self._is_strict else "carried out, and the client is throttled"
        text = (
            f"{' with '.join(names)} exceeds {MUTATION_RATE}: {what} ({type(request).__name__}); "
            f"{max(throttle_ms, 0)} ms until the next mutation"
        )
        controller.notice("info", "quota_exceeded", request.subject, text)
        rule = f"quota exceeded: {MUTATION_RATE} of {' with '.join(names)}"
        throttle = ThrottleClient(request.request, self._throttled_until_ms)
        controller.issue(throttle, Reason(rule))
