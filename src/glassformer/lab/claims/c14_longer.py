"""Trained on short sequences, tested on long ones: which position encodings extrapolate."""

from __future__ import annotations

from dataclasses import replace

import torch
from matplotlib.figure import Figure
from torch import Tensor

from glassformer.core.positions import sinusoidal
from glassformer.core.rotary import rotate
from glassformer.lab import plots
from glassformer.lab.experiment import NOT_JUDGED, Experiment, Kind, Result
from glassformer.lab.tensors import generator
from glassformer.lab.training import fit
from glassformer.models import Decoder, DecoderConfig, decoder
from glassformer.nn import Learned, Relative, Rotary, Sinusoidal

TOKENS, WIDTH = 8, 32
GOOD, BAD = 0.9, 0.6
SAME = 1e-9


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
    return {
        "length": length, "accuracy": accuracy, "table": table, "rotary_shift": _rotary_shift(seed, length),
        "counterexample": _smallest(),
    }  # fmt: skip


def _rotary_shift(seed: int, length: int) -> float:
    """Return the largest change of a rotary score when query and key shift by the same number of positions."""
    random = generator(seed)
    Q, K = (torch.randn(1, 1, length, WIDTH // 2, generator=random, dtype=torch.float64) for _ in range(2))
    rotary = Rotary(width=WIDTH // 2)

    def turned(X: Tensor, by: int) -> Tensor:
        cos, sin, layout = rotary.turn(torch.arange(by, by + length), torch.float64)
        return rotate(X, cos, sin, layout=layout)

    S, moved = (turned(Q, by) @ turned(K, by).mT for by in (0, 3 * length))
    return float((moved - S).abs().max())


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _config(**codes: object) -> DecoderConfig:
    """Return the config of a one-layer decoder with these position encodings only."""
    plain = decoder.plain(TOKENS, WIDTH, 1, 2, 1)
    return replace(plain, text=replace(plain.text, **{"positions": None, **codes}))  # type: ignore[arg-type]


def _train(config: DecoderConfig, length: int, steps: int, seed: int) -> list[float]:
    """Train to predict the previous token; return the accuracy at each position of sequences four times as long."""
    model = Decoder(config, seed=seed)

    def before(random: torch.Generator) -> tuple[Tensor, Tensor]:
        X = torch.randint(0, TOKENS, (32, length), generator=random)
        return X, X[:, :-1]

    fit(model, before, logits=lambda X: model(X)[:, 1:], steps=steps, lr=1e-2, seed=seed)
    X = torch.randint(0, TOKENS, (64, 4 * length), generator=generator(seed))
    with torch.no_grad():
        right = (model(X)[:, 1:].argmax(-1) == X[:, :-1]).float().mean(0)
    return [1.0, *right.tolist()]  # the first token has no predecessor


def _smallest() -> dict[str, object] | None:
    """Find the fewest tokens at which a head that locates the last one by the sine of its position picks another."""
    for n in range(2, 9):
        if int(sinusoidal(n, 2)[:, 0].argmax()) != n - 1:
            text = (
                f"A head finds the last token by the sine of its position, which works for up to {n - 1} tokens. Which "
                f"of {n} tokens does it find?"
            )
            head = {"WQ": [[0], [0]], "bQ": [1], "WK": [[1], [0]], "WV": [[1], [0]]}
            parts = {"X": [[0, 0]] * n, "positions": "sinusoidal", "heads": [head], "scale": "none"}
            return {"title": "One token more", "text": text, **parts}
    return None


def judge(result: Result) -> tuple[Kind, str]:
    table = result["table"]
    beyond = {name: each["up to twice"] for name, each in table.items()}
    shown = ", ".join(f"{name} {each:.0%}" for name, each in beyond.items())
    far = ", ".join(f"{name} {each['up to four times']:.0%}" for name, each in table.items())
    rest = (
        f"accuracy up to twice the length: {shown} (chance: {1 / TOKENS:.0%}). {NOT_JUDGED}: up to four times the "
        f"length, it is {far}"
    )
    if result["rotary_shift"] > SAME:
        shift = f"shifting query and key together changes them by {result['rotary_shift']:.2g}"
        return "fails", f"rotary scores are not relative: {shift}; {rest}"
    unlearned = [name for name, each in table.items() if each["seen"] < GOOD]
    if unlearned:
        return "fails", f"{', '.join(unlearned)} did not learn the task at the training length; {rest}"
    good = [name for name in ("sinusoidal", "rotary", "relative bias") if beyond[name] >= GOOD]
    bad = [name for name in ("sinusoidal", "rotary", "relative bias") if beyond[name] < GOOD]
    if beyond["learned"] > BAD or not good:
        return "fails", rest
    if not bad:
        return "holds", rest
    return "holds when", f"the encoding is {' or '.join(good)}, not {' or '.join(bad)}: {rest}"


def draw(result: Result) -> Figure:
    lines = result["accuracy"]
    x = list(range(len(next(iter(lines.values())))))
    marks = {"training length": float(result["length"])}
    return plots.curves(x, lines, across="position", up="accuracy", title="trained short, tested long", marks=marks)


CLAIM = Experiment(
    number=14,
    name="beyond the training length",
    statement="Sinusoidal and relative position encodings extend beyond the training length; learned absolute ones do "
    "not.",
    formula="p > n_{train}",
    measured="The accuracy of a one-layer decoder, trained with each kind of position encoding to predict the "
    "previous token of short sequences, at every position of sequences four times as long.",
    rule=f"“fails” if shifting query and key together changes a rotary score (by more than {SAME:g}), if a decoder "
    f"stays below {GOOD:.0%} at the training length, if the one with learned encodings stays above {BAD:.0%} up to "
    f"twice that length, or if no other reaches {GOOD:.0%} there; “holds” if those with sinusoidal, rotary and "
    "relative bias all do; otherwise “holds when the encoding is one of those that do”.",
    falsified_by="Learned encodings that stay accurate beyond the training length, a relative bias that does not, or "
    "rotary scores that depend on more than the distance.",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={"length": "training length"},
    least={"length": 8, "steps": 1},
    circumstances="One task and one layer of width 32. The rows of the learned table beyond the training length are "
    "untrained.",
)
