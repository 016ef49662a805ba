"""Tries whether `refold diff tests/incidents` finds changes of rules: `python -m
tools.planted_changes`.

The changes are listed in tests/tools/mutations/rules.toml. Each one is made in a copy of the code,
which is compared with the working tree.
"""
