"""The exceptions of the daemon."""


class DaemonError(Exception):
    """The daemon cannot start or go on; the text says why and what to do."""
