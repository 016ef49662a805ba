"""`python -m tools.kafka_0_8`."""

from tools.kafka_0_8.cli import app

app(prog_name="python -m tools.kafka_0_8")
