"""Admin clients that know the address of refold only, on a secured cluster: refold answers Metadata
and DescribeCluster as a stock broker does, by the rights of the client."""

import asyncio
import re
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import NewTopic as ConfluentTopic
from kafka import KafkaAdminClient

from tests.controller.daemon.lab_cluster import timed
from tests.lab.archived_tools import ArchivedTools
from tests.lab.secured.secured_cluster import OWN_ID
from tests.lab.secured.secured_endpoint import (
    SecuredEndpoint,
    ask,
    create_topic,
    schema,
    write_client_properties,
)
from tools.lab.ports import HOST
from tools.lab.secured import BROKER_PASSWORD, CLIENT, CLIENT_PASSWORD, LISTENER, USER

pytestmark = [pytest.mark.lab, pytest.mark.timeout(400)]

METADATA, DESCRIBE_CLUSTER = 3, 60
WANTS = {
    "include_topic_authorized_operations": True,
    "include_cluster_authorized_operations": True,
}


def requests() -> dict[str, tuple[int, int, Any]]:
    found: dict[str, tuple[int, int, Any]] = {}
    for version in (0, 1, 4, 5, 7, 8, 9, 11, 12):
        metadata = schema(METADATA, version)
        wants = {
            name: True for name in WANTS if name in metadata.MetadataRequest.__dataclass_fields__
        }
        by_id = {"topic_id": None} if version >= 10 else {}
        create = {"allow_auto_topic_creation": False} if version >= 4 else {}
        names = ("orders", "secret", "nowhere")
        topics = tuple(metadata.MetadataRequestTopic(name=name, **by_id) for name in names)
        everything = () if version == 0 else None
        for what, asked in (("named", topics), ("all", everything)):
            if version >= 4 or what == "all":
                request = metadata.MetadataRequest(topics=asked, **wants, **create)
                found[f"Metadata {version} {what}"] = (METADATA, version, request)
    for version in (0, 1):
        cluster = schema(DESCRIBE_CLUSTER, version)
        request = cluster.DescribeClusterRequest(include_cluster_authorized_operations=True)
        found[f"DescribeCluster {version}"] = (DESCRIBE_CLUSTER, version, request)
    for kind in (2, 9):
        request = schema(DESCRIBE_CLUSTER, 1).DescribeClusterRequest(
            include_cluster_authorized_operations=False, endpoint_type=kind
        )
        found[f"DescribeCluster of {kind}"] = (DESCRIBE_CLUSTER, 1, request)
    return found


async def answers(secured: SecuredEndpoint, port: int, user: str, password: str) -> dict[str, str]:
    """The response to each request, with brokers and topics in a fixed order."""
    connection = await secured.connect(port, user, password)
    found = {}
    try:
        for name, call in requests().items():
            answer = await ask(connection, *call)
            found[name] = repr(
                {
                    field: sorted(value, key=repr) if isinstance(value, tuple) else value
                    for field in answer.__dataclass_fields__
                    if not field.startswith("__")
                    for value in [getattr(answer, field)]
                }
            )
    finally:
        connection.close()
    return found


async def test_metadata_and_describe_cluster_are_those_of_a_broker(
    secured: SecuredEndpoint,
) -> None:
    broker = secured.lab.brokers[0].port
    for name in ("orders", "secret"):
        await create_topic(secured, name, (1, 2))

    async def compare(user: str, password: str) -> dict[str, str]:
        found: dict[str, str] = {}

        different: dict[str, tuple[str, str]] = {}

        async def are_equal() -> bool:
            expected = await answers(secured, broker, user, password)
            found.clear()
            found.update(await answers(secured, secured.port, user, password))
            different.clear()
            different.update(
                {name: (one, found[name]) for name, one in expected.items() if one != found[name]}
            )
            return not different

        try:
            await timed(are_equal, f"refold answers {user} as a broker")
        except TimeoutError:
            assert different == {}
        return found

    everything = await compare(USER, BROKER_PASSWORD)
    assert "secret" in everything["Metadata 12 all"]
    assert "orders" not in (await compare(CLIENT, CLIENT_PASSWORD))["Metadata 12 all"]
    await secured.set_acls("Topic", "orders", "Describe", "Alter")
    await secured.set_acls("Cluster", "kafka-cluster", "Describe", "Create")

    async def is_seen() -> bool:
        found = await answers(secured, secured.port, CLIENT, CLIENT_PASSWORD)
        return "orders" in found["Metadata 12 all"]

    await timed(is_seen, "refold has the ACLs")
    with_rights = await compare(CLIENT, CLIENT_PASSWORD)
    assert "secret" not in with_rights["Metadata 12 all"]
    # The ISR without a broker that is gone.
    secured.lab.brokers[1].kill()
    await compare(CLIENT, CLIENT_PASSWORD)


