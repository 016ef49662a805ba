"""Producers and consumers when the leader of a partition dies (docs/acknowledgements.md): `python
-m tools.demo.acks`, or `make demo-acks`."""
