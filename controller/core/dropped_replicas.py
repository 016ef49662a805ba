"""What a change of target leaves of a reassignment that is under way: KIP-236's drop set, pure.

`assigned` is what the partition has now, `top` how many replicas it had before, `target` what is
wanted now (KB 14.6; docs/kip-236-design.md#the-drop-set).
"""

from controller.core.values import NO_LEADER, Assignment


def replicas_to_drop(
    assigned: tuple[int, ...],
    leader: int,
    isr: tuple[int, ...],
    top: int,
    target: tuple[int, ...],
    originals: tuple[int, ...],
) -> tuple[int, ...]:
    """The intermediate replicas that go at once: neither wanted now nor there before, and not
    among the first `top` of the leader, the others in sync and those out of sync.

    The leader is always among these, so it never goes.
    """
    out_of_sync = [one for one in assigned if one not in isr]
    first = () if leader == NO_LEADER else (leader,)
    existing = list(dict.fromkeys((*first, *isr, *out_of_sync)))
    kept = (*existing[:top], *target, *originals)
    return tuple(one for one in assigned if one not in kept)


def changed_assignment(
    assigned: tuple[int, ...],
    dropped: tuple[int, ...],
    target: tuple[int, ...],
    originals: tuple[int, ...],
) -> Assignment:
    """The assignment on the way from the originals to the new target.

    An intermediate replica that is kept is one that is added and removed: a stock controller that
    goes on with it takes the originals for the origin, as here.
    """
    kept = [one for one in assigned if one not in dropped]
    replicas = tuple(dict.fromkeys((*target, *kept)))
    return Assignment(
        replicas,
        tuple(one for one in replicas if one not in originals),
        tuple(one for one in replicas if one not in target),
    )
