"""Sessions on a real ZooKeeper with TLS and SASL, compared with those of kazoo."""

import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import anyio
import pytest
from anyio.to_thread import run_sync
from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, KazooException, NoAuthError
from kazoo.security import ACL, CREATOR_ALL_ACL, READ_ACL_UNSAFE, make_digest_acl

from controller.core.operations import NO_AUTH, OK, Create, SetData
from controller.operator.errors import ZooKeeperUnavailable
from controller.operator.zookeeper_client import ExistingZnode, ZooKeeperClient
from controller.security.stores import StoreSettings
from controller.security.tls import ReloadedContext, TlsSettings, client_context
from controller.zookeeper.acls import CREATOR_ACLS
from controller.zookeeper.connection import ZooKeeperSecurity
from controller.zookeeper.digest_md5 import digest_login, sasl_login
from controller.zookeeper.login import Login
from controller.zookeeper.servers import parse_connect_string
from tests.waiting import WAIT_SECONDS
from tools.lab import Lab, ZooKeeperServer
from tools.lab.cluster_view import until
from tools.lab.secured import USER, ZOOKEEPER_PASSWORD, SecuredFiles

pytestmark = [pytest.mark.lab, pytest.mark.timeout(120)]

SASL = sasl_login(USER, ZOOKEEPER_PASSWORD)
T = TypeVar("T")


class SecuredServer:
    """A server, and clients of both kinds."""

    def __init__(self, files: SecuredFiles, server: ZooKeeperServer) -> None:
        self._files = files
        self.server = server
        trusted = StoreSettings("ssl.truststore", files.authority.pem)
        settings = TlsSettings("ssl", StoreSettings("ssl.keystore"), trusted)
        self._tls = ReloadedContext(settings, client_context, print)

    def client(self, login: Login | None = SASL) -> ZooKeeperClient:
        connect = parse_connect_string(self._files.zookeeper_connect)
        return ZooKeeperClient(connect, 8000, ZooKeeperSecurity(self._tls, login, CREATOR_ACLS))

    async def with_kazoo(
        self, use: Callable[[KazooClient], T], password: str = ZOOKEEPER_PASSWORD
    ) -> T:
        """The result of a function that uses a client of kazoo."""

        def used() -> T:
            with self._kazoo(password) as kazoo:
                return use(kazoo)

        return await run_sync(used)

    @contextmanager
    def _kazoo(self, password: str) -> Iterator[KazooClient]:
        kazoo = self._files.kazoo(password)
        kazoo.start(timeout=8)
        try:
            yield kazoo
        finally:
            kazoo.stop()
            kazoo.close()


@pytest.fixture
async def secured(tmp_path: Path) -> AsyncIterator[SecuredServer]:
    files = SecuredFiles(tmp_path / "files")
    async with Lab(tmp_path / "lab") as lab:
        yield SecuredServer(files, await files.start_zookeeper(lab))


def created_by_kazoo(kazoo: KazooClient) -> list[ACL]:
    kazoo.create("/kazoo", acl=CREATOR_ALL_ACL + READ_ACL_UNSAFE)
    return list(kazoo.get_acls("/kazoo")[0])


async def test_znodes_belong_to_the_login_as_those_of_kazoo(secured: SecuredServer) -> None:
    async with secured.client() as client:
        assert (
            await client.write((Create("/brokers"), Create("/config"), Create("/config/users")))
            == OK
        )
    expected = await secured.with_kazoo(created_by_kazoo)
    assert ("sasl", USER) in [one.id for one in expected]
    found = await secured.with_kazoo(lambda kazoo: kazoo.get_acls("/brokers")[0])
    assert found == expected
    secret = await secured.with_kazoo(lambda kazoo: kazoo.get_acls("/config/users")[0])
    assert [(one.id.scheme, one.id.id) for one in secret] == [("sasl", USER)]


async def test_password_that_kazoo_cannot_use_is_rejected(secured: SecuredServer) -> None:
    with pytest.raises((AuthFailedError, KazooException, TimeoutError)):
        await secured.with_kazoo(created_by_kazoo, "wrong-secret")
    with pytest.raises(ZooKeeperUnavailable, match="rejects the login of kafka") as raised:
        async with secured.client(sasl_login(USER, "wrong-secret")):
            pass
    assert "wrong-secret" not in str(raised.value)


async def test_login_by_digest_is_the_one_that_kazoo_makes(secured: SecuredServer) -> None:
    async with secured.client(digest_login("refold", "secret")) as client:
        writes = (Create("/config"), Create("/config/users", b"salted"))
        assert await client.write(writes) == OK
    with pytest.raises(NoAuthError):
        await secured.with_kazoo(lambda kazoo: kazoo.get("/config/users"))

    def with_digest(kazoo: KazooClient) -> bytes:
        kazoo.add_auth("digest", "refold:secret")
        return bytes(kazoo.get("/config/users")[0])

    assert await secured.with_kazoo(with_digest) == b"salted"


async def test_session_logs_in_again_on_its_next_connection(secured: SecuredServer) -> None:
    async with secured.client() as client:
        assert await client.write((Create("/config"), Create("/config/users", b"1"))) == OK
        changed = client.changed
        await secured.server.restart()
        with anyio.fail_after(30):
            await changed.wait()

        async def read() -> Sequence[ExistingZnode | None]:
            with suppress(ZooKeeperUnavailable):
                return await client.read(("/config/users",))
            return ()

        (found,) = await until(read, WAIT_SECONDS, "the client has a session again")
    assert found is not None
    assert found.data == b"1"


async def test_znode_with_another_acl_is_left_alone_and_reported(
    secured: SecuredServer, caplog: pytest.LogCaptureFixture
) -> None:
    foreign = [make_digest_acl("other", "secret", all=True)]
    await secured.with_kazoo(lambda kazoo: kazoo.create("/foreign", b"theirs", acl=foreign))
    with caplog.at_level(logging.WARNING):
        async with secured.client() as client:
            assert await client.write((SetData("/foreign", b"ours", -1),)) == NO_AUTH
            assert await client.write((Create("/foreign/child"),)) == NO_AUTH
            assert await client.write((SetData("/foreign", b"ours", -1),)) == NO_AUTH
            with pytest.raises(ZooKeeperUnavailable, match="/foreign cannot be read"):
                await client.read(("/foreign",))
    messages = [one.getMessage() for one in caplog.records]
    assert [one.partition(" to ")[2].partition(" or ")[0] for one in messages] == [
        "/foreign",
        "/foreign/child",
    ]
    assert all(f"refold's login is {USER}" in one for one in messages)

    def as_owner(kazoo: KazooClient) -> tuple[bytes, list[ACL]]:
        kazoo.add_auth("digest", "other:secret")
        return kazoo.get("/foreign")[0], kazoo.get_acls("/foreign")[0]

    assert await secured.with_kazoo(as_owner) == (b"theirs", foreign)
