"""Answers that wait: for leaders of new partitions, or for topics to go (Kafka's topic purgatory),
and then until brokers know.

A request's time-out counts from the moment that it came in. It ends the waiting also while a long
procedure runs, and in the queue: what has not begun by then is not begun any more.
"""

from typing import Final

from controller.core.announcement import Announcement
from controller.core.commands import (
    AnswerElectLeaders,
    AnswerLater,
    ApiAnswer,
    CancelTimer,
    PartitionAnswer,
    Reason,
    StartTimer,
)
from controller.core.controller import Controller
from controller.core.error_codes import REQUEST_TIMED_OUT
from controller.core.events import ApiRequest, BrokerAnswered, ElectLeadersReceived
from controller.core.procedures.admin.refusals import refusal
from controller.core.state import ControllerContext
from controller.core.topic_requests import (
    AnswerCreatePartitions,
    AnswerCreateTopics,
    AnswerDeleteTopics,
    CreatedTopic,
    CreatePartitionsReceived,
    CreateTopicsReceived,
    DeletedTopic,
    DeleteTopicsReceived,
    TopicAnswer,
    WaitingAnswer,
    WaitingRequest,
)
from controller.core.triggers import ApiCall

_RULE = "time-out of a request"
_ANNOUNCED = "what was asked for is done"
_HEARING_MS: Final = 1_000
"""An answer waits so long for the other brokers when the first one knows."""
WAITING_MAX: Final = 5_000
"""Requests that wait at a time. Each costs every controller event a look."""


def timer_of(request: int) -> str:
    """The timer of a request's time-out."""
    return f"request:{request}"


def start_time_out(controller: Controller, request: ApiRequest) -> None:
    """A request came in: if it is one that may wait, its time begins."""
    may_wait = (
        CreateTopicsReceived
        | CreatePartitionsReceived
        | DeleteTopicsReceived
        | ElectLeadersReceived
    )
    if isinstance(request, may_wait) and request.timeout_ms > 0:
        timer = timer_of(request.request)
        controller.timed[timer] = request.request
        controller.issue(StartTimer(timer, request.timeout_ms), Reason(_RULE))


def give_answer(controller: Controller, answer: ApiAnswer, rule: str) -> None:
    """Answer a request; its time-out is of no use any more."""
    controller.issue(answer, Reason(rule))
    timer = timer_of(answer.request)
    if controller.timed.pop(timer, None) is not None:
        controller.issue(CancelTimer(timer), Reason(_RULE))


def answer_when_done(controller: Controller, waiting: WaitingRequest, rule: str) -> None:
    """Answer at once where nothing is waited for or no time is left; else later.

    However many wait, there is room for one more: who has waited longest is told that it took too
    long.
    """
    context, request = controller.context, waiting.answer.request
    if not waiting.leaderless and not waiting.undeleted:
        give_answer(controller, waiting.answer, rule)
    elif timer_of(request) in controller.timed:
        context.waiting[request] = waiting
        controller.issue(AnswerLater(request), Reason(rule))
        if len(context.waiting) > WAITING_MAX:
            longest = context.waiting.pop(next(iter(context.waiting)))
            give_answer(controller, _incomplete(context, longest), "too many requests wait")
    else:
        late = [topic for topic, _ in waiting.leaderless] + waiting.undeleted
        give_answer(controller, _timed_out(waiting.answer, late), rule)


def answer_completed(controller: Controller) -> None:
    """After each controller event: answer what is done, when brokers know.

    Each request costs one look, however much it waits for, and none at what is done already.
    """
    context = controller.context
    for announcement in list(context.announcing.values()):
        # A broker without a channel hears nothing more.
        awaited = announcement.awaited
        announcement.awaited = {one: awaited[one] for one in awaited if one in context.channels}
        _answer_if_heard(controller, announcement)
    done = [one for one in context.waiting.values() if _is_done(context, one)]
    for waiting in done:
        del context.waiting[waiting.answer.request]
        announce(controller, waiting.answer, _ANNOUNCED)


def _is_done(context: ControllerContext, waiting: WaitingRequest) -> bool:
    leaderless, undeleted = waiting.leaderless, waiting.undeleted
    while leaderless and context.is_led(*leaderless[-1]):
        leaderless.pop()
    while undeleted and not context.is_in_metadata(undeleted[-1]):
        undeleted.pop()
    return not leaderless and not undeleted


# Until brokers know -----------------------------------------------------------------------------


def announce(controller: Controller, answer: WaitingAnswer | AnswerElectLeaders, rule: str) -> None:
    """Answer when every broker has taken what it was sent up to now, if there is time for that.

    Who is answered may ask any broker next. One that hangs is waited for a moment only, and no more
    before it has answered something.
    """
    context, request = controller.context, answer.request
    unheard = context.unheard
    awaited = {one: unheard[one] for one in unheard if one not in context.silent} or unheard
    if not awaited or timer_of(request) not in controller.timed:
        give_answer(controller, answer, rule)
        return
    context.announcing[request] = Announcement(answer, dict(awaited))
    if isinstance(answer, AnswerElectLeaders):
        controller.issue(AnswerLater(request), Reason(rule))


