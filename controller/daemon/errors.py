"""Exceptions of the daemon."""


class DaemonError(Exception):
    """The daemon cannot start or continue. The text says why and what to do."""


class ZnodeUnreadable(DaemonError):
    """ZooKeeper does not answer, or refuses to. Whether the znode exists is not known."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} cannot be read")


def texts_of(faults: BaseExceptionGroup[BaseException]) -> list[str]:
    """The messages of all exceptions in a group."""
    texts: list[str] = []
    for one in faults.exceptions:
        texts += texts_of(one) if isinstance(one, BaseExceptionGroup) else [str(one)]
    return texts
