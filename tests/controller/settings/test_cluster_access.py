"""Settings that commands without a daemon read from a file: ZooKeeper and the brokers."""

from pathlib import Path

import pytest

from controller.brokers.security import PLAIN
from controller.core.values import Endpoint
from controller.settings.errors import SettingsError
from controller.settings.settings import access_of

INTERNAL = Endpoint("INTERNAL", "SASL_PLAINTEXT", "b1", 9092)
EXTERNAL = Endpoint("EXTERNAL", "PLAINTEXT", "b1", 9093)
SECURED = """zookeeper.connect=zk1:2181
listener.security.protocol.map=INTERNAL:SASL_PLAINTEXT,EXTERNAL:PLAINTEXT
inter.broker.listener.name=INTERNAL
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.internal.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";
"""


def file_with(folder: Path, content: str) -> Path:
    file = folder / "server.properties"
    file.write_text(content)
    return file


def test_brokers_are_asked_on_the_inter_broker_listener_of_the_file(tmp_path: Path) -> None:
    access = access_of([], {}, file_with(tmp_path, SECURED))
    assert str(access.zookeeper.connect.servers[0]) == "zk1:2181"
    assert access.brokers.reachable([EXTERNAL, INTERNAL]) == INTERNAL
    assert access.brokers.arguments(INTERNAL)["sasl_plain_username"] == "u"
    assert access.brokers.login() == access.brokers.arguments(INTERNAL)
    assert access.brokers.endpoint("b2", 1) == Endpoint("INTERNAL", "SASL_PLAINTEXT", "b2", 1)


def test_brokers_are_asked_in_plain_text_without_a_secured_listener(tmp_path: Path) -> None:
    access = access_of([], {}, file_with(tmp_path, "zookeeper.connect=zk1:2181\n"))
    assert access.brokers == PLAIN
    assert access.brokers.reachable([INTERNAL, EXTERNAL]) == EXTERNAL
    assert access.brokers.reachable([INTERNAL]) is None
    assert access.brokers.login() == {}


def test_login_that_refold_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="GSSAPI"):
        access_of([], {}, file_with(tmp_path, SECURED.replace("protocol=PLAIN", "protocol=GSSAPI")))
