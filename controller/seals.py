"""Secrets on their way through the daemon: the log and the fold get seals in their place.

The credentials of users (/config/users) come with requests of admin tools and with what is read
from ZooKeeper, and go out in writes to it. A seal is a keyed digest: it says nothing of the secret,
and the same secret has the same seal, so that the fold can compare what stands in ZooKeeper with
what it wrote. The key is drawn anew in each run and is never stored.
"""

import hmac
from secrets import token_bytes
from typing import Final

from msgspec import structs

from controller.core import user_configs, znodes
from controller.core.commands import (
    ApiAnswer,
    CommandId,
    ReadZnodes,
    WriteAtomically,
    WriteZnodes,
    ZooKeeperCommand,
)
from controller.core.errors import ZnodeError
from controller.core.events import Event, ZnodesRead
from controller.core.operations import Create, SetData, WriteOperation
from controller.core.scram_requests import AlterUserScramCredentialsReceived

_KEY_BYTES: Final = 32
_SEAL_BYTES: Final = 16
_BELOW: Final = f"{znodes.USER_CONFIGS}/"
_UNREADABLE: Final = b"sealed as a whole"
"""In the place of a content of which nobody knows where its secrets are."""


class Seals:
    """What the seals of one run stand for, for as long as there are requests about secrets."""

    def __init__(self) -> None:
        self._key = token_bytes(_KEY_BYTES)
        self._secrets: dict[str, str] = {}
        self._requests: dict[int, None] = {}
        self._reads: dict[CommandId, tuple[str, ...]] = {}

    def seal(self, event: Event) -> Event:
        """The same event without secrets."""
        match event:
            case AlterUserScramCredentialsReceived(request=request, upsertions=upsertions):
                self._requests[request] = None
                sealed = [
                    structs.replace(one, credential=self._sealed(one.credential))
                    for one in upsertions
                ]
                return structs.replace(event, upsertions=sealed)
            case ZnodesRead(command=command, offset=offset) if command in self._reads:
                paths = self._reads[command]
                end = offset + len(event.errors)
                if end >= len(paths):
                    del self._reads[command]
                data = zip(paths[offset:end], event.data, strict=True)
                return structs.replace(event, data=[self._sealed_data(*one) for one in data])
            case _:
                return event

    def open(self, id: CommandId, command: ZooKeeperCommand) -> ZooKeeperCommand:
        """The same command as it goes to ZooKeeper."""
        match command:
            case _ if not self._requests:
                return command
            case ReadZnodes(paths=paths):
                if any(path.startswith(_BELOW) for path in paths):
                    self._reads[id] = paths
                return command
            case WriteZnodes(operations=operations) | WriteAtomically(operations=operations):
                opened = tuple(self._opened(one) for one in operations)
                return structs.replace(command, operations=opened)
            case _:
                return command

    def forget(self, answer: ApiAnswer) -> None:
        """A request has its answer: with the last one about secrets all of them are forgotten."""
        if answer.request in self._requests:
            del self._requests[answer.request]
            if not self._requests:
                self._secrets.clear()

    def _sealed(self, secret: str) -> str:
        if not secret:
            return secret
        digest = hmac.digest(self._key, secret.encode(), "sha256")
        seal = digest[:_SEAL_BYTES].hex()
        self._secrets[seal] = secret
        return seal

    def _sealed_data(self, path: str, data: bytes | None) -> bytes | None:
        if not data or not path.startswith(_BELOW):
            return data
        try:
            configs = znodes.read_config(path, data)
        except ZnodeError:
            return _UNREADABLE
        sealed = {
            key: self._sealed(value) if user_configs.is_secret(key) else value
            for key, value in configs.items()
        }
        return znodes.write_config(sealed)

    def _opened(self, operation: WriteOperation) -> WriteOperation:
        if not isinstance(operation, (Create, SetData)) or not operation.path.startswith(_BELOW):
            return operation
        configs = znodes.read_config(operation.path, operation.data)
        opened = {
            key: self._secrets[value] if value and user_configs.is_secret(key) else value
            for key, value in configs.items()
        }
        return structs.replace(operation, data=znodes.write_config(opened))
