"""Loads Kafka's ACLs, follows their changes, and asks them about requests of the endpoint
(AclAuthorizer)."""

from typing import Final

from controller.core import authorization
from controller.core.api_requests.received_request import ReceivedRequest
from controller.core.authorization import THE_CLUSTER, AclIndex, Resource, topic_resource
from controller.core.controller import Controller
from controller.core.errors import ProcedureError, ZnodeError
from controller.core.operations import NO_AUTH
from controller.core.outcomes import SLICE, suspend
from controller.core.topic_names import LENGTH_MAX
from controller.core.znodes.acls import (
    ACL_CHANGES,
    ACL_RESOURCE_TYPES,
    DENIES_ALL,
    LITERAL_ACLS,
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
_SHOWN: Final = 5
_CHECKS_IN_SLICE: Final = 500
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
        await _read_acl_znodes(controller, await _patterns(controller))
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
    """Read the ACLs again that new notifications name. Without an authorizer, none is watched."""
    if _EVERYTHING[0] in controller.context.acls.acls:
        await load_acls(controller)
        return
    try:
        await _read_changed_acls(controller)
    except ProcedureError as unlisted:
        _deny_everything(controller, unlisted)


async def _read_changed_acls(controller: Controller) -> None:
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
    await _read_acl_znodes(controller, [one for one in changed if one is not None])
    # A change is processed only now: if a read failed, the next change has it read again.
    context.acl_changes = latest


def _deny_everything(controller: Controller, unlisted: ProcedureError) -> None:
    text = f"{unlisted}; everything that needs an ACL is denied"
    controller.notice("error", "unreadable_znode", LITERAL_ACLS, text)
    for pattern in _EVERYTHING:
        controller.context.acls.set(pattern, (DENIES_ALL,))


async def _read_acl_znodes(controller: Controller, patterns: list[ResourcePattern]) -> None:
    """Read these patterns. Where the content cannot be used, everything is denied."""
    paths = [acls_path(one) for one in patterns]
    found = await read_znodes(controller, paths, _RULE, may_be_denied=True)
    for pattern, path, error, data in zip(patterns, paths, found.errors, found.data, strict=True):
        controller.context.acls.set(pattern, _acls(controller, path, error, data))


def _acls(controller: Controller, path: str, error: int, data: bytes | None) -> tuple[Acl, ...]:
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
    why = _refusal(controller, request, operation, THE_CLUSTER)
    if why is not None:
        _report(controller, request, f"{why} {THE_CLUSTER.name}")
    return why


class TopicCheck:
    """Whether the client of a request may do something to topics.

    A request may name very many topics, and each notice is a record of the log. So `report` issues
    one notice for all refused topics. In logs from before `reports_refusals_together` existed, each
    refusal has a notice, unless nothing depends on it (`is_reported`). Many checks are made in
    slices.
    """

    def __init__(
        self,
        controller: Controller,
        request: ReceivedRequest,
        operation: str,
        *,
        allows_all: bool = False,
        is_reported: bool = True,
    ) -> None:
        self._controller = controller
        self._request = request
        self._operation = operation
        self._allows_all = allows_all
        self._is_at_once = is_reported and not controller.configuration.reports_refusals_together
        self._refused: dict[str, dict[str, None]] = {}
        self._left = _CHECKS_IN_SLICE

    async def check(self, topic: str) -> bool:
        """Whether it may be done to this topic. A refusal is reported, or noted for `report`."""
        if self._allows_all:
            return True
        self._left -= 1
        if not self._left:
            self._left = _CHECKS_IN_SLICE
            await suspend(SLICE)
        resource = topic_resource(topic)
        why = _refusal(self._controller, self._request, self._operation, resource)
        if why is None:
            return True
        if self._is_at_once:
            _report(self._controller, self._request, f"{why} {topic}")
        else:
            self._refused.setdefault(why, {})[topic] = None
        return False

    def report(self) -> None:
        """Report the topics that were refused: the first names, and the number of others."""
        texts = [f"{why} {_topics_text(list(topics))}" for why, topics in self._refused.items()]
        if texts:
            _report(self._controller, self._request, "; ".join(texts))


def creation_check(controller: Controller, request: ReceivedRequest) -> TopicCheck:
    """The check whether the client may create a topic: by the ACLs of the cluster, or by those of
    the topic (KafkaApis.handleCreateTopicsRequest)."""
    operation = authorization.CREATE
    allows_all = _refusal(controller, request, operation, THE_CLUSTER) is None
    return TopicCheck(controller, request, operation, allows_all=allows_all)


def _topics_text(topics: list[str]) -> str:
    """The first topics, and how many more there are. Clients can send names that are too long."""
    first = ", ".join(one[:LENGTH_MAX] for one in topics[:_SHOWN])
    rest = len(topics) - _SHOWN
    return first + (f" and {rest} more" if rest > 0 else "")


def _refusal(
    controller: Controller, request: ReceivedRequest, operation: str, resource: Resource
) -> str | None:
    rules = controller.configuration.authorization
    if rules is None:
        return None
    acls = controller.context.acls
    return authorization.refusal(acls, rules, request.client, operation, resource)


def _report(controller: Controller, request: ReceivedRequest, refused: str) -> None:
    client = request.client
    who = f"{client.principal} at {client.host}" if client else "a client without a principal"
    text = f"{refused} for {who}: refused ({type(request).__name__})"
    controller.notice("info", "not_authorized", request.subject, text)
