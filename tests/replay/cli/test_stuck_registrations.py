"""When `refold health --zookeeper` counts a registration as stuck."""

import pytest
from msgspec import structs

from controller.core.values import Broker, Endpoint
from replay.cli.stuck_registrations import RegistrationProbes
from replay.cluster_view.views import ClusterView, ControllerView
from replay.cluster_view.waiting import stuck_registrations
from tools.lab.ports import HOST, free_port

EMPTY = ClusterView(
    seq=0,
    time="",
    log="world-backed",
    controller=ControllerView("observed", -1, 0, 0),
    brokers=[],
    topics=[],
    reassignments=[],
    deletions=[],
    replica_deletions=[],
)
SESSION = 0x1F


@pytest.fixture
def unserved_broker() -> Broker:
    """A registered broker that no process serves."""
    return Broker(1, 40, (Endpoint("PLAINTEXT", "PLAINTEXT", HOST, free_port()),))


def test_registration_without_a_process_is_stuck_after_the_patience(
    unserved_broker: Broker,
) -> None:
    probes = RegistrationProbes(20, None)
    assert probes.probe(EMPTY, [unserved_broker], {1: SESSION}, 100.0) == ([], 20)
    assert probes.probe(EMPTY, [unserved_broker], {1: SESSION}, 112.0) == ([], 8)
    stuck, again_s = probes.probe(EMPTY, [unserved_broker], {1: SESSION}, 120.0)
    assert again_s is None
    [sentence] = stuck_registrations(structs.replace(EMPTY, stuck_registrations=stuck))
    address = f"{HOST}:{unserved_broker.endpoints[0].port}"
    assert sentence == (
        f"/brokers/ids/1 is left: no process listens on {address}, and its owner, session 0x1f, "
        "is over or ends late (ZOOKEEPER-1740)."
    )


def test_broker_that_registers_again_is_probed_again(unserved_broker: Broker) -> None:
    probes = RegistrationProbes(20, None)
    probes.probe(EMPTY, [unserved_broker], {1: SESSION}, 100.0)
    registered = structs.replace(unserved_broker, epoch=50)
    assert probes.probe(EMPTY, [registered], {1: SESSION}, 130.0) == ([], 20)


def test_one_probe_is_never_enough(unserved_broker: Broker) -> None:
    probes = RegistrationProbes(0, None)
    assert probes.probe(EMPTY, [unserved_broker], {1: SESSION}, 100.0) == ([], 0)
    stuck, _ = probes.probe(EMPTY, [unserved_broker], {1: SESSION}, 100.0)
    assert [one.broker for one in stuck] == [1]


def test_broker_that_was_killed_and_is_not_registered_is_not_stuck(unserved_broker: Broker) -> None:
    probes = RegistrationProbes(0, None)
    probes.probe(EMPTY, [unserved_broker], {1: SESSION}, 100.0)
    assert probes.probe(EMPTY, [], {}, 101.0) == ([], None)
