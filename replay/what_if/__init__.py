"""`refold what-if`: an incident with something changed, continued in the simulated cluster.

- `history`: what happened to partitions and brokers, from a log or from a simulated run
- `causes`, `incident`: what came from outside, read from a log of either kind;
  `registration_reports`: the events that first show changes of registrations
- `starting`: the scenario and the inputs that continue an incident from one of its events
- `changes`, `settings`: what the user changes
- `outcome`, `assumptions`: what differs, and what no log says
- `continuing`: the answer to one question
- `conditions`, `branches`, `searching`: the point of no return
- `saved_run`: incidents that `refold explore` has saved
"""
