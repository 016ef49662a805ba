"""Text that people read: names that clients and files choose may contain control characters."""


def escape_unprintable(text: object) -> str:
    """A text in one line that cannot control a terminal; different texts differ in it."""
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in shown)