async def test_admin_clients_work_with_refold_as_their_only_bootstrap_server(
    secured: SecuredEndpoint,
) -> None:
    known = secured.settings.security.brokers.listeners[LISTENER].arguments()
    login = {
        **known,
        "bootstrap_servers": f"{HOST}:{secured.port}",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": USER,
        "sasl_plain_password": BROKER_PASSWORD,
    }
    client = AIOKafkaAdminClient(**login)
    await client.start()
    try:
        made = await client.create_topics([NewTopic("aio", 2, 2)])
        assert made.topic_errors[0][:2] == ("aio", 0)
        (described,) = await client.describe_topics(["aio"])
        assert (described["error_code"], len(described["partitions"])) == (0, 2)
        cluster = await client.describe_cluster()
        assert {one["node_id"] for one in cluster["brokers"]} == {1, 2, OWN_ID}
        assert "aio" in await client.list_topics()
        deleted = await client.delete_topics(["aio"])
        assert deleted.topic_error_codes == [("aio", 0)]
    finally:
        await client.close()
    other = await asyncio.to_thread(KafkaAdminClient, **login)
    with closing(other):
        await asyncio.to_thread(other.create_topics, {"kp": {"assignments": {0: [1, 2]}}})
        found = await asyncio.to_thread(other.describe_cluster)
        assert found["controller_id"] == OWN_ID
        (topic,) = await asyncio.to_thread(other.describe_topics, ["kp"])
        assert topic["name"] == "kp"


async def test_java_client_works_with_refold_as_its_only_bootstrap_server(
    secured: SecuredEndpoint, tmp_path: Path
) -> None:
    login = tmp_path / "client.properties"
    write_client_properties(login, secured, USER, BROKER_PASSWORD)
    tools = ArchivedTools(secured.lab.kafka, tmp_path)

    async def topics(*arguments: str) -> str:
        bootstrap = ("--bootstrap-server", f"{HOST}:{secured.port}", "--command-config", str(login))
        status, output, problems = await tools.run("kafka-topics", *bootstrap, *arguments)
        assert status == 0, problems
        return output

    await topics("--create", "--topic", "java", "--partitions", "2", "--replication-factor", "2")
    described = await topics("--describe", "--topic", "java")
    assert "PartitionCount: 2" in described
    assert set(re.findall(r"Leader: (\S+)", described)) <= {"1", "2"}
    assert (await topics("--list")).split() == ["java"]
    await topics("--delete", "--topic", "java")
    assert "java" not in await topics("--list")


async def test_librdkafka_works_with_refold_as_its_only_bootstrap_server(
    secured: SecuredEndpoint,
) -> None:
    client = AdminClient(
        {
            "bootstrap.servers": f"{HOST}:{secured.port}",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": BROKER_PASSWORD,
            "ssl.ca.location": str(secured.files.authority.pem),
        }
    )

    def administer() -> None:
        (made,) = client.create_topics([ConfluentTopic("rdk", 2, 2)]).values()
        made.result(30)
        cluster = client.describe_cluster().result(30)
        assert {one.id for one in cluster.nodes} == {1, 2, OWN_ID}
        assert cluster.controller.id == OWN_ID
        topic = client.list_topics("rdk", timeout=30).topics["rdk"]
        assert (topic.error, len(topic.partitions)) == (None, 2)
        (deleted,) = client.delete_topics(["rdk"]).values()
        deleted.result(30)

    await asyncio.to_thread(administer)
