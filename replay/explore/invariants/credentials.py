"""Invariants of SCRAM credentials."""

from typing import ClassVar, NamedTuple

from controller.core import znodes
from controller.core.api_requests import ApiRequest, ApiResponse
from controller.core.api_requests.scram_credentials import (
    AlterUserScramCredentialsReceived,
    AlterUserScramCredentialsResponse,
)
from controller.core.error_codes import NONE
from controller.core.user_configs import MECHANISMS
from replay.explore.invariants.invariant import Invariant, Report
from replay.explore.invariants.known_cluster import KnownCluster
from replay.world.processes import is_controller

Changes = dict[str, str | None]
"""The new credentials of a user, by the name of the mechanism; None: deleted."""


class _RequestedChanges(NamedTuple):
    """A request. For each user's znode: the changes, and how many contents it had had before."""

    request: ApiRequest
    changes: dict[str, Changes]
    before: dict[str, int]


class CredentialsAsRequested(Invariant):
    """Source: KIP-554 (ZkAdminManager.alterUserScramCredentials). Requests of runs that have ended
    count: their last write may arrive late."""

    NAME: ClassVar[str] = "credentials-as-requested"
    STATEMENT: ClassVar[str] = (
        "A controller changes the configuration of a user only as a request asks that it has "
        "received and not answered. If it answers the request without an error for a user, the "
        "znode of the user has had what was asked since the request arrived. Users whose znode a "
        "tool has written do not count."
    )

    def __init__(self, known: KnownCluster, report: Report) -> None:
        super().__init__(known, report)
        self._asked: dict[str, list[_RequestedChanges]] = {}
        self._written_by_tools: dict[str, None] = {}

    def received(self, process: str, request: ApiRequest) -> None:
        if isinstance(request, AlterUserScramCredentialsReceived):
            changes = _changes(request)
            before = {path: len(self.known.contents_of(path)) - 1 for path in changes}
            self._asked.setdefault(process, []).append(_RequestedChanges(request, changes, before))

    def user_written(
        self, path: str, before: dict[str, str], after: dict[str, str], process: str
    ) -> None:
        if not is_controller(process):
            if process:
                self._written_by_tools[path] = None
            return
        asked = [one.changes.get(path, {}) for one in self._asked.get(process, ())]
        for key in {**before, **after}:
            value = after.get(key)
            is_asked = any(key in changes and changes[key] == value for changes in asked)
            if value != before.get(key) and not is_asked and path not in self._written_by_tools:
                what = "deleted" if value is None else "set"
                self.violated(path, f"{process} {what} {key}, which no open request asks")

    def answered(self, process: str, request: ApiRequest | None, response: ApiResponse) -> None:
        if not isinstance(response, AlterUserScramCredentialsResponse):
            return
        open_requests = self._asked.get(process, [])
        found = next((one for one in open_requests if one.request is request), None)
        if found is None:
            return
        open_requests.remove(found)
        for one in response.users:
            path = znodes.user_config_path(one.user)
            if one.error == NONE and path not in self._written_by_tools:
                self._check_stored(process, path, found)

    def _check_stored(self, process: str, path: str, asked: _RequestedChanges) -> None:
        changes = asked.changes.get(path, {})
        for content in self.known.contents_of(path)[asked.before.get(path, 0) :]:
            if all(content.get(key) == value for key, value in changes.items()):
                break
        else:
            self.violated(
                path,
                f"{process} answered a request for {', '.join(changes)} without an error, and the "
                "znode has not had what was asked",
            )


def _changes(request: AlterUserScramCredentialsReceived) -> dict[str, Changes]:
    """The changes that a request asks for, by the paths of the users' znodes."""
    found: dict[str, Changes] = {}
    for deleted in request.deletions:
        changes = found.setdefault(znodes.user_config_path(deleted.user), {})
        changes[MECHANISMS.get(deleted.mechanism, "")] = None
    for set_ in request.upsertions:
        changes = found.setdefault(znodes.user_config_path(set_.user), {})
        changes[MECHANISMS.get(set_.mechanism, "")] = set_.credential
    return found
