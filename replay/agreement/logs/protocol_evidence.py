"""The inter.broker.protocol.version of a broker process, by what the process did: no log has it."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import msgspec
from msgspec import Struct

from controller.core import znodes
from controller.core.errors import ZnodeError
from controller.core.protocol_versions import LATEST
from replay.stock_clusters.zookeeper_log.transactions import Create, SetData

_OF_LEADER_AND_ISR: Final = {4: "2.7", 5: "3.1", 7: LATEST}
"""A protocol version with each version of LeaderAndIsr (KB 12.3)."""
_OF_STOP_REPLICA: Final = {1: "2.4-IV0", 2: "2.5"}
"""A protocol version below 2.6 with each version of StopReplica."""
_LEADER_AND_ISR_OF_3_2: Final = 6
_FEATURE_OF_3_3: Final = 2
_FIRST_WITH_FEATURES: Final = 5
_RECOVERY: Final = b"leader_recovery_state"


class _ControllerRequest(Struct):
    controllerEpoch: int


_controller_request_decoder: Final = msgspec.json.Decoder(_ControllerRequest)


class ProtocolEvidence:
    """The writes of processes, by session, and their requests, by controller epoch."""

    def __init__(self) -> None:
        self._registrations: dict[int, int] = {}
        self._features: dict[int, int] = {}
        self._feature = 0
        self._with_recovery: set[int] = set()
        self._leader_and_isr: dict[int, int] = {}
        self._stop_replica: dict[int, int] = {}
        self._topics_without_id: set[str] = set()
        self._draws_ids = False
        self._without_ids: set[int] = set()

    def version(self, session: int, epochs: Iterable[int]) -> str:
        """The latest version that is consistent with what a session wrote, and with what it sent as
        controller in these epochs."""
        if self._registrations.get(session, _FIRST_WITH_FEATURES) < _FIRST_WITH_FEATURES:
            stops = (self._stop_replica.get(epoch) for epoch in epochs)
            return next((_OF_STOP_REPLICA[one] for one in stops if one in _OF_STOP_REPLICA), "2.6")
        feature = self._features.get(session, self._feature)
        for epoch in epochs:
            version = self._leader_and_isr.get(epoch)
            if version == _LEADER_AND_ISR_OF_3_2:
                return "3.3" if feature >= _FEATURE_OF_3_3 else "3.2"
            if version in _OF_LEADER_AND_ISR:
                return _OF_LEADER_AND_ISR[version]
        if feature >= _FEATURE_OF_3_3:
            return LATEST
        if session in self._with_recovery:
            return "3.2"
        if session in self._without_ids:
            return "2.7"
        return "3.1" if self._draws_ids else "2.7"

    def note_registration(self, session: int, data: bytes | None) -> None:
        """A session has registered its broker."""
        try:
            self._registrations[session] = znodes.registration_version(data)
        except (ZnodeError, msgspec.DecodeError, UnicodeDecodeError):
            return

    def note_feature(self, session: int, data: bytes | None) -> None:
        """A session has written /feature."""
        try:
            self._feature = znodes.read_features(data).version
        except ZnodeError:
            return
        self._features[session] = self._feature

    def note_topic(self, topic: str, *, has_id: bool) -> None:
        """A session has written a topic's znode."""
        if has_id:
            self._draws_ids = True
            self._topics_without_id.discard(topic)
        else:
            self._topics_without_id.add(topic)

    def note_state(self, session: int, path: str, written: Create | SetData) -> None:
        """A session has written a znode below a topic's znode, possibly a partition's state."""
        partition = znodes.partition_of_state(path)
        if partition is None:
            return
        if _RECOVERY in (written.data or b""):
            self._with_recovery.add(session)
        if isinstance(written, Create) and partition[0] in self._topics_without_id:
            # A controller that draws topic ids would have written one before.
            self._without_ids.add(session)

    def note_leader_and_isr(self, request: bytes, version: int) -> None:
        """A controller has sent LeaderAndIsr in this version."""
        _note(self._leader_and_isr, request, version)

    def note_stop_replica(self, request: bytes, version: int) -> None:
        """A controller has sent StopReplica in this version."""
        _note(self._stop_replica, request, version)


def _note(versions: dict[int, int], request: bytes, version: int) -> None:
    """Note the version for the epoch of the controller that sent the request."""
    with suppress(msgspec.DecodeError):
        versions[_controller_request_decoder.decode(request).controllerEpoch] = version
