"""Tools for the 0.8 design (docs/design-0.8.md)."""
