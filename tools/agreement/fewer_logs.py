"""Copies of a recording without some of the brokers' logs, as in most clusters. `refold agree` has
to agree on these, too."""

import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

_DETAIL: Final = re.compile(rb"\[[^]]*\] (?:DEBUG|TRACE) ")
_LINE_START: Final = re.compile(rb"(?m)^(?=\[\d{4}-)")


def _is_controller_log(name: str) -> bool:
    return name.startswith("controller.log")


def _is_state_change_log(name: str) -> bool:
    return name.startswith("state-change.log")


def _is_request_log(name: str) -> bool:
    return "request" in name


LEFT_OUT: Final[Mapping[str, Callable[[str], bool]]] = {
    "all": lambda _: False,
    "no state-change.log": _is_state_change_log,
    "no request log": _is_request_log,
    "no controller.log": _is_controller_log,
    "request log only": lambda name: _is_controller_log(name) or _is_state_change_log(name),
    "state-change.log only": lambda name: _is_controller_log(name) or _is_request_log(name),
    "level INFO, no request log": _is_request_log,
    "none": lambda _: True,
}
"""For each kind of copy, whether a log with a given name is left out."""
_AT_INFO: Final = "level INFO, no request log"


def copy_with_fewer_logs(recording: Path, copy: Path, kind: str) -> None:
    """Copy the folder of a recording, with the logs of this kind of LEFT_OUT."""
    is_left_out = LEFT_OUT[kind]
    shutil.copytree(recording, copy)
    for path in sorted(copy.rglob("logs/*/*")):
        if is_left_out(path.name):
            path.unlink()
        elif kind == _AT_INFO:
            path.write_bytes(_at_info(path.read_bytes()))


def _at_info(log: bytes) -> bytes:
    """The lines that log4j writes at level INFO."""
    return b"".join(one for one in _LINE_START.split(log) if not _DETAIL.match(one))
