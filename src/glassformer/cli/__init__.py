"""One module per command, with one function of the command's name; heavy imports happen inside it."""

from __future__ import annotations

# In the order that --help lists them. A name with a dash lives in a module with an underscore.
COMMANDS = (
    "serve", "tour", "solve", "check", "practice", "construct", "look", "sweep",
    "lab", "compare", "leaks", "data", "convert", "info", "bench", "parity", "export",
    "train", "evaluate", "generate", "embed", "classify", "translate", "transcribe",
)  # fmt: skip
