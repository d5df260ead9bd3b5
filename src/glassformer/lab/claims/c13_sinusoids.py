"""E[p + s] = E[p] R_s: shifting the position rotates each (sin, cos) pair by a fixed angle."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure

from glassformer.core.positions import shift_matrix, sinusoidal
from glassformer.lab import plots
from glassformer.lab.experiment import Experiment, Kind, Result
from glassformer.lab.tensors import generator, largest

EXACT = 1e-8


def measure(seed: int, *, width: int = 32, length: int = 4096, shifts: int = 8) -> Result:
    chosen = sorted(torch.randint(1, 257, (shifts,), generator=generator(seed)).tolist())
    E = sinusoidal(length + max(chosen), width, dtype=torch.float64)
    p = torch.arange(len(E), dtype=torch.float64)[:, None]
    angles = p / 10_000 ** (torch.arange(0, width, 2, dtype=torch.float64) / width)  # the paper's formula, written out
    formula = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
    errors, fitted = [], []
    for s in chosen:
        before, after = E[:length], E[s : s + length]
        errors.append(largest(before @ shift_matrix(width, s) - after))
        R = torch.linalg.lstsq(before, after, driver="gelsd").solution  # without knowing the formula
        fitted.append(largest(before @ R - after))
    moved = float((E[1 : length + 1] - E[:length]).norm(dim=-1).min())
    return {
        "shifts": chosen, "error": errors, "fitted": fitted, "length": length,
        "formula": largest(E - formula), "moved": moved,
    }  # fmt: skip


def judge(result: Result) -> tuple[Kind, str]:
    error, fitted = max(result["error"]), max(result["fitted"])
    if result["formula"] > EXACT or result["moved"] <= EXACT:
        return "fails", (
            f"the encodings are not the sinusoids of the paper: they differ from the formula by up to "
            f"{result['formula']:.2g}, and neighbouring encodings differ by at least {result['moved']:.2g}"
        )
    if error < EXACT and fitted < EXACT:
        return "holds", (
            f"for {len(result['shifts'])} shifts and {result['length']} positions, one rotation per shift is exact to "
            f"{error:.1g}, and a matrix fitted to the encodings to {fitted:.1g} (neighbouring encodings differ by at "
            f"least {result['moved']:.2g})"
        )
    return "fails", f"the error of the rotation is up to {error:.2g}, that of the fitted matrix up to {fitted:.2g}"


def draw(result: Result) -> Figure:
    lines = {"rotation": result["error"], "fitted matrix": result["fitted"]}
    title = "one linear map for every position"
    return plots.curves(result["shifts"], lines, across="shift s", up="largest error", title=title, log="y")


CLAIM = Experiment(
    number=13,
    name="sinusoids shift linearly",
    statement="The sinusoidal encoding of position p + s is a fixed linear map of the encoding of p, for every p.",
    formula="E_{p+s} = E_p R_s",
    measured="For several shifts s, the largest error of the rotation R_s over all positions, and that of a matrix "
    "fitted by least squares.",
    rule=f"“holds” if the encodings equal the formula of the paper and both maps are exact, to {EXACT:g} at every "
    "position and shift, and neighbouring encodings differ by more than that; otherwise “fails”.",
    falsified_by="A shift that no fixed matrix reproduces, encodings that do not change with the position, or "
    "encodings that differ from sin and cos.",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={"width": "width of the encoding (even)", "length": "number of positions", "shifts": "number of shifts"},
    least={"width": 2, "length": 256},
)
