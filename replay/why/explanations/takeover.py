"""A take-over of the controller role, from both sides, and terms of which no log has the role."""

from collections.abc import Sequence

from controller.core import znodes
from replay.cluster_view.views import NO_BROKER
from replay.description.phrases import capitalized
from replay.why.facts import RoleChanged
from replay.why.sentences import event_and_time


def successor_sentence(
    elections: Sequence[RoleChanged], ended: RoleChanged | None, term: int
) -> str:
    """A sentence about the controller that followed a term; "" if the log shows none."""
    followed = [one for one in elections if one.epoch > term]
    if not followed:
        if ended is None or ended.other == NO_BROKER:
            return ""
        return f" {capitalized(ended.other_name)} had taken over; this log does not have its term."
    one = min(followed, key=lambda each: each.epoch)
    missing = f", after {_between(term, one)}" if one.epoch > term + 1 else ""
    who, at = capitalized(one.who), event_and_time(one)
    return f" {who} took over with term {one.epoch} at {at}{missing}, by {_write(one)}."


def predecessor_sentence(elections: Sequence[RoleChanged], begun: RoleChanged) -> str:
    """A sentence about the controller that a new one replaced, and the write by which it did; ""
    if it is the first controller."""
    before = [one for one in elections if one.epoch < begun.epoch]
    one = max(before, key=lambda each: each.epoch) if before else None
    who, write = capitalized(begun.who), _write(begun)
    if one is not None and one.epoch == begun.epoch - 1:
        return f" {who} replaced {one.who} (term {one.epoch}) with {write}."
    if begun.other != NO_BROKER:
        return f" {who} replaced {begun.other_name} (term {begun.epoch - 1}) with {write}."
    if one is not None:
        between = f", after {_between(one.epoch, begun)}"
        return f" {who} replaced {one.who} (term {one.epoch}){between}, with {write}."
    if begun.epoch > 1:
        term = begun.epoch - 1
        return f" {who} followed term {term}, which this log does not have, with {write}."
    return ""


def unseen_term(elections: Sequence[RoleChanged], term: int) -> str:
    """The answer about a term of another controller: one between two terms of the logs, or one
    that a term of the logs replaced."""
    before = [one for one in elections if one.epoch < term]
    after = [one for one in elections if one.epoch > term]
    if not after:
        return ""
    other = min(after, key=lambda each: each.epoch)
    known = other.other if other.epoch == term + 1 else NO_BROKER
    if not before and known == NO_BROKER:
        return ""
    whose = f"{other.other_name}, which does not write these logs"
    if known == NO_BROKER:
        whose = "a controller that does not write these logs, such as a broker of the cluster"
    text = f"Term {term} was that of {whose}."
    if before:
        one = max(before, key=lambda each: each.epoch)
        text += f" Before it, {one.who} had term {one.epoch}, which began at {event_and_time(one)}."
    return (
        f"{text} {capitalized(other.who)} took over with term {other.epoch} "
        f"at {event_and_time(other)}, by {_write(other)}."
    )


def _between(term: int, begun: RoleChanged) -> str:
    """The terms between a term and a later one."""
    first, last = term + 1, begun.epoch - 1
    if first == last:
        whose = "another controller" if begun.other == NO_BROKER else begun.other_name
        return f"term {first} of {whose}"
    return f"terms {first} to {last} of other controllers"


def _write(elected: RoleChanged) -> str:
    """The write that made a broker the controller."""
    what = f"created {znodes.CONTROLLER}"
    if elected.other != NO_BROKER:
        what = f"deleted {znodes.CONTROLLER} of {elected.other_name}, created it again"
    write = f"command {elected.command}, which" if elected.command else "the write that"
    return f"{write} {what} and set {znodes.CONTROLLER_EPOCH} to {elected.epoch}"
