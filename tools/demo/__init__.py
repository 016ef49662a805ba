"""The demonstration: `python -m tools.demo`, or `make demo`."""
