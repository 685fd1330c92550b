"""A prompt as a model is given it: one text, which is a system message and a user message where it can be."""

from __future__ import annotations


class Messages(str):
    """A system message, perhaps empty, and a user message; a string for models that take one text."""

    system: str
    user: str

    def __new__(cls, system: str, user: str) -> Messages:
        """A prompt of these parts; its text is the two with an empty line between them."""
        self = super().__new__(cls, f"{system}\n\n{user}" if system else user)
        self.system, self.user = system, user
        return self

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]  # str has one argument
        return self.system, self.user

    @classmethod
    def of(cls, prompt: str) -> Messages:
        """A prompt as messages; a plain string is one user message."""
        return prompt if isinstance(prompt, cls) else cls("", prompt)

    @property
    def by_role(self) -> list[tuple[str, str]]:
        """Role and text of each message."""
        return [("system", self.system), ("user", self.user)] if self.system else [("user", self.user)]

    def joined(self) -> Messages:
        """The same text as one user message."""
        return Messages("", str(self))
