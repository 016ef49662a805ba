"""Temporal's replayer on a generated history: a workflow that waits for one timer after the other.

The package temporalio is not a dependency of refold: install it to run this benchmark.
"""

import time
from base64 import b64encode
from datetime import timedelta
from importlib import import_module
from itertools import count
from typing import Any, Final

workflow: Any = import_module("temporalio.workflow")
_client: Any = import_module("temporalio.client")
_worker: Any = import_module("temporalio.worker")

_EVENTS_A_TURN: Final = 5
_BEGIN: Final = "2026-01-01T00:00:00Z"


@workflow.defn(name="Waits", sandboxed=False)
class Waits:
    """Waits `times` times."""

    @workflow.run  # type: ignore[untyped-decorator]
    async def run(self, times: int) -> int:
        """Wait for one timer after the other, as in the history."""
        for _ in range(times):
            await workflow.sleep(timedelta(seconds=1))
        return times


async def replay(events: int) -> float:
    """Seconds to replay a history with this number of events."""
    turns = events // _EVENTS_A_TURN
    history = _client.WorkflowHistory.from_json("bench", {"events": _history(turns)})
    replayer = _worker.Replayer(workflows=[Waits])
    begun = time.perf_counter()
    await replayer.replay_workflow(history)
    return time.perf_counter() - begun


def _history(turns: int) -> list[dict[str, Any]]:
    numbers = count(1)
    events: list[dict[str, Any]] = []

    def add(kind: str, name: str, **attributes: Any) -> int:
        number = next(numbers)
        events.append(
            {
                "eventId": str(number),
                "eventTime": _BEGIN,
                "eventType": f"EVENT_TYPE_{kind}",
                f"{name}EventAttributes": attributes,
            }
        )
        return number

    def work() -> int:
        scheduled = add("WORKFLOW_TASK_SCHEDULED", "workflowTaskScheduled", taskQueue={"name": "q"})
        begun = add("WORKFLOW_TASK_STARTED", "workflowTaskStarted", scheduledEventId=str(scheduled))
        return add(
            "WORKFLOW_TASK_COMPLETED",
            "workflowTaskCompleted",
            scheduledEventId=str(scheduled),
            startedEventId=str(begun),
        )

    payload = {"metadata": {"encoding": "anNvbi9wbGFpbg=="}, "data": _base64(str(turns))}
    add(
        "WORKFLOW_EXECUTION_STARTED",
        "workflowExecutionStarted",
        workflowType={"name": "Waits"},
        taskQueue={"name": "q"},
        input={"payloads": [payload]},
        originalExecutionRunId="run",
        attempt=1,
    )
    done = work()
    for turn in range(1, turns + 1):
        started = add(
            "TIMER_STARTED",
            "timerStarted",
            timerId=str(turn),
            startToFireTimeout="1s",
            workflowTaskCompletedEventId=str(done),
        )
        add("TIMER_FIRED", "timerFired", timerId=str(turn), startedEventId=str(started))
        done = work()
    add(
        "WORKFLOW_EXECUTION_COMPLETED",
        "workflowExecutionCompleted",
        result={"payloads": [payload]},
        workflowTaskCompletedEventId=str(done),
    )
    return events


def _base64(text: str) -> str:
    return b64encode(text.encode()).decode()
