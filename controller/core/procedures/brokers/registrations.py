"""Reading who is registered under /brokers/ids."""

from controller.core import znodes
from controller.core.controller import Controller
from controller.core.errors import ZnodeError
from controller.core.operations import OK
from controller.core.values import Broker
from controller.core.zookeeper_io import read_children, read_znodes


async def read_brokers(controller: Controller, rule: str) -> list[Broker]:
    """All registered brokers by id (getAllBrokerAndEpochsInCluster, KB 3.3.1); watches the list.

    A child that is no broker id, an unreadable registration, and one under the daemon's own id
    are told and left out; one that vanished in between is left out.
    """
    children = await read_children(controller, znodes.BROKER_IDS, rule, watch=True)
    ids = []
    for child in children.children:
        if not znodes.is_broker_id(child):
            _tell(controller, f"{znodes.BROKER_IDS}/{child}", f"{child[:80]!r} is no broker id")
        elif int(child) == controller.configuration.id_without_replicas:
            _tell(
                controller,
                znodes.broker_path(int(child)),
                "a broker uses the daemon's own broker.id: give the daemon another one",
            )
        else:
            ids.append(int(child))
    return await read_registrations(controller, sorted(ids), rule)


async def read_registrations(controller: Controller, ids: list[int], rule: str) -> list[Broker]:
    """The registrations of these brokers, those that exist and can be read; watches each."""
    paths = [znodes.broker_path(id) for id in ids]
    found = await read_znodes(controller, paths, rule, watch=True)
    brokers = []
    for id, error, data, czxid in zip(ids, found.errors, found.data, found.czxids, strict=True):
        if error != OK:
            continue
        try:
            brokers.append(znodes.read_broker(id, data, czxid))
            _compare_protocols(controller, id, data)
        except ZnodeError as unreadable:
            _tell(controller, znodes.broker_path(id), str(unreadable))
    return brokers


def _compare_protocols(controller: Controller, id: int, data: bytes | None) -> None:
    """Tell of a new broker whose registration contradicts our protocol version."""
    side = controller.protocol.contradicted_by(znodes.registration_version(data))
    if not side or id in controller.context.brokers:
        return
    controller.notice(
        "error",
        "protocol_mismatch",
        znodes.broker_path(id),
        f"broker {id} runs with an inter.broker.protocol.version {side}, refold with "
        f"{controller.protocol.name}: set the one that the brokers have",
    )


def _tell(controller: Controller, path: str, text: str) -> None:
    controller.notice("error", "unreadable_znode", path, f"{text}; skipped")
