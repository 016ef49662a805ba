"""Commands for the 0.8 design (docs/design-0.8.md): `python -m tools.kafka_0_8 --help`.

`cli.py` has the commands for clients and administrators, `broker_command.py` runs a broker.
"""
