"""What a log says of the cluster at a moment, and what changed between two: `at` opens a moment,
`folding` is the state there and takes the next event, `changes` compares two moments."""
