"""Why `refold reassign` cannot do what it was asked for."""

from controller.operator.errors import OperatorError


class ReassignmentError(OperatorError):
    """Base of these errors; the text is for the operator and says what to do."""


class BadInput(ReassignmentError):
    """The options or a file cannot be used; nothing was looked at or changed."""


class Refused(ReassignmentError):
    """The cluster as it stands does not allow it."""


class KafkaUnavailable(ReassignmentError):
    """No broker answers, or none that can say what is asked."""
