"""ElectLeaders on the wire."""

from typing import Any, Final, Literal

from kio.schema.errors import ErrorCode

from controller.core import error_codes
from controller.core.api_requests.elections import ElectLeadersReceived, ElectLeadersResponse
from controller.wire.admin.admin_api import AdminApi, ResponseBuilder
from controller.wire.admin.partitions import by_topic, message_of, read_partitions
from controller.wire.request_body import RequestBody

_FIRST_WITH_TYPE: Final = 1
_TYPES: Final[dict[int, Literal["preferred", "unclean"]]] = {0: "preferred", 1: "unclean"}
_PREFERRED: Final = 0


def _decode(body: RequestBody, version: int, request: int) -> ElectLeadersReceived:
    kind = body.int8() if version >= _FIRST_WITH_TYPE else _PREFERRED
    if kind not in _TYPES:
        raise ValueError(f"there is no election type {kind}")
    partitions = read_partitions(body)
    return ElectLeadersReceived(request, version, _TYPES[kind], partitions, body.int32())


def _fields(response: ElectLeadersResponse, builder: ResponseBuilder) -> dict[str, Any]:
    results = tuple(
        builder.make(
            "ReplicaElectionResult",
            topic=topic,
            partition_result=tuple(
                builder.make(
                    "PartitionResult",
                    partition_id=one.partition,
                    error_code=ErrorCode(one.error),
                    error_message=message_of(one),
                )
                for one in partitions
            ),
        )
        for topic, partitions in by_topic(response.partitions).items()
    )
    return {"error_code": ErrorCode(_error(response)), "replica_election_results": results}


def _error(response: ElectLeadersResponse) -> int:
    """Kafka reports NOT_CONTROLLER for each partition and no error for the whole request."""
    is_per_partition = response.error == error_codes.NOT_CONTROLLER and response.partitions
    return error_codes.NONE if is_per_partition else response.error


ELECT_LEADERS: Final = AdminApi(
    key=43,
    name="ElectLeaders",
    first=0,
    last=2,
    first_flexible=2,
    decode=_decode,
    response=ElectLeadersResponse,
    fields=_fields,
)
