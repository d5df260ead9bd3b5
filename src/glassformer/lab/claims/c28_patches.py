"""W patch_p + b = (W ∗ image)_p with stride 16: cutting into patches and projecting is a convolution."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure
from torch.nn.functional import conv2d

from glassformer.lab import plots
from glassformer.lab.experiment import Experiment, Kind, Result
from glassformer.lab.tensors import generator, largest, normal
from glassformer.nn import PatchEmbedding, initialise

SAME = 1e-10


def measure(seed: int, *, image: int = 224, patch: int = 16, channels: int = 3, width: int = 8) -> Result:
    random = generator(seed)
    embed = PatchEmbedding((patch, patch), channels, width).double()
    initialise(embed, seed)
    X = normal(random, 1, channels, image, image)
    with torch.no_grad():
        tokens = embed(X)
        kernel = embed.W.weight.unflatten(1, (channels, patch, patch))
        convolved = conv2d(X, kernel, embed.W.bias, stride=patch).flatten(2).mT  # torch's own
        turned = conv2d(X, kernel.mT, embed.W.bias, stride=patch).flatten(2).mT
    parts = {"patches": tokens.shape[1], "expected": (image // patch) ** 2, "image": image, "patch": patch}
    return {**parts, "error": largest(tokens - convolved), "transposed": largest(tokens - turned)}


def judge(result: Result) -> tuple[Kind, str]:
    shown = (
        f"{result['image']}×{result['image']} gives {result['patches']} patches of {result['patch']}×{result['patch']}"
    )
    if result["transposed"] <= SAME:
        return "fails", "the control failed: a transposed kernel gives the same tokens"
    if result["error"] < SAME and result["patches"] == result["expected"]:
        return "holds", (
            f"{shown}, and both agree to {result['error']:.1g} (with a transposed kernel they would be "
            f"{result['transposed']:.2g} apart)"
        )
    return "fails", f"{shown}, and the two are {result['error']:.2g} apart"


def draw(result: Result) -> Figure:
    values = {"as a convolution": result["error"], "kernel transposed": result["transposed"]}
    return plots.bars(values, up="largest difference", title="patches", log=True)


CLAIM = Experiment(
    number=28,
    name="patch embedding as a convolution",
    statement="Cutting an image into 16×16 patches and projecting each is a convolution with kernel size 16 and "
    "stride 16; a 224×224 image gives 196 patches.",
    formula="(frac{224}{16})^2 = 196",
    measured="The tokens of a patch embedding with random weights against torch's strided convolution, and their "
    "number.",
    rule="“holds” if both agree to 10⁻¹⁰, there are (image/patch)² tokens, and a transposed kernel gives different "
    "tokens; otherwise “fails”.",
    falsified_by="Tokens that differ from torch's strided convolution, or a different number of patches.",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={
        "image": "image size, a multiple of the patch size",
        "patch": "patch size",
        "channels": "image channels",
        "width": "token width",
    },
)
