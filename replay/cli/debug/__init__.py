"""`refold debug`: the terminal program. The model is replay/debug.

- `command` is the sub-command; `app` the program; `keys` its keys; `screens` its dialogs
- `panels` are the lines and tables of its panels; `session` asks the model, in a separate thread
"""
