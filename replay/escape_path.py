"""Printable names of files, and names that are no files."""


def escape_path(name: object) -> str:
    """A printable text for a file name or path of any bytes; different paths differ in it."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in str(name))


def is_uri(text: str) -> bool:
    """Whether a text is a URI such as `s3a://bucket/logs`, which a path would take for a folder."""
    scheme, separator, _ = text.partition("://")
    return bool(separator) and scheme.isidentifier()
