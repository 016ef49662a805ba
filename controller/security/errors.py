"""Errors of security settings. The operator is at fault."""


class SecurityError(Exception):
    """A certificate, key, login or policy that cannot be used. The text names the setting or file
    and says what to do; it contains no secret."""


class LoginRejected(Exception):
    """A client's login is not valid. The text is for the operator, not for the client; it contains
    no secret."""
