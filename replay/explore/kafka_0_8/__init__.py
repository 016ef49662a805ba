"""`refold explore --design 0.8`: random acts on a simulated cluster of the 0.8 design.

- `acts`: what can happen to a cluster, and how it is drawn
- `monitor`: the invariants, checked after every event and at the end
- `search`: runs one after another, and shrinks a run that breaks an invariant
"""
