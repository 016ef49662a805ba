"""The migration of a cluster of the lab to KRaft, and back, as Kafka's documentation describes it
(docs/migration.md)."""

from contextlib import suppress
from typing import Any, Self

from controller.core import znodes
from tools.lab.broker import KafkaBroker
from tools.lab.cluster_view import ClusterReader, until
from tools.lab.kraft import KraftController
from tools.lab.lab import Lab

_SECONDS_MAX = 120.0
_PROTOCOLS = "listener.security.protocol.map"


class LabMigration:
    """The brokers of a lab and the KRaft controller of their migration."""

    def __init__(self, lab: Lab, view: ClusterReader, controller: KraftController) -> None:
        self._lab = lab
        self._view = view
        self.controller = controller

    @classmethod
    async def prepared(cls, lab: Lab, view: ClusterReader, chroot: str = "") -> Self:
        """The migration of the cluster in this chroot, with a controller that is formatted and not
        started."""
        controller = await lab.kraft_controller(chroot)
        await controller.format((await view.content(znodes.CLUSTER_ID))["id"])
        return cls(lab, view, controller)

    async def elect_again(self, times: int) -> None:
        """Restart the KRaft controller: each time its epoch is raised."""
        for _ in range(times):
            await self.controller.restart()

    async def enter(self, *, waits: bool = True) -> None:
        """Restart the brokers in migration mode, one by one. The KRaft controller then copies the
        metadata, and from then on writes every change to ZooKeeper, too; `waits` until it does."""
        for broker in self._lab.brokers:
            await self.enter_by(broker)
        if waits:
            await self.until_dual_write()

    async def enter_by(self, broker: KafkaBroker) -> None:
        """Restart one broker in migration mode, unless it is."""
        if not broker.config.items() >= self.controller.broker_config.items():
            broker.config |= self.controller.broker_config
            broker.config[_PROTOCOLS] += ",CONTROLLER:PLAINTEXT"
            await broker.restart()

    async def until_dual_write(self) -> None:
        """Wait until the metadata is copied, and the KRaft controller has the role."""

        async def copied() -> bool:
            state: dict[str, Any] | None = await self._view.content(znodes.MIGRATION)
            kraft = await self._view.content(znodes.CONTROLLER) or {}
            return (
                state is not None
                and state["kraft_metadata_offset"] > 0
                and kraft.get("kraftControllerEpoch", -1) > 0
            )

        await until(copied, _SECONDS_MAX, "the metadata is copied to KRaft")

    async def roll_back(self, *, keeps_migration: bool = False) -> None:
        """Stop the KRaft controller, delete its znodes, and restart the brokers in ZooKeeper mode,
        one by one. With `keeps_migration` /migration is forgotten, as before the documentation of
        3.9."""
        await self.controller.stop()
        await self._view.delete(znodes.CONTROLLER)
        if not keeps_migration:
            await self._view.delete(znodes.MIGRATION)
        await self.restart_brokers()

    async def restart_brokers(self) -> None:
        """The end of a rollback: restart the brokers in ZooKeeper mode, one by one."""
        await self._until_known()
        for broker in self._lab.brokers:
            for key in self.controller.broker_config:
                with suppress(KeyError):
                    del broker.config[key]
            protocols = broker.config[_PROTOCOLS].replace(",CONTROLLER:PLAINTEXT", "")
            broker.config[_PROTOCOLS] = protocols
            await broker.restart()

    async def _until_known(self) -> None:
        """Wait until all brokers know the broker that was elected: a broker that knows only the
        stopped KRaft controller does not shut down for five minutes."""

        async def known() -> bool:
            elected = await self._view.controller()
            epoch = await self._view.controller_epoch()
            sent = f"sent by controller {elected} epoch {epoch} "
            logs = [one.folder / "state-change.log" for one in self._lab.brokers]
            return elected is not None and all(sent in one.read_text() for one in logs)

        await until(known, _SECONDS_MAX, "all brokers know the controller")
