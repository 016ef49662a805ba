"""The exceptions of the fleet's pipeline."""

from replay.errors import ReplayError


class FleetError(ReplayError):
    """Spark, a source or the table cannot be used; the text says why and what to do."""


class OutputError(FleetError):
    """What was read cannot be written: the disk of the table is full, or gone."""
