"""The exceptions of the replay tools."""


class ReplayError(Exception):
    """A log that cannot be used for the command; the text says why and what to do."""


class OtherCoreError(ReplayError):
    """Another core recorded the log, so its decisions may differ from this core's."""
