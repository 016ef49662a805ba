"""Replaces secrets by keyed digests before they reach the log and the fold.

The credentials of users (/config/users) come with requests of admin tools and with data read from
ZooKeeper, and are written back to ZooKeeper. A keyed digest reveals nothing of the secret. Equal
secrets have equal digests, so the fold can compare the secret in ZooKeeper with the secret that it
wrote. The key is random for each run and never stored.
"""

import hmac
from secrets import token_bytes
from typing import Final

from msgspec import structs

from controller.core import user_configs, znodes
from controller.core.api_requests import ApiResponse
from controller.core.api_requests.scram_credentials import AlterUserScramCredentialsReceived
from controller.core.commands import (
    CommandId,
    ReadZnodes,
    WriteAtomically,
    WriteZnodes,
    ZooKeeperCommand,
)
from controller.core.errors import ZnodeError
from controller.core.events import Event, ZnodesRead
from controller.core.operations import Create, SetData, WriteOperation

_KEY_BYTES: Final = 32
_DIGEST_BYTES: Final = 16
_BELOW: Final = f"{znodes.USER_CONFIGS}/"
_UNREADABLE: Final = b"sealed as a whole"
"""Replaces the whole content of a znode that cannot be parsed, since its secrets cannot be
located. Logs contain this text (docs/logs.md), so it does not change."""


class SecretDigests:
    """The secrets of the digests of one run, kept while requests about secrets are pending."""

    def __init__(self) -> None:
        self._key = token_bytes(_KEY_BYTES)
        self._secrets: dict[str, str] = {}
        self._requests: dict[int, None] = {}
        self._reads: dict[CommandId, tuple[str, ...]] = {}

    def replace_secrets(self, event: Event) -> Event:
        """Return the event with digests in place of secrets."""
        match event:
            case AlterUserScramCredentialsReceived(request=request, upsertions=upsertions):
                self._requests[request] = None
                replaced = [
                    structs.replace(one, credential=self._digest_of(one.credential))
                    for one in upsertions
                ]
                return structs.replace(event, upsertions=replaced)
            case ZnodesRead(command=command, offset=offset) if command in self._reads:
                paths = self._reads[command]
                end = offset + len(event.errors)
                if end >= len(paths):
                    del self._reads[command]
                data = zip(paths[offset:end], event.data, strict=True)
                return structs.replace(
                    event, data=[self._data_without_secrets(*one) for one in data]
                )
            case _:
                return event

    def restore_secrets(self, id: CommandId, command: ZooKeeperCommand) -> ZooKeeperCommand:
        """Return the command with the secrets that ZooKeeper is to store."""
        match command:
            case ReadZnodes(paths=paths):
                # Quotas are in the same znodes: the content is read without a request, too.
                if any(path.startswith(_BELOW) for path in paths):
                    self._reads[id] = paths
                return command
            case _ if not self._requests:
                return command
            case WriteZnodes(operations=operations) | WriteAtomically(operations=operations):
                opened = tuple(self._with_secrets(one) for one in operations)
                return structs.replace(command, operations=opened)
            case _:
                return command

    def forget(self, response: ApiResponse) -> None:
        """A request was answered. When no request about secrets is pending, forget all secrets."""
        if response.request in self._requests:
            del self._requests[response.request]
            if not self._requests:
                self._secrets.clear()

    def _digest_of(self, secret: str) -> str:
        if not secret:
            return secret
        whole = hmac.digest(self._key, secret.encode(), "sha256")
        digest = whole[:_DIGEST_BYTES].hex()
        if self._requests:
            self._secrets[digest] = secret
        return digest

    def _data_without_secrets(self, path: str, data: bytes | None) -> bytes | None:
        if not data or not path.startswith(_BELOW):
            return data
        try:
            configs = znodes.read_config(path, data)
        except ZnodeError:
            return _UNREADABLE
        replaced = {
            key: self._digest_of(value) if user_configs.is_secret(key) else value
            for key, value in configs.items()
        }
        return znodes.write_config(replaced)

    def _with_secrets(self, operation: WriteOperation) -> WriteOperation:
        if not isinstance(operation, (Create, SetData)) or not operation.path.startswith(_BELOW):
            return operation
        configs = znodes.read_config(operation.path, operation.data)
        opened = {
            key: self._secrets[value] if value and user_configs.is_secret(key) else value
            for key, value in configs.items()
        }
        return structs.replace(operation, data=znodes.write_config(opened))
