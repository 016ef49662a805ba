"""What others see of the daemon's process, from its start on."""

from controller.daemon.metrics_endpoint import Probes
from controller.daemon.reloading import SettingsReloader
from controller.daemon.service_manager import ServiceManager
from controller.daemon.status import StatusSource
from controller.settings.settings import Settings, Sources


class ManagementInterface:
    """What others see of this process, from its start on: the status, the probes, the service
    manager."""

    def __init__(self, settings: Settings, sources: Sources) -> None:
        self.status = StatusSource(settings.broker_id, str(settings.zookeeper))
        self.probes = Probes()
        self.probes.unready = self._unready
        self.service_manager = ServiceManager()
        self.reloader = SettingsReloader(sources, self.service_manager)

    def line(self) -> str:
        """The role, for `systemctl status`."""
        now = self.status.status()
        return f"{now.role}, term {now.term}" if now.term else now.role

    def _unready(self) -> str:
        """Why the daemon could not take or keep the role now; empty if it could."""
        now = self.status.status()
        if self.status.parts is None or now.role == "stopping":
            return now.role
        if now.zookeeper is None or not now.zookeeper.is_connected:
            return "there is no connection to ZooKeeper"
        return "" if self.status.is_prepared else "the standby reads the cluster"
