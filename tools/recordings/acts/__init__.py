"""The acts of recorded incidents. Each act draws its details at random and notes what it does.

An act takes the scene and a separate Random. An act does nothing if the scene has no object for it.
The journal notes errors that belong to the incident.
"""

from collections.abc import Awaitable, Callable
from random import Random

from tools.recordings.scene import Scene

Act = Callable[[Scene, Random], Awaitable[None]]

FEW_SECONDS = (0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.4)
"""Delays between two things that happen at almost the same time."""


async def perform(act: Act, scene: Scene, rng: Random) -> None:
    """Perform an act. Errors are noted: the incident may have removed what the act needs."""
    try:
        await act(scene, rng)
    except Exception as error:
        scene.journal.failed(act.__name__, error)
