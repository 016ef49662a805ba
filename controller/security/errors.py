"""Errors of security settings. The operator is at fault."""


class SecurityError(Exception):
    """A certificate, key, login or policy that cannot be used. The text names the setting or file
    and says what to do; it contains no secret."""
