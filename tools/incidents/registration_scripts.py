"""The script of the incident with stuck registrations. It begins as those in `scripts`."""

import asyncio

from controller.core import znodes
from tools.incidents.incident_cluster import IncidentCluster

TOPIC = "orders"
REGISTRATIONS = {"refold.registration.check.ms": "4000"}
_REGISTERS_S = 5.0
"""A broker has tried to register in its next session."""


async def stuck_registration(cluster: IncidentCluster) -> None:
    """A broker fails, and a registration of it is left. Then the session of the broker ends while
    it does not run; it finds the left registration, and does not register when that is deleted."""
    path, broker = znodes.broker_path(2), cluster.broker(2)
    content = await cluster.znodes.read(path)
    broker.kill()
    await cluster.until_registered(2, is_registered=False)
    await cluster.znodes.create(path, content)
    await cluster.until_logged("registration_left_over")
    await cluster.znodes.delete(path)
    await broker.start()
    await cluster.until_in_sync(TOPIC)
    broker.pause()
    await cluster.until_registered(2, is_registered=False)
    await cluster.znodes.create(path, content)
    broker.resume()
    await asyncio.sleep(_REGISTERS_S)
    await cluster.znodes.delete(path)
    await cluster.until_logged("broker_not_registered")
    await broker.restart()
    await cluster.until_in_sync(TOPIC)
