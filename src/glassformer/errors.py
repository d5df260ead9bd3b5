"""Errors caused by the user's input: one line with what is wrong, its value, and what to do."""

from __future__ import annotations


class GlassError(ValueError):
    """A mistake in the input. `fact` states what is wrong and quotes the value; `remedy` says what to do."""

    def __init__(self, fact: str, remedy: str) -> None:
        super().__init__(fact, remedy)  # both, so that the error survives pickling between processes
        self.fact = fact
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.fact}: {self.remedy}"


class ShapeError(GlassError):
    """Tensors or matrices whose shapes do not match."""


class MaskError(GlassError):
    """A mask under which some query may attend to nothing, or of the wrong shape or type."""


class ConfigError(GlassError):
    """A configuration that is incomplete or contradicts itself."""


class InputError(GlassError):
    """A file, a document, an expression or a number that cannot be used."""


class CheckpointError(GlassError):
    """A weight file that is damaged, unsafe to load, or does not match its model."""
