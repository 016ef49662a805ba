"""The rights of each kind of principal at a stock controller and at refold, in a secured cluster.

    python -m tests.lab.secured.comparison

writes the table into docs/security-responses.md.
"""

import asyncio
import hashlib
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from struct import pack
from typing import Any, Final, NamedTuple

from aiokafka.conn import create_conn
from aiokafka.errors import KafkaError
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map

from controller.api.front.cluster_metadata import METADATA_KEYS
from controller.api.front.routing import Route, route
from controller.core.authorization import Resource
from controller.core.znodes.acls import TOPIC, Acl, ResourcePattern
from controller.wire.aiokafka_request import AiokafkaRequest
from controller.wire.sasl import SASL_SPANS
from tests.controller.daemon.lab_cluster import timed
from tests.lab.default_clusters.comparison import with_table
from tests.lab.secured.calls import ANSWERED, CALLS, PRESENT, Call, api_name
from tests.lab.secured.secured_cluster import OWN_ID
from tests.lab.secured.secured_endpoint import (
    LIST_REASSIGNMENTS,
    SecuredEndpoint,
    add_scram_user,
    ask,
    create_topic,
    running_endpoint,
)
from tools.lab.ports import HOST
from tools.lab.secured import BROKER_PASSWORD, LISTENER, USER

PAGE: Final = Path(__file__).parents[3] / "docs" / "security-responses.md"
BEGIN: Final = "<!-- The table is written by python -m tests.lab.secured.comparison -->\n"
CLOSED: Final = "connection closed"
NOT_SENT: Final = "answers"
"""Kafka's answers to calls that refold never answers on a secured listener."""
_ANONYMOUS: Final = ""
"""A client that is not logged in has no user."""
_PREFIX_LENGTH: Final = 3
_PASSWORD: Final = "lab-secret"
_ALLOWED: Final = ("owner", "wildcard", "prefix", USER)

PRINCIPALS: Final[Mapping[str, str]] = {
    _ANONYMOUS: "not logged in",
    "stranger": "a user without ACLs",
    "reader": "a user with Read and Write on the topic",
    "elsewhere": "a user with the right, from another host",
    "denied": "a user with the right and a denial",
    "owner": "a user with the right",
    "wildcard": "a user with the right on `*`",
    "prefix": "a user with the right on a prefix",
    USER: "a super user",
}
"""The kinds of principals, by the name of the user."""


class Row(NamedTuple):
    """A call of a principal: what is expected, and what a stock controller and refold answer."""

    call: str
    needs: str
    principal: str
    expected: str
    kafka: str
    refold: str


Answers = dict[tuple[str, str], str]
"""By the name of the call and the user."""


def expected_of(call: Call, user: str) -> str:
    """The response by Kafka's rules."""
    if user == _ANONYMOUS:
        return CLOSED
    is_allowed = user in _ALLOWED or (call.is_implied and user == "reader")
    return call.allowed if call.resource is None or is_allowed else call.refused


def expected_here(call: Call, user: str) -> str:
    """The response of refold, whose front has no ACLs (docs/security.md#authorization)."""
    if call.is_local and user not in (_ANONYMOUS, USER):
        return call.refused
    return expected_of(call, user)


def acls() -> Iterator[tuple[ResourcePattern, list[Acl]]]:
    """The ACLs of all users, by pattern."""
    needed: dict[Resource, list[str]] = {}
    for call in CALLS:
        if call.resource is not None and call.operation not in needed.get(call.resource, ()):
            needed.setdefault(call.resource, []).append(call.operation)
    of_types: dict[str, list[str]] = {}
    for resource, operations in needed.items():
        of_types.setdefault(resource.type, []).extend(operations)
        useless = ["Read", "Write"] if resource.type == TOPIC else ["IdempotentWrite"]
        yield (
            ResourcePattern(*resource),
            [
                *_allowed("owner", operations),
                *_allowed("denied", operations),
                Acl("User:denied", "Deny", "All", "*"),
                *_allowed("elsewhere", operations, host="192.0.2.1"),
                *_allowed("reader", useless),
            ],
        )
        start = resource.name[:_PREFIX_LENGTH]
        yield ResourcePattern(resource.type, start, is_prefix=True), _allowed("prefix", operations)
    for kind, operations in of_types.items():
        yield ResourcePattern(kind, "*"), _allowed("wildcard", operations)


def _allowed(user: str, operations: Iterable[str], host: str = "*") -> list[Acl]:
    return [Acl(f"User:{user}", "Allow", one, host) for one in operations]


async def observed(secured: SecuredEndpoint) -> list[Row]:
    """The responses of refold, and then of a stock controller. The daemon is stopped."""
    await create_topic(secured, PRESENT, (1, 2))
    salted = hashlib.pbkdf2_hmac("sha512", _PASSWORD.encode(), b"salt", 4096)
    for user in PRINCIPALS:
        if user not in (_ANONYMOUS, USER):
            await add_scram_user(secured, user, salted)
    for one in acls():
        await secured.write_acls(*one)
    await _until_acls_are_seen(secured)
    closed = await _not_answered(secured)
    refold = await _answers(secured, OWN_ID)
    assert await secured.daemon.stop() == 0
    await _until_acls_are_seen(secured)
    id = await secured.controller_id()
    assert id is not None
    kafka = await _answers(secured, id)
    rows = [
        Row(
            call.name,
            call.needs,
            PRINCIPALS[user],
            expected_here(call, user),
            kafka[call.name, user],
            refold[call.name, user],
        )
        for call in CALLS
        for user in PRINCIPALS
    ]
    return rows + closed


