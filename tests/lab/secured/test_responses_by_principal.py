"""The rights of each kind of principal are as expected, and as docs/security-responses.md says."""

from pathlib import Path

import pytest
from kio.schema.index import api_key_map

from controller.api.front.cluster_metadata import METADATA_KEYS
from controller.api.front.routing import FRONT_KEYS, Route, may_be_repeated, route
from controller.wire.admin.apis import ADMIN_APIS
from controller.wire.api_versions import API_VERSIONS
from controller.wire.controller_requests import BROKER_APIS
from tests.lab.secured.calls import CALLS, api_name
from tests.lab.secured.comparison import BEGIN, PAGE, PRINCIPALS, run, table, unexpected

ANSWERED_HERE = {*BROKER_APIS, *ADMIN_APIS, *FRONT_KEYS, *METADATA_KEYS, API_VERSIONS}
NOT_OFFERED_BY_KAFKA = {"Envelope", "DescribeTopicPartitions", "ListClientMetricsResources"}
"""A stock broker of a cluster in ZooKeeper mode does not offer these."""


def rows() -> list[list[str]]:
    """The cells of the table in the page."""
    _, _, after = PAGE.read_text().partition(BEGIN)
    lines = [one for one in after.splitlines() if one.startswith("| ")]
    return [[cell.strip() for cell in one.strip("|").split("|")] for one in lines[1:]]


def principals_of(call: str) -> list[str]:
    found = [one for cells in rows() if cells[0] == call for one in cells[2].split("; ")]
    return sorted(found)


def test_page_has_every_call_that_refold_answers_for_each_kind_of_principal() -> None:
    assert {one.key for one in CALLS} == ANSWERED_HERE
    for key in ANSWERED_HERE:
        assert principals_of(api_name(key)) == sorted(PRINCIPALS.values()), api_name(key)


def test_page_has_every_call_that_refold_does_not_answer() -> None:
    listed = {name for cells in rows() for name in cells[0].partition(": ")[2].split(", ") if name}
    declared = {
        api_name(key)
        for key in api_key_map
        if route(key) is Route.UNSUPPORTED or (route(key) is Route.BROKER and may_be_repeated(key))
    }
    telemetry = {api_name(one) for one in (71, 72)}
    answered = {api_name(one) for one in METADATA_KEYS}
    assert declared - NOT_OFFERED_BY_KAFKA - telemetry - answered <= listed


def test_page_has_the_expected_answers() -> None:
    for *_, expected, _, refold in rows():
        assert refold == expected


@pytest.mark.lab
@pytest.mark.timeout(400)
async def test_responses_by_principal_are_those_of_the_page(tmp_path: Path) -> None:
    found = await run(tmp_path)
    assert unexpected(found) == []
    assert table(found) in PAGE.read_text(), (
        "write docs/security-responses.md again: python -m tests.lab.secured.comparison"
    )
