"""A take-over of the controller role, from both sides, and terms of which no log has the role."""

from collections.abc import Sequence

from controller.core import znodes
from replay.why.explanations.finding import at
from replay.why.facts import RoleChanged


def replaced_by(elections: Sequence[RoleChanged], term: int) -> str:
    """A sentence about the controller that followed a term; "" if the log shows none."""
    followed = [one for one in elections if one.epoch > term]
    if not followed:
        return ""
    one = min(followed, key=lambda each: each.epoch)
    missing = f", after {_terms(term + 1, one.epoch - 1)}" if one.epoch > term + 1 else ""
    return (
        f" Broker {one.broker} took over with term {one.epoch} at {at(one)}{missing}, {_by(one)}."
    )


def replaced(elections: Sequence[RoleChanged], begun: RoleChanged) -> str:
    """A sentence about the controller that a new one replaced; "" if the log shows none."""
    before = [one for one in elections if one.epoch < begun.epoch]
    if not before:
        return ""
    one = max(before, key=lambda each: each.epoch)
    between = f", after {_terms(one.epoch + 1, begun.epoch - 1)}" * (begun.epoch > one.epoch + 1)
    return f" It replaced broker {one.broker}, term {one.epoch}{between}, {_by(begun)}."


def unseen_term(elections: Sequence[RoleChanged], term: int) -> str:
    """The answer about a term between two terms of the logs, which another controller had."""
    before = [one for one in elections if one.epoch < term]
    after = [one for one in elections if one.epoch > term]
    if not before or not after:
        return ""
    one, other = max(before, key=lambda each: each.epoch), min(after, key=lambda each: each.epoch)
    return (
        f"Term {term} was that of a controller that does not write these logs, such as a broker of "
        f"the cluster. Before it, broker {one.broker} had term {one.epoch}, since {at(one)}; after "
        f"it, broker {other.broker} had term {other.epoch}, since {at(other)}."
    )


def _by(elected: RoleChanged) -> str:
    return (
        f"by the write that created {znodes.CONTROLLER} and set {znodes.CONTROLLER_EPOCH} to "
        f"{elected.epoch}"
    )


def _terms(first: int, last: int) -> str:
    which = f"term {first}" if first == last else f"terms {first} to {last}"
    return f"{which} of other controllers"
