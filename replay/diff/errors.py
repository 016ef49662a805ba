"""What makes a diff impossible."""

from replay.errors import ReplayError


class DiffError(ReplayError):
    """A version, a log or a file that cannot be used; the text names it and says what to do."""
