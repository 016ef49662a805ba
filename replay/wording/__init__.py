"""What logs hold in plain words: events of both kinds of logs, commands, error codes by name."""
