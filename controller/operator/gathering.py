"""Gathers the facts that `refold check` judges."""

from anyio.to_thread import run_sync

from controller.operator.cluster import read_zookeeper
from controller.operator.facts import Facts
from controller.operator.probes import (
    probe_brokers,
    probe_clock,
    probe_disk,
    probe_listeners,
    probe_servers,
)
from controller.settings.settings import Settings


async def gather(settings: Settings) -> Facts:
    """Look at everything once. Never raises for what is wrong with it."""
    zookeeper = await read_zookeeper(settings)
    servers = await probe_servers(settings.zookeeper.servers)
    cluster = zookeeper.cluster
    # aiozk, which reads the clock, connects only to servers that tell their version.
    can_read_clock = (
        cluster is not None and cluster.chroot_exists and any(one.version for one in servers)
    )
    return Facts(
        zookeeper=zookeeper,
        servers=servers,
        brokers=await probe_brokers(settings, cluster.brokers if cluster else ()),
        disk=await run_sync(probe_disk, settings.log_dir),
        listening_fault=await run_sync(probe_listeners, settings.listeners),
        clock_ahead_ms=await probe_clock(settings.zookeeper) if can_read_clock else None,
    )
