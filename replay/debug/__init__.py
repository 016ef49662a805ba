"""The model of `refold debug`: a cursor over a log, without a screen.

- `tape` plays a log of either kind from any event on; `playback` keeps the checkpoints from which
  it goes back
- `moments` are the events as the debugger shows them; `conditions` select some of them
- `cursor` is the position: steps, searches, breakpoints, a filter, causes and effects
- `questions` are the subjects and changes that the event at the cursor suggests
"""
