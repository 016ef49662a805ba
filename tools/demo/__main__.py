"""One incident on real servers, from taking over the controller's role to handing it back, and its
replay.

The demonstration starts a real ZooKeeper, three stock Kafka brokers and a producer with acks=all.
refold takes the controller's role from a stock broker. A broker is killed and restarted, refold is
killed and restarted, and finally refold hands the role back. Then every log is replayed.
"""

from typing import Annotated

import typer

from tools.demo.incident import BROKER_CONFIG, DemoIncident
from tools.demo.stage import ServersFolder, Stage, perform

app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def main(
    folder: ServersFolder = None,
    inter_broker_protocol: Annotated[
        str | None, typer.Option(help="inter.broker.protocol.version; default: Kafka's default.")
    ] = None,
) -> None:
    """Show refold on real servers. Exit status: 0 all checks passed, 1 one failed."""

    async def play(stage: Stage) -> None:
        await stage.start(BROKER_CONFIG, inter_broker_protocol)
        await stage.take_over()
        await DemoIncident(stage).play()

    perform(play, folder, "demo")


if __name__ == "__main__":
    app()
