"""URIs in place of paths."""


def is_uri(text: str) -> bool:
    """Whether a text is a URI such as `s3a://bucket/logs`, which a path would take for a folder."""
    scheme, separator, _ = text.partition("://")
    return bool(separator) and scheme.isidentifier()
