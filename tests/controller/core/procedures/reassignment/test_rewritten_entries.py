"""An entry that a client rewrites while the controller removes it is not lost."""

from controller.core.commands import Issued, Notice
from controller.core.operations import CreateSequential
from tests.controller.core.cluster import Cluster
from tests.controller.core.procedures.reassignment.interrupting import (
    cancel_quietly,
    remove_cancel_quietly,
    submit,
    submit_quietly,
    two_partitions,
)
from tests.controller.core.procedures.reassignment.reassigning import T0, assignment


def test_entry_that_a_client_rewrites_while_a_cancellation_drops_it_begins() -> None:
    cluster = two_partitions((1, 2), (1, 2), Cluster)

    def cancel_and_rewrite() -> None:
        cancel_quietly(cluster)
        remove_cancel_quietly(cluster)
        cluster.once(_logs_drop, lambda: submit_quietly(cluster, {T0: [4]}))

    cluster.once(
        _requests,
        cancel_and_rewrite,
    )
    submit(cluster, {T0: [3, 4]})
    assert assignment(cluster) == "4,1,2 adding 4 removing 1,2"


def _logs_drop(issued: Issued) -> bool:
    command = issued.command
    return isinstance(command, Notice) and command.code == "reassignment_cancelled"


def _requests(issued: Issued) -> bool:
    operations = getattr(issued.command, "operations", ())
    return any(isinstance(one, CreateSequential) for one in operations)
