"""What may happen in a recorded incident. Each act draws what it does, and notes it.

An act takes the scene and a Random of its own; what it cannot do, as nothing is there for it, it
leaves. Errors that belong to the incident are noted by the journal.
"""

from collections.abc import Awaitable, Callable
from random import Random

from tools.recordings.scene import Scene

Act = Callable[[Scene, Random], Awaitable[None]]

FEW_SECONDS = (0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.4)
"""Between two things that nearly happen at once."""


async def do(act: Act, scene: Scene, rng: Random) -> None:
    """An act. What fails in it, as the incident has taken away what it needs, is noted."""
    try:
        await act(scene, rng)
    except Exception as error:
        scene.journal.failed(act.__name__, error)
