"""The race explorer: runs a simulated cluster in many orders and checks what must always hold.

- `invariants`: what must hold; `monitor` feeds them during a run
- `run`: one run, a pure function of a scenario and inputs
- `generators`: the strategies that make inputs
- `parallel`: many runs on all cores; `coverage`: what they reached
- `verdict`: what runs have reached, and `inputs_in_words`: their inputs, in words
- `shrink`: the smallest inputs and cluster that break the same invariant; `saved`: as a folder
"""
