"""One module per command, with one function of the command's name; heavy imports happen inside it."""

from __future__ import annotations

# In the order of --help. The module of a command with a dash has an underscore instead.
COMMANDS = (
    "serve", "site", "tour", "solve", "check", "practice", "construct", "look", "sweep",
    "lab", "compare", "leaks", "data", "convert", "info", "bench", "parity", "export",
    "train", "evaluate", "generate", "embed", "classify", "translate", "transcribe",
)  # fmt: skip
