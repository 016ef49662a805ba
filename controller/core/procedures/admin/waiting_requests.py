"""Responses that wait for leaders of new partitions, or for the deletion of topics (Kafka's topic
purgatory), and then until brokers have the metadata. The time-out of a request starts when the
request arrives, and also ends the wait during a long procedure. A request whose time-out fires
while it is queued is not begun.
"""

from typing import Final

from controller.core.api_requests import ApiRequest, ApiResponse, TimedRequest
from controller.core.api_requests.elections import ElectLeadersResponse
from controller.core.api_requests.partition_result import PartitionResult
from controller.core.api_requests.topics import (
    CreatedTopic,
    CreatePartitionsResponse,
    CreateTopicsResponse,
    DeletedTopic,
    DeleteTopicsResponse,
    TopicResult,
    WaitingRequest,
    WaitingResponse,
)
from controller.core.commands import CancelTimer, DelayResponse, Reason, StartTimer
from controller.core.controller import Controller
from controller.core.error_codes import REQUEST_TIMED_OUT
from controller.core.events import BrokerResponded
from controller.core.state import ControllerContext, PropagatingResponse
from controller.core.triggers import ApiCall

_RULE = "time-out of a request"
_ANNOUNCED = "what was asked for is done"
_NEXT_RESPONSES_MS: Final = 1_000
"""How long a response waits for the other brokers after the first broker has responded."""
WAITING_MAX: Final = 5_000
"""The limit of waiting requests. Each costs a check at every controller event."""


def timer_of(request: int) -> str:
    """The name of the timer for a request's time-out."""
    return f"request:{request}"


def start_time_out(controller: Controller, request: ApiRequest) -> None:
    """Start the time-out of a request that may have to wait."""
    if isinstance(request, TimedRequest) and request.timeout_ms > 0:
        timer = timer_of(request.request)
        controller.timed[timer] = request.request
        controller.issue(StartTimer(timer, request.timeout_ms), Reason(_RULE))


def send_response(controller: Controller, response: ApiResponse, rule: str) -> None:
    """Answer a request, and cancel its time-out."""
    controller.issue(response, Reason(rule))
    timer = timer_of(response.request)
    if controller.timed.pop(timer, None) is not None:
        controller.issue(CancelTimer(timer), Reason(_RULE))


def respond_when_done(controller: Controller, waiting: WaitingRequest, rule: str) -> None:
    """Answer at once if there is nothing to wait for or no time is left; else later.

    At the limit, the oldest waiting request times out.
    """
    context, request = controller.context, waiting.response.request
    if not waiting.leaderless and not waiting.undeleted:
        send_response(controller, waiting.response, rule)
    elif timer_of(request) in controller.timed:
        context.waiting[request] = waiting
        controller.issue(DelayResponse(request), Reason(rule))
        if len(context.waiting) > WAITING_MAX:
            longest = context.waiting.pop(next(iter(context.waiting)))
            send_response(controller, _incomplete(context, longest), "too many requests wait")
    else:
        late = [topic for topic, _ in waiting.leaderless] + waiting.undeleted
        send_response(controller, _timed_out_response(waiting.response, late), rule)


def respond_to_completed(controller: Controller) -> None:
    """After each controller event: answer the requests whose outcome has been reached and
    propagated.

    Each request costs one check, whatever it waits for; finished parts are not checked again.
    """
    context = controller.context
    for pending in list(context.propagating.values()):
        # A broker without a channel does not respond any more.
        awaited = pending.awaited
        pending.awaited = {one: awaited[one] for one in awaited if one in context.channels}
        _respond_if_propagated(controller, pending)
    done = [one for one in context.waiting.values() if _is_done(context, one)]
    for waiting in done:
        del context.waiting[waiting.response.request]
        respond_when_propagated(controller, waiting.response, _ANNOUNCED)


def _is_done(context: ControllerContext, waiting: WaitingRequest) -> bool:
    leaderless, undeleted = waiting.leaderless, waiting.undeleted
    while leaderless and context.is_led(*leaderless[-1]):
        leaderless.pop()
    while undeleted and not context.is_in_metadata(undeleted[-1]):
        undeleted.pop()
    return not leaderless and not undeleted


# Responses that wait for acknowledged metadata --------------------------------------------------


def respond_when_propagated(
    controller: Controller, response: WaitingResponse | ElectLeadersResponse, rule: str
) -> None:
    """Answer when every broker has acknowledged what it was sent so far, if there is time for that.

    The tool may ask any broker next. A broker that does not respond is waited for only briefly, and
    not again before it has responded to something.
    """
    context, request = controller.context, response.request
    unacked = context.unacked_metadata
    awaited = {one: unacked[one] for one in unacked if one not in context.unresponsive} or unacked
    if not awaited or timer_of(request) not in controller.timed:
        send_response(controller, response, rule)
        return
    context.propagating[request] = PropagatingResponse(response, dict(awaited))
    if isinstance(response, ElectLeadersResponse):
        controller.issue(DelayResponse(request), Reason(rule))


def on_response(controller: Controller, response: BrokerResponded) -> None:
    """A broker responded: it has also processed all earlier requests."""
    context, broker = controller.context, response.broker
    context.unresponsive.pop(broker, None)
    if context.unacked_metadata.get(broker) == response.command:
        del context.unacked_metadata[broker]
    if context.propagating:
        _note_response(controller, response)


