"""Trained on short sequences, tested on long ones: which codes of position are good beyond what was seen."""

from __future__ import annotations

from dataclasses import replace

import torch
from matplotlib.figure import Figure
from torch import Tensor

from glassformer.core.positions import sinusoidal
from glassformer.lab import pictures
from glassformer.lab.experiment import Experiment, Kind, Result
from glassformer.lab.parts import generator
from glassformer.lab.teaching import teach
from glassformer.models import Decoder, DecoderConfig, decoder
from glassformer.nn import Learned, Relative, Rotary, Sinusoidal

WORDS, WIDTH = 8, 32
GOOD, BAD = 0.9, 0.6


def measure(seed: int, *, length: int = 16, steps: int = 200) -> Result:
    kinds = {
        "learned": _config(positions=Learned(length=4 * length)),
        "sinusoidal": _config(positions=Sinusoidal()),
        "rotary": _config(relative=Rotary(width=WIDTH // 2)),
        "relative bias": _config(relative=Relative(heads=2, kind="clipped", limit=8)),
    }
    accuracy = {name: _train(config, length, steps, seed) for name, config in kinds.items()}
    n = length
    parts = {"seen": slice(1, n), "up to twice": slice(n, 2 * n), "up to four times": slice(2 * n, None)}
    table = {name: {part: _mean(each[where]) for part, where in parts.items()} for name, each in accuracy.items()}
    return {"length": length, "accuracy": accuracy, "table": table, "counterexample": _smallest()}


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _config(**codes: object) -> DecoderConfig:
    """One layer of a decoder, with these positions and no others."""
    plain = decoder.plain(WORDS, WIDTH, 1, 2, 1)
    return replace(plain, text=replace(plain.text, **{"positions": None, **codes}))  # type: ignore[arg-type]


def _train(config: DecoderConfig, length: int, steps: int, seed: int) -> list[float]:
    """Learns to say the token before; the accuracy at each place of sequences four times as long."""
    model = Decoder(config, seed=seed)

    def before(random: torch.Generator) -> tuple[Tensor, Tensor]:
        X = torch.randint(0, WORDS, (32, length), generator=random)
        return X, X[:, :-1]

    teach(model, before, ask=lambda X: model(X)[:, 1:], steps=steps, rate=1e-2, seed=seed)
    X = torch.randint(0, WORDS, (64, 4 * length), generator=generator(seed))
    with torch.no_grad():
        right = (model(X)[:, 1:].argmax(-1) == X[:, :-1]).float().mean(0)
    return [1.0, *right.tolist()]  # the first token has none before it


def _smallest() -> dict[str, object] | None:
    """How few tokens it takes until a head that finds the last one by the sine of its place finds another."""
    for n in range(2, 9):
        if int(sinusoidal(n, 2)[:, 0].argmax()) != n - 1:
            text = (
                f"A head looks for the last token by the sine of its position, which is right for up to {n - 1} "
                "tokens. "
                f"Which of {n} does it find?"
            )
            head = {"WQ": [[0], [0]], "bQ": [1], "WK": [[1], [0]], "WV": [[1], [0]]}
            parts = {"X": [[0, 0]] * n, "positions": "sinusoidal", "heads": [head], "scale": "none"}
            return {"title": "One token more", "text": text, **parts}
    return None


def judge(result: Result) -> tuple[Kind, str]:
    table = result["table"]
    beyond = {name: each["up to twice"] for name, each in table.items()}
    told = ", ".join(f"{name} {each:.0%}" for name, each in beyond.items())
    far = ", ".join(f"{name} {each['up to four times']:.0%}" for name, each in table.items())
    rest = f"up to twice the length: {told}; up to four times: {far} (chance is {1 / WORDS:.0%})"
    unlearned = [name for name, each in table.items() if each["seen"] < GOOD]
    if unlearned:
        return "fails", f"{', '.join(unlearned)} did not even learn the length that it saw; {rest}"
    if beyond["learned"] > BAD or beyond["relative bias"] < GOOD:
        return "fails", rest
    if beyond["sinusoidal"] >= GOOD:
        return "holds", rest
    return "holds when", (
        f"the code is a bias by relative distance; sinusoids are defined beyond, but not understood: {rest}"
    )


def draw(result: Result) -> Figure:
    lines = result["accuracy"]
    x = list(range(len(next(iter(lines.values())))))
    marks = {"trained up to here": float(result["length"])}
    return pictures.curves(x, lines, across="position", up="accuracy", title="trained short, tested long", marks=marks)


CLAIM = Experiment(
    number=14,
    name="longer than trained",
    statement="Sinusoidal and relative codes extend beyond the training length; learned absolute codes do not.",
    formula="p > n_{train}",
    measured="One layer of a decoder learns to say the token before, on short sequences, with each kind of position "
    "code; its accuracy at every place of sequences four times as long.",
    rule=f"fails if a kind did not learn what it saw, learned codes stay above {BAD:.0%} up to twice the length, or a "
    f"relative bias falls below {GOOD:.0%}; holds if sinusoids stay above {GOOD:.0%} too; holds when the code is "
    "relative if they do not.",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={"length": "the length trained on", "steps": "steps of training"},
    least={"length": 8, "steps": 1},
    circumstances="One task, one layer of width 32, a table of learned codes with untrained rows beyond the length.",
)
