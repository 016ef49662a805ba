"""Answers that wait: for leaders of new partitions, or for topics to go (Kafka's topic purgatory).

A request's time-out counts from the moment that it came in. It ends the waiting also while a long
procedure runs, and in the queue: what has not begun by then is not begun any more.
"""

from controller.core.commands import ApiAnswer, CancelTimer, Reason, StartTimer
from controller.core.controller import Controller
from controller.core.error_codes import REQUEST_TIMED_OUT
from controller.core.events import ApiRequest
from controller.core.procedures.refusals import refusal
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


def timer_of(request: int) -> str:
    """The timer of a request's time-out."""
    return f"request:{request}"


def start_time_out(controller: Controller, request: ApiRequest) -> None:
    """A request came in: if it is one that may wait, its time begins."""
    may_wait = CreateTopicsReceived | CreatePartitionsReceived | DeleteTopicsReceived
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
    """Answer at once where nothing is waited for or no time is left; else later."""
    request = waiting.answer.request
    if not waiting.leaderless and not waiting.undeleted:
        give_answer(controller, waiting.answer, rule)
    elif timer_of(request) in controller.timed:
        controller.context.waiting[request] = waiting
    else:
        late = [topic for topic, _ in waiting.leaderless] + waiting.undeleted
        give_answer(controller, _timed_out(waiting.answer, late), rule)


def answer_completed(controller: Controller) -> None:
    """After each controller event: answer what is done.

    Each request costs one look, however much it waits for, and none at what is done already.
    """
    context = controller.context
    done = [one for one in context.waiting.values() if _is_done(context, one)]
    for waiting in done:
        del context.waiting[waiting.answer.request]
        give_answer(controller, waiting.answer, "what was asked for is done")


def _is_done(context: ControllerContext, waiting: WaitingRequest) -> bool:
    leaderless, undeleted = waiting.leaderless, waiting.undeleted
    while leaderless and context.is_led(*leaderless[-1]):
        leaderless.pop()
    while undeleted and not context.is_in_metadata(undeleted[-1]):
        undeleted.pop()
    return not leaderless and not undeleted


def time_out(controller: Controller, timer: str) -> None:
    """A timer ran out. If it is that of a request, this is answered with what is not done.

    One whose procedure is running just now is answered when that has done its part.
    """
    number = controller.timed.pop(timer, None)
    if number is None:
        return
    context = controller.context
    waiting = context.waiting.pop(number, None)
    if waiting is not None:
        give_answer(controller, _incomplete(context, waiting), _RULE)
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


def _incomplete(context: ControllerContext, waiting: WaitingRequest) -> WaitingAnswer:
    """The answer that tells of the topics that are not done by now."""
    leaderless = [one[0] for one in waiting.leaderless if not context.is_led(*one)]
    undeleted = [one for one in waiting.undeleted if context.is_in_metadata(one)]
    return _timed_out(waiting.answer, leaderless + undeleted)


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
