"""O_t = Σ_h C_h x_{t + δ_h}: each head attends to one position of the kernel, and W_O holds the coefficients."""

from __future__ import annotations

from itertools import pairwise

import torch
from matplotlib.figure import Figure
from torch.nn.functional import conv2d

from glassformer.lab import plots
from glassformer.lab.experiment import NOT_JUDGED, Experiment, Kind, Result
from glassformer.lab.tensors import generator, largest, normal
from glassformer.lens import edit
from glassformer.lens.construct import build, convolution

BETAS = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]
EXACT = 1e-9


def measure(seed: int, *, kernel: int = 3, size: int = 6, channels: int = 2) -> Result:
    random = generator(seed)
    W = normal(random, channels, channels, kernel, kernel)
    image = normal(random, 1, channels, size, size)
    left = (kernel - 1) // 2
    padded = torch.nn.functional.pad(image, (left, kernel - 1 - left) * 2)
    target = conv2d(padded, W).flatten(2).mT  # torch's own convolution
    made = build(convolution(W), size, kind="quadratic")
    errors = []
    for beta in BETAS:
        with edit(made, "attention.beta", beta), torch.no_grad():
            errors.append(largest(made(image.flatten(2).mT) - target))
    return {"betas": BETAS, "error": errors, "heads": made.routing.heads, "kernel": kernel, "gap": made.gap}


def judge(result: Result) -> tuple[Kind, str]:
    last, heads, cells = result["error"][-1], result["heads"], result["kernel"] ** 2
    falls = all(after <= max(before, EXACT) for before, after in pairwise(result["error"]))
    if last < EXACT and heads == cells and falls and result["error"][0] > last:
        above = [i for i, error in enumerate(result["error"]) if error >= EXACT]
        beta = result["betas"][above[-1] + 1 if above else 0]
        return "holds", (
            f"the error of {heads} heads is {result['error'][0]:.2g} at β = 1 and {last:.1g} at β = "
            f"{result['betas'][-1]:g}, and it falls as β grows. {NOT_JUDGED}: it is below {EXACT:g} from β = {beta:g} "
            f"on, and the score of the next-best key is {result['gap']:.3g} lower"
        )
    trend = "falls" if falls else "does not always fall"
    return "fails", (
        f"the error of {heads} heads for {cells} kernel positions {trend} as β grows, and is {last:.2g} at β = "
        f"{BETAS[-1]:g}"
    )


def draw(result: Result) -> Figure:
    shown = {"max |O − convolution|": result["error"]}
    title = f"{result['heads']} heads as a convolution"
    return plots.curves(result["betas"], shown, across="β", up="error", title=title, log="xy")


CLAIM = Experiment(
    number=11,
    name="heads as filters",
    statement="Heads are to attention what filters are to convolution: with a relative position encoding, k² heads "
    "reproduce any k×k convolution exactly in the limit of large β.",
    formula="O_t = Σ_{h=1}^{k^2} C_h x_{t + δ_h}",
    measured="The error of a layer with quadratic position encodings and one head for each position of a random "
    "multi-channel kernel, against torch's convolution of a random image with zero padding, as β grows.",
    rule=f"“holds” if there are k² heads and the error never rises as β grows (above {EXACT:g}) and ends below "
    f"{EXACT:g} at β = {BETAS[-1]:g}; "
    "otherwise “fails”.",
    falsified_by="An error that stays above the tolerance as β grows, or a number of heads other than k².",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={"kernel": "kernel size (k)", "size": "image size", "channels": "input and output channels"},
)
