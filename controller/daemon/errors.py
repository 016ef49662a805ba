"""Exceptions of the daemon."""


class DaemonError(Exception):
    """The daemon cannot start or continue. The text says why and what to do."""
