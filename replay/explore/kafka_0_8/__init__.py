"""`refold explore --design 0.8`: random clusters of the 0.8 design in the controller's simulation.

- `generator`: random clusters, faults and commands of administrators
- `known_cluster`, `losses`: what the znodes say, which losses of records are a flaw of the design
- `invariants`, `monitor`: what must hold, checked after every step and at the end
- `run`: one run of a scenario with inputs
- `search`: runs one after another, and shrinks a run that breaks an invariant
- `saved`: such a run on disk
"""
