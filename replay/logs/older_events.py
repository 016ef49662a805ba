"""Converts events and settings that older versions of refold stored to those that the core folds.

If the fields of a kind change, the kind gets the next version in controller/core/canonical.py, and
this module gets a step from the version before. For a new field the step inserts the value that
matches the behaviour of the older version.
"""

from typing import Final

import msgspec

from eventstore.upcasters import Upcast

_ELECT_LEADERS_FIELDS: Final = 5
_DOES_NOT_WAIT: Final = 0


def _elect_leaders_2(payload: bytes) -> bytes:
    """In version 1 answers did not wait for brokers. Some events of version 1 have the field."""
    tag, *fields = msgspec.msgpack.decode(payload)
    if len(fields) < _ELECT_LEADERS_FIELDS:
        fields.append(_DOES_NOT_WAIT)
    return msgspec.msgpack.encode([tag, *fields])


SETTINGS_OF_OLDER_LOGS: Final = {
    "checks_topic_versions": False,
    "reports_refusals_together": False,
}
"""Values of settings that a log's header does not have, where the value is not the default: the
behaviour of the older version."""
SETTINGS_OF_THIS_VERSION: Final = dict.fromkeys(SETTINGS_OF_OLDER_LOGS, True)
"""The same settings for a daemon of this version that continues where an older log ends."""
UPCASTS: Final = {("elect_leaders_received", 1): Upcast(_elect_leaders_2)}
"""The step to the next version, by kind and version."""
