"""How `refold reassign` ends (docs/reassign.md#exit-status)."""

from typing import Final

DONE: Final = 0
"""As asked for; of --verify: everything is complete."""
REFUSED: Final = 1
"""The cluster does not allow it, or refused a part of it."""
UNUSABLE: Final = 2
"""Options or a file cannot be used, or the cluster cannot be reached."""
NOT_DONE_YET: Final = 3
"""--verify: something is still under way. --request: not taken up in time."""
OTHERWISE: Final = 4
"""--verify: it ended with other replicas, or was changed. --request: not started."""
