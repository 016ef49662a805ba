"""The exceptions of the replay tools."""


class ReplayError(Exception):
    """A log that cannot be used for what was asked; the text says why and what to do."""


class OtherCoreError(ReplayError):
    """The log was recorded by another core than this one: its decisions need not agree."""