def _note_response(controller: Controller, response: BrokerResponded) -> None:
    """Note for each waiting request that this broker has responded, and answer those that waited
    for no other broker."""
    broker = response.broker
    for pending in list(controller.context.propagating.values()):
        awaited = pending.awaited.get(broker)
        if awaited is None or response.command < awaited:
            continue
        del pending.awaited[broker]
        if pending.awaited and not pending.has_response:
            pending.has_response = True
            timer = _response_timer(pending.response.request)
            controller.issue(StartTimer(timer, _NEXT_RESPONSES_MS), Reason(_ANNOUNCED))
        _respond_if_propagated(controller, pending)


def _response_timer(request: int) -> str:
    return f"announcement:{request}"


def _respond_if_propagated(controller: Controller, pending: PropagatingResponse) -> None:
    if not pending.awaited:
        _conclude(controller, pending, pending.response, _ANNOUNCED)


def _conclude(
    controller: Controller, pending: PropagatingResponse, response: ApiResponse, rule: str
) -> None:
    """Answer a request, whether or not all brokers responded."""
    del controller.context.propagating[response.request]
    if pending.has_response:
        controller.issue(CancelTimer(_response_timer(response.request)), Reason(rule))
    send_response(controller, response, rule)


def _stop_waiting_for_brokers(controller: Controller, pending: PropagatingResponse) -> None:
    """One broker has known the outcome for a while: stop waiting for the others, for all
    requests."""
    controller.context.unresponsive.update(dict.fromkeys(pending.awaited))
    _conclude(controller, pending, pending.response, "a broker is silent")


# Time-outs --------------------------------------------------------------------------------------


def time_out(controller: Controller, timer: str) -> None:
    """A timer fired. If the event is the time-out of a request, answer with the items that are not
    done.

    A request whose procedure is running is answered when that procedure ends.
    """
    context = controller.context
    for pending in context.propagating.values():
        if timer == _response_timer(pending.response.request):
            _stop_waiting_for_brokers(controller, pending)
            return
    number = controller.timed.pop(timer, None)
    if number is None:
        return
    waiting = context.waiting.pop(number, None)
    if waiting is not None:
        send_response(controller, _incomplete(context, waiting), _RULE)
    elif number in context.propagating:
        pending = context.propagating[number]
        answer = pending.response
        response = answer if pending.has_response else _unpropagated_response(answer)
        _conclude(controller, pending, response, _RULE)
    else:
        _refuse_queued(controller, number)


def _refuse_queued(controller: Controller, number: int) -> None:
    for trigger in controller.triggers:
        if isinstance(trigger, ApiCall) and trigger.request.request == number:
            controller.triggers.remove(trigger)
            send_response(controller, trigger.request.refusal(REQUEST_TIMED_OUT), _RULE)
            return


def abandon_waiting(controller: Controller) -> None:
    """The term has ended: this daemon no longer sees the outcome of work that it has begun.

    The next controller completes it. The tools get no NOT_CONTROLLER: they would ask the next
    controller for a topic that exists already.
    """
    context = controller.context
    for waiting in context.waiting.values():
        send_response(controller, _incomplete(context, waiting), "the term is over")
    for pending in list(context.propagating.values()):
        _conclude(controller, pending, pending.response, "the term is over")


def _incomplete(context: ControllerContext, waiting: WaitingRequest) -> WaitingResponse:
    """The response that names the topics that are not done by now."""
    leaderless = [one[0] for one in waiting.leaderless if not context.is_led(*one)]
    undeleted = [one for one in waiting.undeleted if context.is_in_metadata(one)]
    return _timed_out_response(waiting.response, leaderless + undeleted)


def _unpropagated_response(
    response: WaitingResponse | ElectLeadersResponse,
) -> WaitingResponse | ElectLeadersResponse:
    """The response if no broker knows the outcome."""
    if not isinstance(response, ElectLeadersResponse):
        return _timed_out_response(
            response, [one.name for one in response.topics if one.name and not one.error]
        )
    late = (
        one if one.error else PartitionResult(one.topic, one.partition, REQUEST_TIMED_OUT)
        for one in response.partitions
    )
    return ElectLeadersResponse(response.request, response.error, tuple(late))


def _timed_out_response(response: WaitingResponse, topics: list[str]) -> WaitingResponse:
    """The response with REQUEST_TIMED_OUT for these topics."""
    late, error = dict.fromkeys(topics), REQUEST_TIMED_OUT
    match response:
        case CreateTopicsResponse(request=request, topics=created):
            # Kafka returns the topic id nevertheless.
            return CreateTopicsResponse(
                request,
                tuple(
                    CreatedTopic(one.name, error, topic_id=one.topic_id)
                    if one.name in late
                    else one
                    for one in created
                ),
                response.release,
            )
        case CreatePartitionsResponse(request=request, topics=grown):
            answers = (TopicResult(one.name, error) if one.name in late else one for one in grown)
            return CreatePartitionsResponse(request, tuple(answers))
        case DeleteTopicsResponse(request=request, topics=deleted):
            return DeleteTopicsResponse(
                request,
                response.error,
                tuple(
                    DeletedTopic(one.name, one.topic_id, error) if one.name in late else one
                    for one in deleted
                ),
            )
