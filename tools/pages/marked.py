"""Pages of which one part is generated."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path


def with_parts(page: Path, parts: Mapping[str, str]) -> str:
    """The page with each part between the comments that begin with its marker."""
    text = page.read_text(encoding="utf-8")
    for marker, part in parts.items():
        between = re.compile(
            rf"(<!-- {marker}: [^>]*-->\n).*?(<!-- end of {marker} -->)", re.DOTALL
        )
        assert between.search(text), f"{page} has no part {marker}"
        text = between.sub(_replacing(part), text)
    return text


def _replacing(part: str) -> Callable[[re.Match[str]], str]:
    return lambda found: f"{found[1]}\n{part}\n\n{found[2]}"
