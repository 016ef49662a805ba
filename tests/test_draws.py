"""Property tests draw the same examples whatever else is imported."""

import importlib.util
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st


def drawn() -> list[tuple[str, int, bytes]]:
    """The examples of a property test with three common strategies."""
    found: list[tuple[str, int, bytes]] = []

    @given(st.text(), st.integers(), st.binary())
    def draw(text: str, number: int, data: bytes) -> None:
        found.append((text, number, data))

    draw()
    return found


def test_draws_do_not_depend_on_the_modules_that_are_imported(tmp_path: Path) -> None:
    before = drawn()
    module = tmp_path / "constants.py"
    lines = [f"A{one}, B{one} = 'text {one}', {one + 7_000_000}" for one in range(500)]
    module.write_text("\n".join(lines))
    spec = importlib.util.spec_from_file_location("constants_of_nobody", module)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[spec.name] = made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    try:
        assert drawn() == before
    finally:
        del sys.modules[spec.name]
