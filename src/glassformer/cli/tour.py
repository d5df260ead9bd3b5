"""`glassformer tour`: a worked exercise and the attention of a small model, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

SHADES = " ░▒▓█"
SENTENCE = ["the", "cat", "sat", "on", "the", "mat", "because", "it", "was", "soft"]


def tour() -> None:
    """Show a worked exercise and a small model in the same symbols."""
    from rich.console import Console
    from rich.rule import Rule

    from glassformer.exercises import library
    from glassformer.exercises.solution import render, solve

    console = Console(highlight=False)
    console.print(Rule("On paper: four tokens, every step exact"))
    console.print(render(solve(library.get("four-tokens")), width=min(console.width, 100)), markup=False)
    console.print(Rule("The same attention in a model: every quantity of a run, by its path"))
    run = traced()
    console.print(run)
    console.print()
    console.print(
        "The attention weights A of layer 1, head 0: one row per word, darker for larger weights. The mask is causal:"
    )
    console.print(shaded(run["decoder.1.attention.A"][0, 0].tolist(), SENTENCE), markup=False)
    console.print(Rule("Next steps"))
    console.print(
        "glassformer solve --list      exercises to solve\n"
        "glassformer check --help      have your own working graded\n"
        "glassformer practice -i       practise one step at a time\n"
        "glassformer --help            all commands",
        markup=False,
    )


def traced() -> Any:
    """Trace a small decoder with random weights on a sentence of ten words."""
    import torch

    from glassformer.lens import edit, trace
    from glassformer.models import Decoder, decoder

    model = Decoder(decoder.tiny(), seed=1).eval()
    words = {word: i for i, word in enumerate(dict.fromkeys(SENTENCE))}
    tokens = torch.tensor([[words[word] for word in SENTENCE]])
    # untrained heads attend almost uniformly: a larger β makes their pattern visible
    with torch.no_grad(), edit(model, "decoder.*.attention.beta", 60.0), trace(model) as run:
        model(tokens)
    return run


def shaded(A: Sequence[Sequence[float]], words: Sequence[str]) -> str:
    """Format weights as shades, two characters per cell."""
    wide = max(map(len, words))
    rows = (
        f"{word:>{wide}} " + "".join(SHADES[min(len(SHADES) - 1, round(a * (len(SHADES) - 1)))] * 2 for a in row)
        for word, row in zip(words, A, strict=True)
    )
    return "\n".join(rows)
