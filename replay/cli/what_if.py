"""`refold what-if`: an incident with something changed, and the point of no return."""

import os
import secrets
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from controller.cli.output import print_result
from replay.cli.exit_status import errors_in_one_line, interrupted_by_sigterm, unwound_by_sigterm
from replay.cli.options import WORKERS_MAX, Json, Log
from replay.cli.progress import progress
from replay.errors import ReplayError

if TYPE_CHECKING:
    from replay.logs.open_log import OpenedLog
    from replay.what_if.changes import WhatIfChanges
    from replay.what_if.incident import Incident

_SAME, _DIFFERS = 0, 1
_BRANCHES: Final = 50
_MOMENTS: Final = 20
_SEED_BITS: Final = 32

app = typer.Typer(add_completion=False, rich_markup_mode=None)

Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="[TOPIC:]KEY=VALUE",
        help="Another setting, of controller and brokers or of a topic, by Kafka's name.",
    ),
]
Drop = Annotated[
    list[int] | None,
    typer.Option("--drop", metavar="SEQ", help="The external cause of this event did not happen."),
]
Delay = Annotated[
    list[str] | None,
    typer.Option(
        "--delay", metavar="SEQ=TIME", help="It happened later: 120=2s, 120=500ms, 120=1min."
    ),
]
Crash = Annotated[
    list[str] | None,
    typer.Option("--crash", metavar="broker=ID@SEQ|controller@SEQ", help="A process crashes."),
]
Restart = Annotated[
    list[str] | None,
    typer.Option(
        "--restart", metavar="broker=ID@SEQ|controller@SEQ", help="A process starts, or restarts."
    ),
]
Cancel = Annotated[
    list[str] | None,
    typer.Option(
        "--cancel-reassignment",
        metavar="[PARTITION]@SEQ",
        help="The reassignments under way are cancelled, or that of a partition.",
    ),
]
Branches = Annotated[
    int | None,
    typer.Option(min=1, help=f"Futures from each moment. Default: {_BRANCHES}."),
]
Moments = Annotated[
    int | None,
    typer.Option(min=2, help=f"Try about this many moments first. Default: {_MOMENTS}."),
]

Begin = Annotated[
    int | None,
    typer.Option(
        "--from", metavar="SEQ", help="Continue after this event. Default: before the changes."
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Save the continued run with its log there."),
]
Invariant = Annotated[
    str | None,
    typer.Option(
        metavar="CONDITION",
        help="Find the point of no return: the name of an invariant, or `t-0 offline`, `t-0 lost`"
        " or `t-0 leader 3`.",
    ),
]
Seed = Annotated[int | None, typer.Option(min=0, help="The same seed makes the same futures.")]
Workers = Annotated[
    int | None,
    typer.Option(min=1, max=WORKERS_MAX, help="Processes for futures. Default: all cores."),
]


@app.command(name="what-if")
def what_if(
    log: Log,
    set_: Set = None,
    drop: Drop = None,
    delay: Delay = None,
    crash: Crash = None,
    restart: Restart = None,
    cancel_reassignment: Cancel = None,
    begin: Begin = None,
    out: Out = None,
    invariant: Invariant = None,
    branches: Branches = None,
    moments: Moments = None,
    seed: Seed = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Change something in an incident, continue it in a simulated cluster, and compare the outcome
    with what happened. Options for changes can be repeated.

    With --invariant: branch the incident at moments all along it, run simulated futures from each,
    and show how likely a bad outcome was.

    Exit status: 0 the outcome is the same (no future is bad), 1 it differs (some are bad), 2 the
    log or an option cannot be used.
    """
    from replay.what_if.changes import WhatIfChanges

    changes = WhatIfChanges(
        set=tuple(set_ or ()),
        drop=tuple(drop or ()),
        delay=tuple(delay or ()),
        crash=tuple(crash or ()),
        restart=tuple(restart or ()),
        cancel_reassignment=tuple(cancel_reassignment or ()),
        begin=begin,
    )
    of_search = {
        "--branches": branches,
        "--moments": moments,
        "--seed": seed,
        "--workers": workers,
    }
    with errors_in_one_line("what-if"):
        if invariant is None:
            _refuse(of_search, "only together with --invariant")
            differs = _answer(log, changes, out, as_json=as_json)
        else:
            _refuse({"--out": out}, "not together with --invariant")
            sizes = (branches or _BRANCHES, moments or _MOMENTS)
            seed = secrets.randbits(_SEED_BITS) if seed is None else seed
            workers = workers or os.cpu_count() or 1
            differs = _search(log, changes, invariant, sizes, seed, workers, as_json=as_json)
    raise typer.Exit(_DIFFERS if differs else _SAME)


def _refuse(options: Mapping[str, object], why: str) -> None:
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise typer.BadParameter(why, param_hint=", ".join(given))


def _read_incident(path: str, log: "OpenedLog") -> "Incident":
    from replay.what_if.saved_run import incident_of

    with progress() as report:
        return incident_of(path, log, report)


def _answer(source: str, changes: "WhatIfChanges", out: Path | None, *, as_json: bool) -> bool:
    """Answer a question. Returns whether the outcome differs."""
    from replay.cli.what_if_report import answer_document, print_answer
    from replay.explore.saved import reserved
    from replay.logs.open_log import open_log
    from replay.what_if.continuing import what_if as continue_incident
    from replay.what_if.saved_run import save

    if changes.is_empty and out is None:
        raise ReplayError(
            "nothing is changed: give --set, --drop, --delay, --crash, --restart or "
            "--cancel-reassignment, or --out to continue the incident as it is"
        )
    with unwound_by_sigterm(), reserved(out) if out is not None else nullcontext():
        with open_log(source) as log:
            incident = _read_incident(source, log)
            with progress(every=1) as report:
                answer, continued = continue_incident(incident, changes, report)
        logs = save(continued, incident, source, out) if out is not None else []
    document = answer_document(answer, incident, logs)
    print_result(document, lambda: print_answer(answer, incident, logs), as_json=as_json)
    return bool(answer.effect)


def _search(
    source: str,
    changes: "WhatIfChanges",
    condition: str,
    sizes: tuple[int, int],
    seed: int,
    workers: int,
    *,
    as_json: bool,
) -> bool:
    """Search for the point of no return. Returns whether a future has the bad outcome."""
    from replay.cli.what_if_report import curve_document, print_curve
    from replay.logs.open_log import open_log
    from replay.what_if.changes import apply_changes
    from replay.what_if.conditions import condition_of
    from replay.what_if.describing import event_texts
    from replay.what_if.searching import Search, point_of_no_return

    with unwound_by_sigterm(), open_log(source) as log:
        incident = _read_incident(source, log)
        changed = apply_changes(incident, changes)
        search = Search(condition_of(condition, incident), *sizes, seed, workers)
        with progress(every=1) as report, interrupted_by_sigterm("refold what-if: ending"):
            curve = point_of_no_return(incident, changed, search, report)
        seqs = [one.seq for one in curve.jumps]
        texts = event_texts(log, incident, changed, seqs)
    document = curve_document(curve, incident, condition, texts)
    print_result(document, lambda: print_curve(curve, incident, condition, texts), as_json=as_json)
    return any(one.bad for one in curve.points)
