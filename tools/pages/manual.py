"""docs/refold.1: the manual page, with the help of every command."""

from typing import Final

from tools.pages.commands import Help, command_helps

_HEAD: Final = """\
.\\" Generated from the commands by `python -m tools.pages --write`.
.TH REFOLD 1 "" "refold" "User Commands"
.SH NAME
refold \\- an event-sourced controller for Kafka clusters in ZooKeeper mode
.SH SYNOPSIS
.B refold
[\\fIoptions\\fR] \\fIcommand\\fR [\\fIarguments\\fR]
"""

_END: Final = """\
.SH ENVIRONMENT
.TP
.B NO_COLOR
If it is set, output has no colours.
.TP
.B REFOLD_...
Settings; see docs/settings.md.
"""


def page() -> str:
    """The whole page, for man."""
    return "".join([_HEAD, *map(_section, command_helps()), _END])


def _section(help: Help) -> str:
    title = " ".join(help.words[1:]).upper() or "COMMANDS"
    return f".SH {_escaped(title)}\n.nf\n{_escaped(help.text.strip())}\n.fi\n"


def _escaped(text: str) -> str:
    """Text that roff prints unchanged: a period or quote that begins a line is no request."""
    lines = text.replace("\\", "\\e").replace("-", "\\-").splitlines()
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in lines)
