"""Controller events that wait one behind the other and are handled together."""

from typing import Final

from controller.core import topic_names
from controller.core.controller import Controller
from controller.core.deviations import CREATIONS_TOGETHER, REASSIGNMENTS_TOGETHER
from controller.core.topic_requests import CreateTopicsReceived
from controller.core.triggers import ApiCall, PartitionReassignmentIsrChange, Trigger

_TOPICS_MAX: Final = 1_000
"""From so many topics on no more requests are taken together."""


def with_neighbours(controller: Controller, trigger: Trigger) -> Trigger:
    """The controller event, with those that directly follow it and can be handled in one go."""
    match trigger:
        case ApiCall(request=CreateTopicsReceived() as first):
            if CREATIONS_TOGETHER.applies(controller.configuration):
                return ApiCall(first, _creations(controller, first))
        case PartitionReassignmentIsrChange() as change:
            if REASSIGNMENTS_TOGETHER.applies(controller.configuration):
                together = (*change.together, *_isr_changes(controller))
                return PartitionReassignmentIsrChange(change.topic, change.partition, together)
    return trigger


def _creations(controller: Controller, first: CreateTopicsReceived) -> list[CreateTopicsReceived]:
    """Requests for topics, up to the first one with a name that another has, or that would collide
    with it."""
    triggers, together, names = controller.triggers, list[CreateTopicsReceived](), _unified(first)
    while triggers and len(names) < _TOPICS_MAX:
        asked = _creation(triggers[0])
        if asked is None or not names.keys().isdisjoint(_unified(asked)):
            break
        together.append(asked)
        names |= _unified(asked)
        triggers.popleft()
    return together


def _creation(trigger: Trigger) -> CreateTopicsReceived | None:
    match trigger:
        case ApiCall(request=CreateTopicsReceived() as asked):
            return asked
        case _:
            return None


def _unified(asked: CreateTopicsReceived) -> dict[str, None]:
    """Its names, each in the one spelling that all colliding names share."""
    return dict.fromkeys(topic_names.unified(one.name) for one in asked.topics)


def _isr_changes(controller: Controller) -> tuple[tuple[str, int], ...]:
    triggers, names = controller.triggers, list[tuple[str, int]]()
    while triggers and isinstance(triggers[0], PartitionReassignmentIsrChange):
        change = triggers.popleft()
        assert isinstance(change, PartitionReassignmentIsrChange)
        names += change.names
    return tuple(names)
