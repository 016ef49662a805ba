"""The report and the exit status of `refold diff` for a comparison that was made before."""

from copy import deepcopy
from typing import Any

import pytest
import typer

from replay.cli.diff import report_comparison
from replay.diff.comparing import Comparison


def reported_status(comparison: Comparison, **options: Any) -> int:
    """The exit status. The report is printed; `options` are those of `report_comparison`."""
    with pytest.raises(typer.Exit) as ended:
        report_comparison(deepcopy(comparison), **options)
    return ended.value.exit_code
