"""Draws the state machines of the core into docs/state_machines.md, from their tables."""
