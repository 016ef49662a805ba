"""Events as older versions of refold stored them, taken to those that the core folds.

A kind whose fields change gets the next version in controller/core/canonical.py and a step here.
The step adds the value of a field that the older version did without.
"""

from typing import Final

import msgspec

from eventstore.upcasters import Upcast

_ELECT_LEADERS_FIELDS: Final = 5
_DOES_NOT_WAIT: Final = 0


def _elect_leaders_2(payload: bytes) -> bytes:
    """Answers did not wait for brokers; some events of version 1 say so themselves."""
    tag, *fields = msgspec.msgpack.decode(payload)
    if len(fields) < _ELECT_LEADERS_FIELDS:
        fields.append(_DOES_NOT_WAIT)
    return msgspec.msgpack.encode([tag, *fields])


UPCASTS: Final = {("elect_leaders_received", 1): Upcast(_elect_leaders_2)}
"""By kind and version: the step to the next one."""
