"""The entry point of the `refold` script."""

import signal


def main() -> None:
    """Load the command line and run it. While it is loaded, Ctrl-C ends the process at once: Python
    would print where it was."""
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_default:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from replay.cli.main import main as run

    if is_default:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()
