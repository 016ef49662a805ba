"""Secrets in memory."""


class Password:
    """A secret text, which no representation contains, as Kafka's type of the same name."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The secret as plain text."""
        return self._text

    def __repr__(self) -> str:
        return "[hidden]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Password) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)
