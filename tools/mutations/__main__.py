"""`python -m tools.mutations`: exit 0 when every rule is held by the tests that name it.

1: a test still passes without the rule. 2: the list, or a test without any mutation, is wrong.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table

from tools.mutations.choosing import chosen
from tools.mutations.listing import ListingError, Mutation, check_mutations, read_mutations
from tools.mutations.tree import copy_tree
from tools.mutations.trials import Verdict, check_unchanged, try_mutations

ROOT = Path(__file__).parents[2]
_UNUSABLE = 2

_errors = Console(stderr=True)


def main(
    only: Annotated[
        list[int] | None, typer.Option(help="The number of a mutation, as the table has it.")
    ] = None,
    share: Annotated[
        int, typer.Option(min=1, help="Try one in N, others after each commit.", metavar="N")
    ] = 1,
    base: Annotated[
        str, typer.Option(help="With --share: and all that changed since this commit.")
    ] = "",
    jobs: Annotated[int, typer.Option(min=1, help="Mutations tried at a time.")] = 2,
    as_json: Annotated[bool, typer.Option("--json", help="Verdicts as JSON.")] = False,
    root: Annotated[Path, typer.Option(help="The source tree.")] = ROOT,
) -> None:
    """Take each rule out of a copy of the code and run the tests that name it."""
    try:
        mutations = list(enumerate(read_mutations(root), 1))
        if only:
            _check_numbers(only, len(mutations))
            mutations = [(number, one) for number, one in mutations if number in only]
        check_mutations(root, [mutation for _, mutation in mutations])
        if share > 1:
            mutations = chosen(root, mutations, share, base)
        verdicts = _try(root, mutations, jobs)
    except ListingError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(_UNUSABLE) from None
    if as_json:
        typer.echo(msgspec.json.encode(verdicts).decode())
    else:
        _show(verdicts)
    raise typer.Exit(int(not all(one.is_noticed for one in verdicts)))


def _check_numbers(only: list[int], count: int) -> None:
    unknown = [str(number) for number in only if not 1 <= number <= count]
    if unknown:
        raise ListingError(f"--only {', '.join(unknown)}: the mutations are 1 to {count}")


def _try(root: Path, mutations: list[tuple[int, Mutation]], jobs: int) -> list[Verdict]:
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        trees = [Path(folder) / str(number) for number in range(jobs)]
        copy_tree(root, trees[0])
        check_unchanged(trees[0], [mutation for _, mutation in mutations], jobs)
        for tree in trees[1:]:
            shutil.copytree(trees[0], tree)
        verdicts = track(
            try_mutations(trees, mutations),
            "Mutations",
            total=len(mutations),
            console=_errors,
            transient=True,
        )
        return sorted(verdicts, key=lambda one: one.number)


def _show(verdicts: list[Verdict]) -> None:
    table = Table("", "rule", "file", "tests that do not notice")
    for one in verdicts:
        if not one.is_noticed:
            said = "\n".join(one.unmoved) or f"cannot be run: {one.broken}"
            table.add_row(str(one.number), escape(one.rule), one.file, escape(said))
    console = Console()
    if table.row_count:
        console.print(table)
    noticed = sum(one.is_noticed for one in verdicts)
    console.print(f"{noticed} of {len(verdicts)} mutations are noticed by every test named")


if __name__ == "__main__":
    typer.run(main)
