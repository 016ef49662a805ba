"""Everything that must hold in a cluster: one module for each family of invariants.

docs/invariants.md lists them; a test compares that page with `catalogue`.
"""
