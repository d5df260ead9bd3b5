"""E[p + s] = E[p] R_s: a shift of position rotates each (sin, cos) pair by a fixed angle."""

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
            f"the codes are not the sinusoids of the paper: they are {result['formula']:.2g} away, and neighbours "
            f"differ by {result['moved']:.2g} at least"
        )
    if error < EXACT and fitted < EXACT:
        return "holds", (
            f"for {len(result['shifts'])} shifts and {result['length']} positions one matrix each is right to "
            f"{error:.1g}, a matrix fitted to the codes alone to {fitted:.1g} (neighbouring codes differ by "
            f"{result['moved']:.2g} or more)"
        )
    return "fails", f"the maps are off by {error:.2g}, the fitted ones by {fitted:.2g}"


def draw(result: Result) -> Figure:
    lines = {"rotation by formula": result["error"], "fitted": result["fitted"]}
    title = "one linear map for every position"
    return plots.curves(result["shifts"], lines, across="shift s", up="largest error", title=title, log="y")


CLAIM = Experiment(
    number=13,
    name="sinusoids shift linearly",
    statement="Sinusoidal codes: the code of position p + s is a fixed linear map of the code of p, whatever p is.",
    formula="E_{p+s} = R_s E_p",
    measured="For several shifts, how far the rotation is from the code over all positions; and how well a matrix "
    "fitted by least squares does.",
    rule="holds if the codes are those of the paper's formula, neighbouring codes differ, and both maps are right, "
    f"all to {EXACT:g} at every position and shift; else fails.",
    falsified_by="Codes whose shift no fixed matrix gives, codes that do not change with the position, or codes that "
    "differ from sin and cos.",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={"width": "the code's width (even)", "length": "number of positions", "shifts": "number of shifts"},
    least={"width": 2, "length": 256},
)
