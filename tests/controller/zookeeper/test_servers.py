"""zookeeper.connect as operators write it."""

import pytest

from controller.zookeeper.errors import BadConnectString
from controller.zookeeper.servers import ServerAddress, parse_connect_string


@pytest.mark.parametrize(
    ("text", "servers", "chroot"),
    [
        ("zk1:2181", ["zk1:2181"], ""),
        ("zk1", ["zk1:2181"], ""),
        ("zk1:2181,zk2:2182, zk3/kafka/one", ["zk1:2181", "zk2:2182", "zk3:2181"], "/kafka/one"),
        ("zk1:1, ,zk2:65535,/kafka", ["zk1:1", "zk2:65535"], "/kafka"),
        ("zk1:2181/", ["zk1:2181"], ""),
        ("zk1:2181/kafka/", ["zk1:2181"], "/kafka"),
        ("[::1]:2181,[fe80::1]", ["[::1]:2181", "[fe80::1]:2181"], ""),
    ],
)
def test_connect_string_is_split_into_servers_and_chroot(
    text: str, servers: list[str], chroot: str
) -> None:
    connect = parse_connect_string(text)
    assert [str(one) for one in connect.servers] == servers
    assert connect.chroot == chroot


def test_brackets_of_an_address_are_removed() -> None:
    assert parse_connect_string("[::1]:2181").servers == (ServerAddress("::1", 2181),)


@pytest.mark.parametrize(
    "text",
    ["", "/kafka", "zk1:x", "zk1:0", "zk1:65536", ":2181", "zk1/a//b", "zk1/a,zk2/a", "zk1:²"],
)
def test_invalid_connect_string_is_reported(text: str) -> None:
    with pytest.raises(BadConnectString, match=r"HOST:PORT|chroot"):
        parse_connect_string(text)
