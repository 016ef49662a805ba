"""The controller events of fired watches, and their names."""

import pytest

from controller.core.api_requests.reassignments import ListPartitionReassignmentsReceived
from controller.core.triggers import (
    ApiCall,
    BrokerChange,
    BrokerModifications,
    PartitionModifications,
    PartitionReassignmentIsrChange,
    Trigger,
    trigger_name,
    trigger_of,
)

STATE = "/brokers/topics/t/partitions/3/state"


@pytest.mark.parametrize(
    ("path", "change", "trigger"),
    [
        ("/brokers/ids/7", "data", BrokerModifications(7)),
        ("/brokers/ids/7", "deleted", None),
        ("/brokers/ids/07", "data", None),
        ("/elsewhere/7", "data", None),
        ("/brokers/topics/t", "data", PartitionModifications("t")),
        ("/brokers/topics/t", "deleted", None),
        ("/elsewhere/t", "data", None),
        (STATE, "data", PartitionReassignmentIsrChange("t", 3)),
        (STATE, "deleted", None),
    ],
)
def test_changed_data_of_a_broker_topic_or_state_is_a_controller_event(
    path: str, change: str, trigger: Trigger | None
) -> None:
    """Their creation and deletion are reported by the watches of their parents."""
    assert trigger_of(path, change) == trigger


def test_controller_event_has_kafkas_name_and_a_request_that_of_its_api() -> None:
    request = ListPartitionReassignmentsReceived(1, 7, None)
    assert trigger_name(ApiCall(request)) == "ListPartitionReassignments"
    assert trigger_name(BrokerChange()) == "BrokerChange"
