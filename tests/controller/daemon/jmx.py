"""The JMX values of a real broker, by Kafka's JmxTool."""

from tools.lab.kafka_tools import run_main_class
from tools.lab.ports import HOST
from tools.lab.server import LabError


def jmx_options(port: int) -> tuple[str, ...]:
    """The options of a JVM that serves its JMX values on a port."""
    remote = "-Dcom.sun.management.jmxremote"
    return (
        remote,
        f"{remote}.port={port}",
        f"{remote}.rmi.port={port}",
        f"{remote}.authenticate=false",
        f"{remote}.ssl=false",
        f"-Djava.rmi.server.hostname={HOST}",
    )


async def jmx_values(kafka: str, port: int, pattern: str) -> dict[str, float]:
    """The numbers of all beans whose names match, by <name>:<attribute>. Raises LabError."""
    url = f"service:jmx:rmi:///jndi/rmi://{HOST}:{port}/jmxrmi"
    found = await run_main_class(
        kafka,
        "org.apache.kafka.tools.JmxTool",
        *("--jmx-url", url, "--object-name", pattern),
        *("--one-time", "--report-format", "properties"),
    )
    if found.status:
        raise LabError(f"JmxTool failed: {found.problems or found.output}")
    values = {}
    for line in found.output.splitlines():
        name, equals, text = line.rpartition("=")
        try:
            values[name] = float(text)
        except ValueError:
            continue
        if not equals:
            del values[name]
    return values
