"""Whether a Produce request is answered, in every version, with kio as the client."""

from datetime import timedelta
from importlib import import_module

import pytest

from controller.wire.client_requests import MalformedRequest, RequestHead, encode_request
from controller.wire.produce import PRODUCE, wants_response


def produce(version: int, acks: int, transactional_id: str | None) -> bytes:
    schema = import_module(f"kio.schema.produce.v{version}.request")
    transactional = {"transactional_id": transactional_id} if version >= 3 else {}
    request = schema.ProduceRequest(
        acks=acks, timeout=timedelta(seconds=1), topic_data=(), **transactional
    )
    return encode_request(RequestHead(PRODUCE, version, 5), "a client", request)[4:]


@pytest.mark.parametrize("version", range(3, 12))
@pytest.mark.parametrize("transactional_id", [None, "t" * 200])
def test_only_produce_with_acks_0_has_no_answer(version: int, transactional_id: str | None) -> None:
    for acks in (-1, 0, 1):
        assert wants_response(version, produce(version, acks, transactional_id)) == bool(acks)


def test_too_large_length_is_malformed() -> None:
    beginning = bytes(8) + b"\xff\xff\0" + b"\xff" * 20 + b"\1"
    with pytest.raises(MalformedRequest):
        wants_response(9, beginning)


@pytest.mark.parametrize("version", [2, 3, 9])
def test_request_truncated_before_its_acks_is_malformed(version: int) -> None:
    beginning = b"\0\0\0\0\0\0\0\x05\x7f\xffclient"
    with pytest.raises(MalformedRequest):
        wants_response(version, beginning)
