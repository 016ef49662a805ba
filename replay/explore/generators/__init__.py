"""The strategies: each makes lists of inputs for runs.

- `attempt` is how a strategy runs them; `strategies` lists all of them
- `scenarios` makes clusters; `mix`, with `faults` and `acts`, random inputs
- `pct`, `staleness`, `crash_points` and `systematic` change a base run, whose trace they look at;
  `trace` finds what races in it
- `from_log` makes a scenario and inputs of a log
"""
