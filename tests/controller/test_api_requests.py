"""Every API of the endpoint is declared completely: core, wire format, description and page."""

import json
import re
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from kio.schema.index import api_key_map
from msgspec.structs import fields

from controller.api.front.routing import Route, route
from controller.core.api_requests import (
    AdminRequest,
    AdminResponse,
    ApiRequest,
    ApiResponse,
    BrokerApiRequest,
    TimedRequest,
)
from controller.core.api_requests.received_request import BrokerRequestReceived, ReceivedRequest
from controller.core.api_requests.topics import MutatingRequest
from controller.core.error_codes import NOT_CONTROLLER
from controller.core.events import Event
from controller.core.metric_table import IDLE, controller_state
from controller.core.triggers import ApiCall
from controller.wire.admin.admin_api import AdminApi
from controller.wire.admin.apis import ADMIN_APIS, encode_admin_response
from controller.wire.apis import Api
from controller.wire.client_requests import RequestHead, decode_response
from controller.wire.controller_requests import BROKER_APIS
from replay.description.api_requests import request_lines, response_lines
from replay.description.bulk_json import json_of_each
from tests.controller.core.cluster import Cluster
from tests.controller.core.endpoint import call

ROOT = Path(__file__).parents[2]
ENDPOINT_PAGE = ROOT / "docs/endpoint.md"
SECURITY_PAGE = ROOT / "docs/security.md"
ADMINISTRATORS_PAGE = ROOT / "docs/administrators.md"
EVERY_API = pytest.mark.parametrize(
    "api", [*ADMIN_APIS.values(), *BROKER_APIS.values()], ids=lambda api: api.name
)
EVERY_REQUEST = pytest.mark.parametrize("kind", get_args(ApiRequest), ids=lambda one: name_of(one))
SAMPLES = {int: 7, bool: False, list: [], tuple: (), type(None): None}


def name_of(request: type[Any]) -> str:
    """The name of a request's API."""
    return request.__name__.removesuffix("Received")


def sample(kind: type[Any]) -> Any:
    """A request that names nothing."""
    return kind(**{field.name: _sample_of(field.type) for field in fields(kind)})


def _sample_of(hint: Any) -> object:
    if get_origin(hint) is Literal:
        return get_args(hint)[0]
    if type(None) in get_args(hint):
        return None
    return SAMPLES[get_origin(hint) or hint]


def snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def test_unions_name_every_request_and_answer() -> None:
    bases = (ReceivedRequest, BrokerRequestReceived, MutatingRequest)
    kinds = {one for base in bases for one in base.__subclasses__()}
    assert kinds - set(bases) == set(get_args(ApiRequest))
    assert set(get_args(ApiRequest)) < set(get_args(Event))
    names = {one.__name__ for one in get_args(ApiResponse)}
    assert names == {f"{name_of(one)}Response" for one in get_args(ApiRequest)}


@EVERY_REQUEST
def test_daemon_without_role_refuses_request_with_answer_of_its_kind(kind: type[Any]) -> None:
    answer = call(Cluster(1), sample(kind))
    assert type(answer).__name__ == f"{name_of(kind)}Response"
    assert answer.request == sample(kind).request


@EVERY_REQUEST
def test_request_is_handled_in_a_state_of_kafkas_controller(kind: type[Any]) -> None:
    """Requests for which Kafka's controller has no event are handled in its state Idle."""
    state = controller_state(ApiCall(sample(kind)))
    assert (state is IDLE) is (kind.CONTROLLER_EVENT in ("", "AllocateProducerIds"))


@EVERY_REQUEST
def test_log_describes_request_and_refusal(kind: type[Any]) -> None:
    request = sample(kind)
    assert request_lines(request)[0].startswith(name_of(kind))
    refusal = response_lines(request.refusal(41))[0]
    assert refusal.startswith(f"response to request {request.request}: ")


@EVERY_REQUEST
def test_json_of_request_has_each_of_its_fields(kind: type[Any]) -> None:
    [stored] = json_of_each([sample(kind)])
    assert json.loads(stored).keys() - {"tag"} == set(kind.__struct_fields__)


def test_every_admin_request_has_one_api_on_the_wire() -> None:
    declared = {api.name: api.response for api in ADMIN_APIS.values()}
    answer_of = {one.__name__: one for one in get_args(AdminResponse)}
    assert declared == {
        name_of(one): answer_of[f"{name_of(one)}Response"] for one in get_args(AdminRequest)
    }
    assert {api.name for api in BROKER_APIS.values()} == {
        name_of(one) for one in get_args(BrokerApiRequest)
    }


@EVERY_API
def test_api_has_the_key_of_its_name(api: Api) -> None:
    assert api_key_map[api.key] == snake_case(api.name)


def test_responses_that_wait_are_those_of_requests_with_a_timeout() -> None:
    waiting = {api.name for api in ADMIN_APIS.values() if api.may_wait}
    assert waiting <= {name_of(one) for one in get_args(TimedRequest)}
    assert all("timeout_ms" in one.__struct_fields__ for one in get_args(TimedRequest))


@EVERY_API
def test_endpoint_page_names_the_versions(api: Api) -> None:
    joined = {0: "{0}", 1: "{0} and {1}"}.get(api.last - api.first, "{0} to {1}")
    versions = joined.format(api.first, api.last)
    page = ENDPOINT_PAGE.read_text(encoding="utf-8")
    assert re.search(rf"\b{api.name} {versions}\b(?! and| to)", page)


@pytest.mark.parametrize("api", ADMIN_APIS.values(), ids=lambda api: api.name)
def test_refusal_can_be_decoded_in_each_version(api: AdminApi) -> None:
    request = next(one for one in get_args(AdminRequest) if name_of(one) == api.name)
    for version in range(api.first, api.last + 1):
        head = RequestHead(api.key, version, 5)
        frame = encode_admin_response(head, sample(request).refusal(NOT_CONTROLLER), {})
        assert decode_response(head, frame[4:]) is not None


@EVERY_REQUEST
def test_security_page_has_the_operation_that_a_client_needs(kind: type[Any]) -> None:
    _, _, table = SECURITY_PAGE.read_text(encoding="utf-8").partition("\n| request | needs |")
    rows = [line.split(" | ") for line in table.partition("\n\n")[0].splitlines()]
    needs = [row[1] for row in rows if re.search(rf"\b{name_of(kind)}\b", row[0])]
    assert needs
    operation = kind.CLUSTER_OPERATION
    assert operation is None or f"{operation} on the cluster" in needs[0]


@EVERY_API
def test_request_goes_to_the_controller_and_not_to_a_broker(api: Api) -> None:
    expected = Route.CONTROLLER if api.key in BROKER_APIS else Route.CONTROLLER_BY_TOOL
    assert route(api.key) is expected


@EVERY_API
def test_page_for_administrators_names_each_api_that_the_controller_answers(api: Api) -> None:
    _, _, table = ADMINISTRATORS_PAGE.read_text(encoding="utf-8").partition("\n| request |")
    rows = [line.split(" | ")[0] for line in table.partition("\n\n")[0].splitlines()]
    assert any(re.search(rf"\b{api.name}\b", row) for row in rows)
