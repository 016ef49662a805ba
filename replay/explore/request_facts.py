"""Turns the requests of brokers and clients to controllers, and their responses, into facts."""

from collections.abc import Callable
from typing import Any

from controller.core.api_requests import (
    ApiRequest,
    ApiResponse,
    BrokerApiRequest,
    BrokerApiResponse,
)
from controller.core.api_requests.alter_partition import AlterPartitionReceived
from controller.core.api_requests.controlled_shutdown import ControlledShutdownReceived
from controller.core.api_requests.elections import ElectLeadersReceived
from controller.core.api_requests.reassignments import AlterPartitionReassignmentsReceived
from controller.core.error_codes import NONE
from controller.core.values import LeaderAndIsr
from replay.explore.invariants.known_cluster import KnownCluster


class RequestFacts:
    """Keeps `KnownCluster.open_requests` up to date. `of` returns the methods of the invariants
    that need a fact; `has_role` says whether a controller acts with the epoch in
    /controller_epoch."""

    def __init__(
        self, known: KnownCluster, of: Callable[[str], list[Any]], has_role: Callable[[str], bool]
    ) -> None:
        self._known = known
        self._has_role = has_role
        self._received = of("received")
        self._answered = of("answered")
        self._shutdown_granted = of("shutdown_granted")
        self._granted = of("granted")
        self._isr_requested = of("isr_requested")

    def run_ended(self, process: str) -> None:
        """A controller ended, and answers nothing any more."""
        self._known.granted.pop(process, None)
        requests = self._known.open_requests
        for key in [one for one in requests if one[0] == process]:
            del requests[key]

    def received(self, process: str, request: ApiRequest) -> None:
        """A controller received a request."""
        self._known.open_requests[process, request.request] = request
        for check in self._received:
            check(process, request)
        if isinstance(request, AlterPartitionReassignmentsReceived):
            self._reassignments_requested(request)
        elif isinstance(request, AlterPartitionReceived):
            self._isrs_requested(request)
        elif isinstance(request, ElectLeadersReceived) and request.election == "unclean":
            names = request.partitions
            topics = [""] if names is None else [one for one, _ in names]
            self._known.allows_unclean.update(dict.fromkeys(topics))

    def _reassignments_requested(self, request: AlterPartitionReassignmentsReceived) -> None:
        for one in request.partitions:
            requests = self._known.requests_of((one.topic, one.partition))
            if one.replicas is None:
                requests.is_cancelled = True
            else:
                requests.add(one.replicas)
                requests.submitted += 1

    def _isrs_requested(self, request: AlterPartitionReceived) -> None:
        names = {one.id.hex(): one.name for one in self._known.topics.values() if one.id}
        for one in request.partitions:
            name = names.get(one.topic, one.topic), one.partition
            state = LeaderAndIsr(request.broker, one.leader_epoch, one.isr, one.partition_epoch, 0)
            for check in self._isr_requested:
                check(name, state)

    def answered(self, process: str, response: ApiResponse) -> None:
        """A controller answers a request."""
        asked = self._known.open_requests.pop((process, response.request), None)
        for check in self._answered:
            check(process, asked, response)
        is_granted = isinstance(response, BrokerApiResponse) and response.error == NONE
        if not isinstance(asked, BrokerApiRequest) or not is_granted or not self._has_role(process):
            return
        for check in self._granted:
            check(process, asked.broker, asked.broker_epoch)
        if isinstance(asked, ControlledShutdownReceived):
            known = self._known
            # A later registration is unknown to the controller, which then forgets the shutdown.
            if known.broker_epoch_known_to(process, asked.broker) == asked.broker_epoch:
                known.granted.setdefault(process, {})[asked.broker] = asked.broker_epoch
            for check in self._shutdown_granted:
                check(process, asked.broker, asked.broker_epoch)
