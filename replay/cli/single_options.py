"""Refuses an option that is given twice and has one value."""

from collections import Counter
from typing import Any

import typer
from typer.core import TyperCommand


class SingleOptions(TyperCommand):
    """A command that answers a question: of two values for one option, it must not use only the
    last one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments of the command. Raises typer.BadParameter for an option with too many
        values."""
        # Parsing an argument again changes nothing; the base class keeps no count of the options.
        parser: Any = self.make_parser(ctx)
        *_, given = parser.parse_args(args=[*args])
        for option, count in Counter(given).items():
            if count > 1 and not option.multiple and not getattr(option, "is_flag", False):
                raise typer.BadParameter(
                    f"is given {count} times: give it once", ctx=ctx, param=option
                )
        return super().parse_args(ctx, args)
