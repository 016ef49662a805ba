"""Actions that run later in the event loop."""

import asyncio

from controller.timers import Action


def after_ms(delay_ms: int, action: Action) -> asyncio.TimerHandle:
    """Run an action in the current event loop after a delay."""
    return asyncio.get_running_loop().call_later(delay_ms / 1000, action)
