"""Loads Kafka's ACLs, follows their changes, and asks them about requests of the endpoint
(AclAuthorizer)."""

from collections.abc import Callable
from typing import Final

from controller.core import authorization
from controller.core.api_requests.received_request import ReceivedRequest
from controller.core.authorization import THE_CLUSTER, AclIndex, Resource, topic_resource
from controller.core.controller import Controller
from controller.core.errors import ProcedureError, ZnodeError
from controller.core.operations import NO_AUTH, NO_NODE
from controller.core.znodes.acls import (
    ACL_CHANGES,
    ACL_RESOURCE_TYPES,
    DENIES_ALL,
    Acl,
    ResourcePattern,
    acls_parent,
    acls_path,
    read_acl_change,
    read_acls,
)
from controller.core.zookeeper_io import (
    denied_text,
    list_numbered_notifications,
    read_children,
    read_contents,
    read_stats,
    read_znodes,
)

_RULE: Final = "ACLs"
_EVERYTHING: Final = tuple(ResourcePattern(kind, "", True) for kind in ACL_RESOURCE_TYPES)
"""Patterns that all resources match. Kafka's tools do not make them: their names are empty."""


async def load_acls(controller: Controller) -> None:
    """Read all ACLs that the controller needs. Changes are watched first, so that none is missed.
    If the ACLs cannot be listed, everything is denied until a later change finds that they can."""
    context = controller.context
    if controller.configuration.authorization is None:
        return
    context.acls = AclIndex()
    try:
        # The first broker with an authorizer creates these znodes; without them, no children are
        # watched.
        await read_stats(controller, list(ACL_CHANGES), _RULE, watch=True)
        context.acl_changes = [
            max(await list_numbered_notifications(controller, one, _RULE), default="")
            for one in ACL_CHANGES
        ]
        await _read(controller, await _patterns(controller))
    except ProcedureError as unlisted:
        _deny_everything(controller, unlisted)


async def _patterns(controller: Controller) -> list[ResourcePattern]:
    return [
        ResourcePattern(kind, name, is_prefix)
        for is_prefix in (False, True)
        for kind in ACL_RESOURCE_TYPES
        for name in (
            await read_children(controller, acls_parent(kind, is_prefix=is_prefix), _RULE)
        ).children
    ]


async def process_acl_changes(controller: Controller) -> None:
    """Read the ACLs again that new notifications name."""
    if controller.configuration.authorization is None:
        return
    if _EVERYTHING[0] in controller.context.acls.acls:
        await load_acls(controller)
        return
    try:
        await _read_changed(controller)
    except ProcedureError as unlisted:
        _deny_everything(controller, unlisted)


async def _read_changed(controller: Controller) -> None:
    context = controller.context
    new: list[str] = []
    latest = list(context.acl_changes)
    for place, parent in enumerate(ACL_CHANGES):
        listed = await list_numbered_notifications(controller, parent, _RULE)
        unseen = [path for path in listed if path > latest[place]]
        if unseen:
            latest[place] = unseen[-1]
        new += unseen
    changes = await read_contents(controller, new, _RULE, read_acl_change, may_be_denied=True)
    changed = dict.fromkeys(changes.values())
    if len(changes) < len(new):
        # A notification is gone or cannot be read: any ACLs may have changed.
        changed |= dict.fromkeys([*context.acls.acls, *await _patterns(controller)])
    await _read(controller, [one for one in changed if one is not None])
    # A change is processed only now: if a read failed, the next change has it read again.
    context.acl_changes = latest


def _deny_everything(controller: Controller, unlisted: ProcedureError) -> None:
    text = f"{unlisted}; everything that needs an ACL is denied"
    controller.notice("error", "unreadable_znode", "/kafka-acl", text)
    for pattern in _EVERYTHING:
        controller.context.acls.set(pattern, (DENIES_ALL,))


async def _read(controller: Controller, patterns: list[ResourcePattern]) -> None:
    """Read these patterns. Where the content cannot be used, everything is denied."""
    paths = [acls_path(one) for one in patterns]
    found = await read_znodes(controller, paths, _RULE, may_be_denied=True)
    for pattern, path, error, data in zip(patterns, paths, found.errors, found.data, strict=True):
        controller.context.acls.set(pattern, _acls(controller, path, error, data))


def _acls(controller: Controller, path: str, error: int, data: bytes | None) -> tuple[Acl, ...]:
    if error == NO_NODE:
        return ()
    try:
        if error == NO_AUTH:
            raise ZnodeError(denied_text(path))
        return read_acls(path, data)
    except ZnodeError as unreadable:
        text = f"{unreadable}; everything that these ACLs are for is denied"
        controller.notice("error", "unreadable_znode", path, text)
        return (DENIES_ALL,)


def cluster_refusal(controller: Controller, request: ReceivedRequest, operation: str) -> str | None:
    """Why the client of a request may not do this to the cluster; None if it may. A refusal is
    reported."""
    return _refusal(controller, request, operation, THE_CLUSTER, is_reported=True)


def topic_check(
    controller: Controller, request: ReceivedRequest, operation: str, *, is_reported: bool = True
) -> Callable[[str], bool]:
    """A function that returns whether the client of a request may do this to a topic. Refusals are
    reported, unless nothing depends on them."""

    def is_allowed(topic: str) -> bool:
        resource = topic_resource(topic)
        return not _refusal(controller, request, operation, resource, is_reported=is_reported)

    return is_allowed


def may_create(controller: Controller, request: ReceivedRequest) -> Callable[[str], bool]:
    """A function that returns whether the client may create a topic: by the ACLs of the cluster, or
    by those of the topic (KafkaApis.handleCreateTopicsRequest)."""
    operation = authorization.CREATE
    if not _refusal(controller, request, operation, THE_CLUSTER, is_reported=False):
        return lambda _topic: True
    return topic_check(controller, request, operation)


def _refusal(
    controller: Controller,
    request: ReceivedRequest,
    operation: str,
    resource: Resource,
    *,
    is_reported: bool,
) -> str | None:
    rules = controller.configuration.authorization
    if rules is None:
        return None
    acls = controller.context.acls
    why = authorization.refusal(acls, rules, request.client, operation, resource)
    if why is not None and is_reported:
        client = request.client
        who = f"{client.principal} at {client.host}" if client else "a client without a principal"
        text = f"{why} {resource.name} for {who}: refused ({type(request).__name__})"
        controller.notice("info", "not_authorized", request.subject, text)
    return why
