"""Why `refold reassign` failed."""

from controller.operator.errors import OperatorError


class ReassignmentError(OperatorError):
    """Base of these errors. The text is for the operator and says what to do."""


class BadInput(ReassignmentError):
    """The options or a file are invalid. The cluster was not accessed."""


class ReassignmentRefused(ReassignmentError):
    """The current state of the cluster does not allow the operation."""


class KafkaUnavailable(ReassignmentError):
    """No broker answers, or none can answer the question."""