def hear(controller: Controller, answer: BrokerAnswered) -> None:
    """A broker answered: it has taken all that it was sent before, too."""
    context, broker = controller.context, answer.broker
    context.silent.pop(broker, None)
    if context.unheard.get(broker) == answer.command:
        del context.unheard[broker]
    for announcement in list(context.announcing.values()):
        awaited = announcement.awaited.get(broker)
        if awaited is None or answer.command < awaited:
            continue
        del announcement.awaited[broker]
        if announcement.awaited and not announcement.is_heard:
            announcement.is_heard = True
            timer = _hearing_timer(announcement.answer.request)
            controller.issue(StartTimer(timer, _HEARING_MS), Reason(_ANNOUNCED))
        _answer_if_heard(controller, announcement)


def _hearing_timer(request: int) -> str:
    return f"announcement:{request}"


def _answer_if_heard(controller: Controller, announcement: Announcement) -> None:
    if not announcement.awaited:
        _conclude(controller, announcement, announcement.answer, _ANNOUNCED)


def _conclude(
    controller: Controller, announcement: Announcement, answer: ApiAnswer, rule: str
) -> None:
    """Answer it, so or so."""
    del controller.context.announcing[answer.request]
    if announcement.is_heard:
        controller.issue(CancelTimer(_hearing_timer(answer.request)), Reason(rule))
    give_answer(controller, answer, rule)


def _stop_hearing(controller: Controller, announcement: Announcement) -> None:
    """One broker knows for a while: the others are waited for no longer, here and elsewhere."""
    controller.context.silent.update(dict.fromkeys(announcement.awaited))
    _conclude(controller, announcement, announcement.answer, "a broker is silent")


# Time-outs --------------------------------------------------------------------------------------


def time_out(controller: Controller, timer: str) -> None:
    """A timer ran out. If it is that of a request, this is answered with what is not done.

    One whose procedure is running just now is answered when that has done its part.
    """
    context = controller.context
    for announcement in context.announcing.values():
        if timer == _hearing_timer(announcement.answer.request):
            _stop_hearing(controller, announcement)
            return
    number = controller.timed.pop(timer, None)
    if number is None:
        return
    waiting = context.waiting.pop(number, None)
    if waiting is not None:
        give_answer(controller, _incomplete(context, waiting), _RULE)
        return
    if number in context.announcing:
        announcement = context.announcing[number]
        answer = announcement.answer
        _conclude(
            controller, announcement, answer if announcement.is_heard else _unheard(answer), _RULE
        )
        return
    for trigger in controller.triggers:
        if isinstance(trigger, ApiCall) and trigger.request.request == number:
            controller.triggers.remove(trigger)
            give_answer(controller, refusal(trigger.request, REQUEST_TIMED_OUT), _RULE)
            return


def give_up_waiting(controller: Controller) -> None:
    """The term is over: nobody here sees any more what becomes of what was begun.

    The next controller goes on with it. A tool that was told to look for that one would ask it for
    a topic that is there already.
    """
    context = controller.context
    for waiting in context.waiting.values():
        give_answer(controller, _incomplete(context, waiting), "the term is over")
    for announcement in list(context.announcing.values()):
        _conclude(controller, announcement, announcement.answer, "the term is over")


def _incomplete(context: ControllerContext, waiting: WaitingRequest) -> WaitingAnswer:
    """The answer that tells of the topics that are not done by now."""
    leaderless = [one[0] for one in waiting.leaderless if not context.is_led(*one)]
    undeleted = [one for one in waiting.undeleted if context.is_in_metadata(one)]
    return _timed_out(waiting.answer, leaderless + undeleted)


def _unheard(answer: WaitingAnswer | AnswerElectLeaders) -> WaitingAnswer | AnswerElectLeaders:
    """The answer where no broker knows of what was done."""
    if not isinstance(answer, AnswerElectLeaders):
        return _timed_out(answer, [one.name for one in answer.topics if one.name and not one.error])
    late = (
        one if one.error else PartitionAnswer(one.topic, one.partition, REQUEST_TIMED_OUT)
        for one in answer.partitions
    )
    return AnswerElectLeaders(answer.request, answer.error, tuple(late))


def _timed_out(answer: WaitingAnswer, topics: list[str]) -> WaitingAnswer:
    """The answer with REQUEST_TIMED_OUT for these topics."""
    late, error = dict.fromkeys(topics), REQUEST_TIMED_OUT
    match answer:
        case AnswerCreateTopics(request=request, topics=created):
            # As in Kafka its id is told all the same.
            return AnswerCreateTopics(
                request,
                tuple(
                    CreatedTopic(one.name, error, topic_id=one.topic_id)
                    if one.name in late
                    else one
                    for one in created
                ),
                answer.release,
            )
        case AnswerCreatePartitions(request=request, topics=grown):
            answers = (TopicAnswer(one.name, error) if one.name in late else one for one in grown)
            return AnswerCreatePartitions(request, tuple(answers))
        case AnswerDeleteTopics(request=request, topics=deleted):
            return AnswerDeleteTopics(
                request,
                answer.error,
                tuple(
                    DeletedTopic(one.name, one.topic_id, error) if one.name in late else one
                    for one in deleted
                ),
            )
