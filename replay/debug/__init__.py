"""The model of `refold debug`: a cursor over a log, without a screen.

- `log_replay` replays a log of either kind from any event on; `seekable_log` keeps the checkpoints
  from which it goes back
- `event_view` is an event as the debugger shows it; `conditions` select some of them
- `cursor` is the position: steps, searches, breakpoints, a filter, causes and effects
- `questions` are the subjects and changes that the event at the cursor suggests
"""
