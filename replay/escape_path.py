"""Printable names of files."""


def escape_path(name: object) -> str:
    """A printable text for a file name or path of any bytes; different paths differ in it."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in str(name))
