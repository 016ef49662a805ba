"""What a question is about, as options give it."""

from typing import Final

import typer

_OFFSET_CHARACTERS_MAX: Final = 10


def partition(text: str | None, option: str) -> tuple[str, int] | None:
    """A topic and a number, written as Kafka does: t-0. Raises typer.BadParameter."""
    if text is None:
        return None
    topic, dash, number = text.rpartition("-")
    if not dash or not topic or not number.isdecimal() or len(number) > _OFFSET_CHARACTERS_MAX:
        raise typer.BadParameter(f"{text} is no partition: write it as topic-0", param_hint=option)
    return topic, int(number)
