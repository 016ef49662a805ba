"""`python -m tools.audit`: compares the locked dependencies with published advisories."""

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from tools.audit.advisories import Audit, AuditError, ask_index, locked, read_folder

_LOCKS: Final = (Path("requirements/dev.lock"), Path("requirements/build.lock"))
_ACCEPTED: Final = Path("requirements/accepted-advisories.txt")

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    program: Annotated[Path, typer.Option(help="pip-audit.")] = Path("build/audit/bin/pip-audit"),
    advisories: Annotated[
        Path | None,
        typer.Option(help="A copy of pypa/advisory-database, in place of the package index."),
    ] = None,
) -> None:
    """Compare the lock files with advisories.

    Exit status: 0 none is known, or none could be read; the last line says which. 1 a package is
    vulnerable. 2 the given advisories cannot be read.
    """
    accepted = _accepted_advisories(_ACCEPTED)
    vulnerable = False
    for lock in _LOCKS:
        packages = locked(lock)
        try:
            if advisories is not None:
                audit = read_folder(packages, advisories)
            else:
                audit = ask_index(lock, program)
        except AuditError as error:
            if advisories is not None:
                typer.echo(f"audit: {error}", err=True)
                raise typer.Exit(2) from None
            audit = Audit(str(error), frozenset(), ())
        vulnerable |= _report(lock, len(packages), audit, accepted)
    sys.exit(1 if vulnerable else 0)


def _accepted_advisories(file: Path) -> dict[str, str]:
    """The accepted advisories with their reasons: lines "ID reason"."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return {one.split()[0]: one for one in lines if one.strip() and not one.startswith("#")}


def _report(lock: Path, count: int, audit: Audit, accepted: dict[str, str]) -> bool:
    """Print what was found. Returns whether a package is vulnerable."""
    new = [one for one in audit.found if one.id not in accepted]
    for one in audit.found:
        fixed = f"fixed in {', '.join(one.fixed)}" if one.fixed else "no version is fixed"
        known = f" (accepted: {accepted[one.id]})" if one.id in accepted else ""
        typer.echo(f"{one.package.name} {one.package.version}: {one.id}, {fixed}{known}")
    compared = len(audit.compared)
    if not compared:
        typer.echo(
            f"NOT AUDITED: {lock}: no advisories could be read from {audit.source}. Nothing is "
            "known about its packages. With a copy of pypa/advisory-database: "
            "make audit ADVISORIES=FOLDER"
        )
    else:
        left = f", {count - compared} NOT COMPARED" if compared < count else ""
        typer.echo(
            f"{lock}: {compared} of {count} packages compared with {audit.source}{left}: "
            f"{len(new)} vulnerabilities"
        )
    return bool(new)


if __name__ == "__main__":
    app()