async def _until_acls_are_seen(secured: SecuredEndpoint) -> None:
    """Waits for the controller to have the ACLs, and the users that were added before."""
    (listing,) = (one for one in CALLS if one.key == LIST_REASSIGNMENTS)

    async def are_seen() -> bool:
        port = await secured.controller_port()
        answers = [await _answer(secured, port, 0, listing, one) for one in ("owner", "prefix")]
        return answers == [listing.allowed] * 2

    await timed(are_seen, "the controller has the ACLs")


async def _answers(secured: SecuredEndpoint, node: int) -> Answers:
    port = await secured.controller_port()
    return {
        (call.name, user): await _answer(secured, port, node, call, user)
        for call in CALLS
        for user in PRINCIPALS
    }


async def _answer(secured: SecuredEndpoint, port: int, node: int, call: Call, user: str) -> str:
    """The errors of the response to a call, on a new connection."""
    try:
        connection = await _connect(secured, port, user)
    except KafkaError as error:
        return type(error).__name__
    try:
        return outcome(await ask(connection, call.key, call.version, call.request(node)))
    except (KafkaError, OSError):
        return CLOSED
    finally:
        connection.close()


async def _connect(secured: SecuredEndpoint, port: int, user: str) -> Any:
    if user == USER:
        return await secured.connect(port, USER, BROKER_PASSWORD)
    if user != _ANONYMOUS:
        return await secured.connect(port, user, _PASSWORD, "SCRAM-SHA-512")
    known = secured.settings.security.brokers.listeners[LISTENER].arguments()
    tls = {"security_protocol": "SSL", "ssl_context": known["ssl_context"]}
    return await create_conn(HOST, port, request_timeout_ms=60_000, **tls)


async def _not_answered(secured: SecuredEndpoint) -> list[Row]:
    """The calls that refold never answers on a secured listener."""
    routes = {
        "requests that a broker must answer": Route.BROKER,
        "requests that no client may send to refold": Route.UNSUPPORTED,
    }
    offered = await _offered(secured)
    rows = []
    for what, way in routes.items():
        others = SASL_SPANS.keys() | METADATA_KEYS
        keys = [key for key in offered if route(key) is way and key not in others]
        named = f"{what}: {', '.join(map(api_name, keys))}"
        for user, principal in PRINCIPALS.items():
            found = {await _answer_to_bare_head(secured, key, user) for key in keys}
            answers = ", ".join(sorted(found))
            rows.append(Row(named, "any", principal, CLOSED, NOT_SENT, answers))
    return rows


async def _offered(secured: SecuredEndpoint) -> list[int]:
    """The APIs that a stock broker offers."""
    connection = await secured.connect(secured.lab.brokers[0].port, USER, BROKER_PASSWORD)
    try:
        return sorted(key for key in connection._versions if key in api_key_map)
    finally:
        connection.close()


async def _answer_to_bare_head(secured: SecuredEndpoint, key: int, user: str) -> str:
    """The response to a request that ends after its head."""
    connection = await _connect(secured, secured.port, user)
    try:
        await connection.send(AiokafkaRequest(lambda id, _: pack(">hhih", key, 0, id, -1)))
    except (KafkaError, OSError):
        return CLOSED
    finally:
        connection.close()
    return ANSWERED


def outcome(answer: Any) -> str:
    """The error of a whole answer, or the errors in it."""
    whole = [answer.error_code] if hasattr(answer, "error_code") else []
    found = [one for one in (*whole, *_errors(answer)) if one is not ErrorCode.none]
    if not found:
        return ANSWERED
    return ", ".join(dict.fromkeys(one.name.upper() for one in found))


def _errors(value: Any) -> Iterator[ErrorCode]:
    """The error codes of all entries of a response."""
    if isinstance(value, tuple):
        for one in value:
            yield from _errors(one)
    elif is_dataclass(value):
        for field in fields(value):
            found = getattr(value, field.name, None)
            if field.name == "error_code":
                yield found
            elif not field.name.startswith("__"):
                yield from _errors(found)


def unexpected(rows: Iterable[Row]) -> list[Row]:
    """The rows in which a response is not the expected one."""
    return [
        one
        for one in rows
        if one.refold != one.expected or one.kafka not in (one.expected, kafka_of(one), NOT_SENT)
    ]


def kafka_of(row: Row) -> str:
    """Kafka's answer where refold's differs on purpose; otherwise the expected one."""
    by_name = {one.name: one for one in CALLS}
    users = {principal: user for user, principal in PRINCIPALS.items()}
    call = by_name.get(row.call)
    return row.expected if call is None else expected_of(call, users[row.principal])


def table(rows: Iterable[Row]) -> str:
    """The rows as a Markdown table; principals with the same answers share a row."""
    shared: dict[tuple[str, ...], list[str]] = {}
    for one in rows:
        key = (one.call, one.needs, one.expected, one.kafka, one.refold)
        shared.setdefault(key, []).append(one.principal)
    lines = [
        "| call | needs | principal | expected | Kafka | refold |",
        "|---|---|---|---|---|---|",
    ]
    for (call, needs, *answers), principals in shared.items():
        lines.append(f"| {call} | {needs} | {'; '.join(principals)} | {' | '.join(answers)} |")
    return "\n".join(lines) + "\n"


async def run(folder: Path) -> list[Row]:
    """The rows, in a new cluster in this folder."""
    async with running_endpoint(folder) as secured:
        return await observed(secured)


async def _write_page() -> str:
    """Writes the page; returns the rows with an unexpected answer."""
    with tempfile.TemporaryDirectory() as name:
        rows = await run(Path(name))
    found = unexpected(rows)
    if not found:
        PAGE.write_text(with_table(PAGE.read_text(), BEGIN, table(rows)))
    return "\n".join(map(str, found))


if __name__ == "__main__":
    sys.exit(asyncio.run(_write_page()) or None)
