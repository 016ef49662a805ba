"""The exceptions of the replay tools."""


class ReplayError(Exception):
    """A log cannot be used for a command. The text says why and what to do."""


class OtherCoreError(ReplayError):
    """The log was recorded by another core, whose decisions may differ."""


class DiffError(ReplayError):
    """A version, log or file cannot be used by `refold diff`. The text names it and says what to
    do."""


def unreadable(what: object, error: OSError) -> ReplayError:
    """The error for a file or folder that the system does not let refold read."""
    hint = ""
    if isinstance(error, PermissionError):
        hint = "; allow the user of refold to read it, for example as a member of its group"
    return ReplayError(f"{what} cannot be read: {error.strerror or error}{hint}")
