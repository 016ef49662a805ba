"""The exceptions of the replay tools."""


class ReplayError(Exception):
    """A log cannot be used for a command. The text says why and what to do."""


class OtherCoreError(ReplayError):
    """The log was recorded by another core, whose decisions may differ."""


class DiffError(ReplayError):
    """A version, log or file cannot be used by `refold diff`. The text names it and says what to
    do."""
