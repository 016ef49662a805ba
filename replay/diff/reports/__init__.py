"""A comparison told: `told` says what all formats say, the others write it in theirs."""
