"""The definition of a setting."""

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

OWN: Final = "refold."
"""Begins a key that is refold's own, or one of Kafka's that is meant for the daemon alone."""

OF_LISTENER: Final = "listener.name."
"""Begins a key of Kafka's for one listener."""


def of_listener(listener: str, key: str) -> str:
    """A key of Kafka's for one listener."""
    return f"{OF_LISTENER}{listener.lower()}.{key}"


class Setting(NamedTuple):
    """One setting. `default` is the text as in a file. None: the setting is unset by default, or
    must be set (`required`)."""

    key: str
    parse: Callable[[str], Any]
    default: str | None
    about: str
    flag: str = ""
    required: bool = False

    @property
    def variable(self) -> str:
        """The environment variable of the setting."""
        return "REFOLD_" + re.sub("[.-]", "_", self.key.removeprefix(OWN).upper())
