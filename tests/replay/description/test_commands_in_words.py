"""Commands in words."""

from controller.core import error_codes
from controller.core.api_requests import ElectLeadersResponse
from controller.core.api_requests.partition_result import PartitionResult
from replay.description.commands import command_in_words


def test_answer_in_one_line_has_only_the_parts_with_errors() -> None:
    answered = (
        PartitionResult("t", 0, error_codes.NONE),
        PartitionResult("t", 1, error_codes.ELECTION_NOT_NEEDED),
    )
    assert command_in_words(ElectLeadersResponse(7, error_codes.NONE, answered)) == (
        "response to request 7: NONE: t-1 ELECTION_NOT_NEEDED"
    )
