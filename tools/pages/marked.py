"""Pages of which one part is generated."""

import re
from pathlib import Path


def with_part(page: Path, marker: str, part: str) -> str:
    """The page with `part` between the comments that begin with the marker."""
    between = re.compile(rf"(<!-- {marker}: [^>]*-->\n).*?(<!-- end of {marker} -->)", re.DOTALL)
    text = page.read_text(encoding="utf-8")
    assert between.search(text), f"{page} has no part {marker}"
    return between.sub(lambda found: f"{found[1]}\n{part}\n\n{found[2]}", text)
