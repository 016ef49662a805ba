"""`refold serve`: the reports of the logs in a folder, in a browser on this machine."""

from pathlib import Path
from typing import Annotated, Final

import typer

from replay.cli.exit_status import errors_in_one_line, unwound_by_sigterm
from replay.errors import ReplayError

_PORT: Final = 8710
_PORT_MAX: Final = 65535

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(name="serve")
def serve(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of the logs, such as --log-dir.")
    ],
    port: Annotated[
        int, typer.Option(min=0, max=_PORT_MAX, help="The port on 127.0.0.1; 0 for a free one.")
    ] = _PORT,
) -> None:
    """Serve a list of the logs in a folder, and the report of each, on loopback only. The page of a
    log that grows follows it. Ctrl-C ends the command.

    Exit status: 0 ended by Ctrl-C, 2 DIR or the port cannot be used, 143 SIGTERM.
    """
    from replay.report.served_logs import counted_logs, logs_in
    from replay.report.serving import LOOPBACK, ReportServer

    with errors_in_one_line("serve"), unwound_by_sigterm():
        count = counted_logs(logs_in(folder))
        try:
            server = ReportServer(folder, port)
        except OSError as error:
            raise ReplayError(
                f"port {port} of {LOOPBACK} cannot be used: {error.strerror}; give another --port"
            ) from error
        with server:
            address = f"http://{LOOPBACK}:{server.server_port}/"
            typer.echo(f"{count} of {folder} at {address}; Ctrl-C ends this")
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                typer.echo("ended", err=True)
