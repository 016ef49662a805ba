"""What can be made smaller in a run: `clusters` and `values`."""
