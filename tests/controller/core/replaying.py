"""A replay of what a simulated cluster has done."""

from msgspec import structs

from controller.core.canonical import decode_event, encode_command, encode_event, encode_reason
from controller.core.commands import Issued
from controller.core.fold import Fold
from tests.controller.core.cluster import Cluster


def assert_replays(cluster: Cluster) -> None:
    """A new fold issues the same commands, byte for byte, for the events as decoded from a log."""
    fold = Fold(cluster.fold.controller.configuration)
    for recorded, before in cluster.history:
        event = decode_event(encode_event(recorded.event))
        slices = fold.apply(structs.replace(recorded, event=event))
        now = [encoded(one) for commands in slices for one in commands]
        assert now == [encoded(one) for one in before], recorded


def encoded(issued: Issued) -> tuple[object, ...]:
    """A command as the log stores it."""
    body, reason = encode_command(issued.command), encode_reason(issued.reason)
    return issued.id, issued.term, body, reason
