"""Takes rules out of the code, one at a time, and sees whether the tests that name them fail.

`tests/tools/mutations/*.toml` list the mutations; `python -m tools.mutations` runs them.
"""
