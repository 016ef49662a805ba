"""The migration of a cluster of the lab to KRaft, and back, as Kafka's documentation describes it
(docs/migration.md)."""

from contextlib import suppress
from typing import Any, Self

from tools.lab.cluster_view import ClusterView, until
from tools.lab.kraft import KraftController
from tools.lab.lab import Lab

_SECONDS_MAX = 120.0
_PROTOCOLS = "listener.security.protocol.map"


class Migration:
    """The brokers of a lab and the KRaft controller of their migration."""

    def __init__(self, lab: Lab, view: ClusterView, controller: KraftController) -> None:
        self._lab = lab
        self._view = view
        self.controller = controller

    @classmethod
    async def prepared(cls, lab: Lab, view: ClusterView, chroot: str = "") -> Self:
        """The migration of the cluster in this chroot, with a controller that is formatted and not
        started."""
        controller = await lab.kraft_controller(chroot)
        await controller.format((await view.content("/cluster/id"))["id"])
        return cls(lab, view, controller)

    async def elect_again(self, times: int) -> None:
        """Restart the KRaft controller: each time its epoch is raised."""
        for _ in range(times):
            await self.controller.restart()

    async def enter(self) -> None:
        """Restart the brokers in migration mode, one by one. The KRaft controller then copies the
        metadata, and from then on writes every change to ZooKeeper, too."""
        for broker in self._lab.brokers:
            broker.config |= self.controller.broker_config
            broker.config[_PROTOCOLS] += ",CONTROLLER:PLAINTEXT"
            await broker.restart()
        await self.until_dual_write()

    async def until_dual_write(self) -> None:
        """Wait until the metadata is copied, and the KRaft controller has the role."""

        async def copied() -> bool:
            state: dict[str, Any] | None = await self._view.content("/migration")
            kraft = await self._view.content("/controller") or {}
            return (
                state is not None
                and state["kraft_metadata_offset"] > 0
                and kraft.get("kraftControllerEpoch", -1) > 0
            )

        await until(copied, _SECONDS_MAX, "the metadata is copied to KRaft")

    async def roll_back(self, *, keeps_migration: bool = False) -> None:
        """Stop the KRaft controller, delete its znodes, and restart the brokers in ZooKeeper mode.
        With `keeps_migration` /migration is forgotten, as before the documentation of 3.9."""
        await self.controller.stop()
        await self._view.delete("/controller")
        if not keeps_migration:
            await self._view.delete("/migration")
        await self.restart_without()

    async def restart_without(self) -> None:
        """Restart the brokers without the settings of the migration, one by one."""
        for broker in self._lab.brokers:
            for key in self.controller.broker_config:
                with suppress(KeyError):
                    del broker.config[key]
            protocols = broker.config[_PROTOCOLS].replace(",CONTROLLER:PLAINTEXT", "")
            broker.config[_PROTOCOLS] = protocols
            await broker.restart()
