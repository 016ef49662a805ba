"""Mutation testing: change the code in one place and see whether a test fails.

`python -m tools.mutations` runs it; docs/mutation-testing.md describes it.
"""
