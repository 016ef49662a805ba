"""Names of files as they can be shown."""


def escape_path(name: object) -> str:
    """A file's name or path, whatever bytes it is made of; another text for each."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in str(name))
