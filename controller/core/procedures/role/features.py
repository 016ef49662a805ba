"""The /feature znode at failover (maybeSetupFeatureVersioning, KB 11.9.1)."""

from controller.core import znodes
from controller.core.commands import Reason
from controller.core.controller import Controller
from controller.core.errors import ZnodeError
from controller.core.operations import OK, Create, SetData
from controller.core.values import ANY_VERSION
from controller.core.zookeeper_io import read_znodes, write

_RULE = "failover: feature versioning"


async def set_up_features(controller: Controller) -> None:
    """Enabled from IBP 2.7-IV0 on, disabled and empty below; written only where it differs.

    Kafka writes without a guard; here the controller epoch guards it as every other write.
    """
    found = await read_znodes(controller, [znodes.FEATURE], _RULE)
    if found.errors[0] != OK:
        create = Create(znodes.FEATURE, znodes.write_features(_wanted(controller, None)))
        await write(controller, [create], Reason(_RULE))
        return
    try:
        present = znodes.read_features(found.data[0])
    except ZnodeError as error:
        controller.notice("error", "unreadable_znode", znodes.FEATURE, f"{error}; left as it is")
        return
    wanted = _wanted(controller, present)
    if wanted != present:
        change = SetData(znodes.FEATURE, znodes.write_features(wanted), ANY_VERSION)
        await write(controller, [change], Reason(_RULE))


def _wanted(controller: Controller, present: znodes.Features | None) -> znodes.Features:
    version = 2 if controller.protocol.at_least("3.3-IV0") else 1
    if not controller.protocol.has_feature_versioning:
        return znodes.Features(False, {}, version)
    levels = present.levels if present is not None and present.enabled else {}
    return znodes.Features(True, levels, version)
