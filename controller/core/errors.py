"""The exceptions of the core."""


class CoreError(Exception):
    """Base of all errors of the core."""


class ConfigurationError(CoreError):
    """A setting that the controller cannot work with; the text names it and says what to do."""


class ControllerMovedError(CoreError):
    """A guarded write was refused: another controller has raised the epoch (KB 1.3.3)."""


class ProcedureError(CoreError):
    """A step of a procedure failed; the rest of the procedure is dropped (KB 3.1.5)."""


class RequestRefused(CoreError):
    """A request cannot be carried out: it is answered with a Kafka error code and, where Kafka
    sends one, a message."""

    def __init__(self, error: int, message: str | None = None) -> None:
        super().__init__(message or f"error code {error}")
        self.error = error
        self.message = message


class ZnodeError(CoreError):
    """The content of a znode cannot be used; the text names its path."""


class TermEnded(BaseException):
    """Thrown into the running procedure when its session has ended; nothing may catch it."""
