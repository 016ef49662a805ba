"""Kafka's own tools on a secured cluster, with --command-config: their output is the same with
refold as with a stock controller, for a super user and for a user with few ACLs."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.lab.archived_tools import ArchivedTools
from tests.lab.secured.secured_endpoint import (
    SecuredEndpoint,
    running_endpoint,
    write_client_properties,
)
from tests.lab.stock_tools.calls import targets
from tests.lab.stock_tools.comparable_output import comparable_lines
from tools.lab.cluster_view import until
from tools.lab.ports import HOST
from tools.lab.secured import BROKER_PASSWORD, CLIENT, CLIENT_PASSWORD, USER

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1200)]

ADMIN, ALICE = USER, CLIENT
PASSWORDS = {ADMIN: BROKER_PASSWORD, ALICE: CLIENT_PASSWORD}
CONFIG_OPTIONS = {
    "kafka-cluster": "--config",
    "kafka-leader-election": "--admin.config",
    "kafka-console-producer": "--producer.config",
    "kafka-console-consumer": "--consumer.config",
}
"""Other tools have --command-config."""
SECONDS_MAX = 45.0


CONNECTION = re.compile(r"Request Request\(.* is not authorized\.")
"""Kafka's text for some refused requests describes the connection, refold's does not
(docs/security.md#authorization)."""


def _sorted(output: str) -> str:
    """The lines of an output whose order is not fixed."""
    return "\n".join(sorted(output.splitlines()))


def _without_sizes(output: str) -> str:
    return re.sub(r'"(size|offsetLag)":\d+', r'"\1":0', output)


class Call(NamedTuple):
    """A call of a tool by a user. It is repeated until its output contains `shows`: brokers learn
    changes a little later."""

    user: str
    tool: str
    arguments: str
    shows: str
    given: str = ""
    shape: Callable[[str], str] = str


def topics(user: str, arguments: str, shows: str) -> Call:
    return Call(user, "kafka-topics", arguments, shows)


def configs(user: str, arguments: str, shows: str) -> Call:
    return Call(user, "kafka-configs", arguments, shows)


def reassign(user: str, arguments: str, shows: str) -> Call:
    return Call(user, "kafka-reassign-partitions", arguments, shows)


OF_ALICE = "--topic alice- --resource-pattern-type prefixed"
DENIED = "AuthorizationException"
RECORDS = "a\nb\nc\n"
FILES = {"move.json": targets(("orders", 0, [2, 1]), ("orders", 1, [1, 2]))}

CALLS = (
    # The super user creates what follows.
    topics(ADMIN, "--create --topic orders --replica-assignment 1:2,2:1", "Created topic orders"),
    topics(ADMIN, "--describe --topic orders", "Isr: 2,1"),
    topics(ADMIN, "--create --topic orders --partitions 1", "already exists"),
    # A user without ACLs.
    topics(ALICE, "--list", "exit status 0"),
    topics(ALICE, "--create --topic alice-1 --partitions 1", DENIED),
    topics(ALICE, "--delete --topic orders", "does not exist as expected"),
    reassign(ALICE, "--list", DENIED),
    reassign(ALICE, "--execute --reassignment-json-file {folder}/move.json", "Exception"),
    Call(
        ALICE,
        "kafka-leader-election",
        "--election-type preferred --all-topic-partitions",
        "Exception",
    ),
    configs(
        ALICE,
        "--alter --entity-type topics --entity-name orders --add-config retention.ms=1",
        DENIED,
    ),
    configs(
        ALICE,
        "--alter --entity-type users --entity-name carol --add-config SCRAM-SHA-512=[password=x]",
        DENIED,
    ),
    Call(ALICE, "kafka-acls", "--list", DENIED),
    Call(ALICE, "kafka-features", "describe", "exit status"),
    # The same user with ACLs.
    Call(
        ADMIN,
        "kafka-acls",
        f"--add --force --allow-principal User:{ALICE} --operation Create --operation Alter "
        f"--operation Delete --operation Describe --operation DescribeConfigs {OF_ALICE}",
        "(principal=User:alice, host=*, operation=ALTER, permissionType=ALLOW)",
        shape=_sorted,
    ),
    Call(ADMIN, "kafka-acls", "--list", "name=alice-, patternType=PREFIXED", shape=_sorted),
    topics(ALICE, "--create --topic alice-1 --replica-assignment 1:2", "Created topic alice-1"),
    topics(ALICE, "--describe --topic alice-1", "Isr: 1,2"),
    topics(ALICE, "--list", "alice-1"),
    topics(
        ALICE,
        "--alter --topic alice-1 --partitions 2 --replica-assignment 1:2,2:1",
        "exit status 0",
    ),
    topics(ALICE, "--create --topic bobs --partitions 1", DENIED),
    topics(ALICE, "--describe --topic alice-1", "Partition: 1"),
    topics(ALICE, "--delete --topic alice-1", "exit status 0"),
    Call(ADMIN, "kafka-acls", f"--remove --force {OF_ALICE}", "exit status 0"),
    # All tools, as the super user.
    Call(ADMIN, "kafka-cluster", "cluster-id", "Cluster ID"),
    Call(ADMIN, "kafka-features", "describe", "exit status 0"),
    topics(
        ADMIN,
        "--alter --topic orders --partitions 3 --replica-assignment 1:2,2:1,1:2",
        "exit status 0",
    ),
    topics(ADMIN, "--describe --topic orders", "Partition: 2"),
    configs(
        ADMIN,
        "--alter --entity-type topics --entity-name orders --add-config retention.ms=100000000",
        "Completed updating",
    ),
    configs(ADMIN, "--describe --entity-type topics --entity-name orders", "retention.ms"),
    configs(
        ADMIN,
        "--alter --entity-type users --entity-name carol --add-config "
        "SCRAM-SHA-512=[iterations=4096,password=secret]",
        "Completed updating",
    ),
    configs(ADMIN, "--describe --entity-type users --entity-name carol", "iterations=4096"),
    configs(
        ADMIN,
        "--alter --entity-type users --entity-name carol --delete-config SCRAM-SHA-512",
        "Completed updating",
    ),
    Call(ADMIN, "kafka-console-producer", "--topic orders", "exit status 0", given=RECORDS),
    Call(
        ADMIN,
        "kafka-console-consumer",
        "--topic orders --from-beginning --max-messages 3 --group readers",
        "Processed a total of 3 messages",
        shape=_sorted,
    ),
    reassign(
        ADMIN,
        "--execute --reassignment-json-file {folder}/move.json",
        "Successfully started partition reassignments",
    ),
    reassign(
        ADMIN,
        "--verify --preserve-throttles --reassignment-json-file {folder}/move.json",
        "Reassignment of partition orders-1 is completed",
    ),
    reassign(ADMIN, "--list", "No partition reassignments found"),
    Call(
        ADMIN,
        "kafka-leader-election",
        "--election-type preferred --topic orders --partition 0",
        "exit status 0",
    ),
    topics(ADMIN, "--describe --topic orders", "Leader: 2"),
    Call(
        ADMIN,
        "kafka-log-dirs",
        "--describe --broker-list 1 --topic-list orders",
        "orders-2",
        shape=_without_sizes,
    ),
    topics(ADMIN, "--delete --topic orders", "exit status 0"),
    topics(ADMIN, "--delete --topic __consumer_offsets", "exit status"),
    Call(ADMIN, "kafka-topics", "--list --exclude-internal", "exit status 0"),
)


class SecuredTools:
    """Kafka's tools, with a file of client settings for each user."""

    def __init__(self, secured: SecuredEndpoint, folder: Path) -> None:
        folder.mkdir()
        self._secured = secured
        self._folder = folder
        self._tools = ArchivedTools(secured.lab.kafka, folder)
        self.unexpected: list[str] = []
        """The outputs that do not show what they should."""
        self._brokers = ",".join(one.connect for one in secured.lab.brokers)
        for name, content in FILES.items():
            (folder / name).write_text(content)
        for user, password in PASSWORDS.items():
            write_client_properties(folder / f"{user}.properties", secured, user, password)

    async def warm_up(self) -> None:
        """Tools start faster afterwards."""
        config = str(self._folder / f"{ADMIN}.properties")
        await self._tools.warm_up(self._brokers, "--command-config", config)

    async def outputs(self) -> list[str]:
        """The output of each call, without what differs between runs."""
        return [await self._output(call) for call in CALLS]

    async def _output(self, call: Call) -> str:
        option = CONFIG_OPTIONS.get(call.tool, "--command-config")
        arguments = call.arguments.format_map({"folder": self._folder}).split()
        client = (
            *("--bootstrap-server", self._brokers),
            *(option, str(self._folder / f"{call.user}.properties")),
        )
        # The other tools have no command as the first argument.
        is_first = call.tool == "kafka-cluster"
        found: list[str] = []

        async def shows() -> bool:
            result = await self._tools.run(
                call.tool,
                *((*arguments, *client) if is_first else (*client, *arguments)),
                given=call.given,
            )
            text = call.shape(f"{result.output}\nstderr:\n{result.problems}")
            lines = comparable_lines(self._without_addresses(text))
            found[:] = [f"{call.user}: {call.tool} {call.arguments}", *lines]
            found.insert(1, f"exit status {result.status}")
            return call.shows in "\n".join([*found, text])

        try:
            await until(shows, SECONDS_MAX, call.shows)
        except TimeoutError as error:
            self.unexpected.append("\n".join([str(error), *found]))
        return "\n".join(found)

    def _without_addresses(self, text: str) -> str:
        for number, broker in enumerate(self._secured.lab.brokers, 1):
            text = re.sub(rf"{HOST}:{broker.port}\b", f"(broker {number})", text)
            text = text.replace(str(broker.port), f"(port of {number})")
        text = re.sub(rf"{HOST}:{self._secured.port}\b", "(refold)", text)
        return CONNECTION.sub("Cluster authorization failed.", text)


async def test_tools_work_on_a_secured_cluster_as_with_a_stock_controller(tmp_path: Path) -> None:
    offsets = {"offsets.topic.replication.factor": "2", "offsets.topic.num.partitions": "1"}
    async with running_endpoint(tmp_path, everywhere=offsets) as secured:
        tools = SecuredTools(secured, tmp_path / "tools")
        await tools.warm_up()
        with_refold = await tools.outputs()
        assert await secured.daemon.stop() == 0
        await secured.until_controller(1, 2)
        with_stock = await tools.outputs()
    assert not tools.unexpected, "\n\n".join(tools.unexpected)
    differing = [
        {"refold": ours, "stock": theirs}
        for ours, theirs in zip(with_refold, with_stock, strict=True)
        if ours != theirs
    ]
    assert not differing, json.dumps(differing, indent=1)
