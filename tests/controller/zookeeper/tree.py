"""A small ZooKeeper tree that executes multis, for the tests of split writes."""

from collections.abc import Sequence

from controller.core.operations import (
    BAD_VERSION,
    NO_NODE,
    NODE_EXISTS,
    NOT_EMPTY,
    OK,
    RUNTIME_INCONSISTENCY,
    Check,
    Create,
    Delete,
    SetData,
    WriteOperation,
)


class Tree:
    """Paths and the versions of their data."""

    def __init__(self, versions: dict[str, int]) -> None:
        self.versions = {"": 0, **versions}

    def multi(self, operations: Sequence[WriteOperation]) -> tuple[list[int], list[int]]:
        """Carries out all operations or none. Returns errors as in a real reply, and new
        versions."""
        before = dict(self.versions)
        results: list[int] = []
        for place, operation in enumerate(operations):
            error, version = self.one(operation)
            if error != OK:
                self.versions = before
                rest = len(operations) - place - 1
                return [OK] * place + [error] + [RUNTIME_INCONSISTENCY] * rest, []
            results.append(version)
        return [OK] * len(operations), results

    def one(self, operation: WriteOperation) -> tuple[int, int]:
        """Carries out one operation. Returns its error and the znode's new version, else -1."""
        versions, path = self.versions, operation.path
        if isinstance(operation, Create):
            if path in versions:
                return NODE_EXISTS, -1
            if path.rpartition("/")[0] not in versions:
                return NO_NODE, -1
            versions[path] = 0
            return OK, 0
        if path not in versions:
            return NO_NODE, -1
        if operation.version not in (-1, versions[path]):
            return BAD_VERSION, -1
        match operation:
            case SetData():
                versions[path] += 1
                return OK, versions[path]
            case Delete():
                if any(one.startswith(f"{path}/") for one in versions):
                    return NOT_EMPTY, -1
                del versions[path]
            case Check():
                pass
        return OK, -1
