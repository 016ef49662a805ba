"""`make bench` writes each of its results into a part of docs/benchmarks.md."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.bench.__main__ import BENCHES, PAGE, PageSection

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("bench", BENCHES, ids=lambda bench: bench.part)
def test_page_has_the_result_of_each_command(bench: PageSection) -> None:
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    part = re.search(rf"<!-- {bench.part}: .*?<!-- end of {bench.part} -->", page, re.DOTALL)
    assert part is not None
    assert f"    $ {bench.command}\n" in part[0]
    assert re.search(r"^On 20\d\d-\d\d-\d\d:$", part[0], re.MULTILINE)
    assert " at 0x" not in part[0]


def test_unknown_part_is_refused_with_the_known_ones() -> None:
    command = [sys.executable, "-m", "tools.bench", "nothing"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert ran.stderr == ("no such part: nothing; use failover, small, large, waits, event-loop\n")
