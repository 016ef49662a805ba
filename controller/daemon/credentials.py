"""Reads the SCRAM credentials of users whenever a client logs in, so that a change counts at once.
The log has the principal that a client has proved to be."""

from controller.core import znodes
from controller.core.errors import ZnodeError
from controller.daemon.errors import ZnodeUnreadable
from controller.daemon.session_reads import SessionReads


class CredentialReader:
    """Reads over the daemon's session."""

    def __init__(self, reads: SessionReads) -> None:
        self._reads = reads

    async def read(self, user: str, mechanism: str) -> str | None:
        """The credential as ZooKeeper has it. None if there is none, or ZooKeeper cannot be
        read."""
        path = znodes.user_config_path(user)
        try:
            return znodes.read_config(path, await self._reads.data(path)).get(mechanism)
        except (ZnodeError, ZnodeUnreadable):
            return None
