"""A real ZooKeeper and real Kafka brokers on this machine, for tests, the demo and users.

    async with Lab(folder) as lab:
        zookeeper = await lab.start_zookeeper()
        brokers = await lab.start_brokers(3, inter_broker_protocol="2.6")
        brokers[0].kill()
        await brokers[0].start()

Everything listens on free loopback ports. All servers end with the block, or when the process ends,
by whatever signal.
"""

from tools.lab.broker import KafkaBroker
from tools.lab.lab import Lab
from tools.lab.server import LabError, Server
from tools.lab.zookeeper import ZooKeeperServer

__all__ = ["KafkaBroker", "Lab", "LabError", "Server", "ZooKeeperServer"]
