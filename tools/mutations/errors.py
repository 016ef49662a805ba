"""The error of a run that cannot begin."""


class MutationError(Exception):
    """A setting, a rule, a reviewed survivor or a test is wrong; the text says which and why."""
