"""The report of a comparison: `sentences` has the common text, the other modules the formats."""
