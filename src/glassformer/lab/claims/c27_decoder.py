"""logits_t = f(target ≤ t, memory): a decoder hears its own past and all of the source that is real."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure
from torch import Tensor

from glassformer.lab import pictures
from glassformer.lab.experiment import Experiment, Kind, Result
from glassformer.lab.parts import generator
from glassformer.lens import receptive_field
from glassformer.models import Seq2Seq
from glassformer.models.seq2seq import tiny


def measure(seed: int, *, source: int = 6, target: int = 6) -> Result:
    random = generator(seed)
    model = Seq2Seq(tiny(), seed=seed).double().eval()
    words = model.config.source.vocabulary
    X, Y = (torch.randint(3, words, (2, n), generator=random) for n in (source, target))
    real = torch.ones(2, source, dtype=torch.bool)
    real[:, -1] = False  # the last source token is padding
    own = receptive_field(lambda tokens: model.decode(tokens, model.encode(X, real), None), Y)
    with torch.no_grad():
        memory = model.encode(X, real)
        before = model.decode(Y, memory)
        heard = [_changed(model, X, Y, real, j, before) for j in range(source)]
        same = model.decode(Y, memory) - before
    return {
        "own": own.depends.int().tolist(),
        "later": int(own.depends.triu(1).sum()),
        "past": bool(own.depends[torch.ones(target, target).tril().bool()].all()),
        "source": heard,
        "again": float(same.abs().max()),
    }


def _changed(model: Seq2Seq, X: Tensor, Y: Tensor, real: Tensor, j: int, before: Tensor) -> float:
    """The least change over outputs when source token j is another one."""
    X = X.clone()
    X[:, j] = (X[:, j] - 2) % (model.config.source.vocabulary - 3) + 3
    after = model.decode(Y, model.encode(X, real))
    return float((after - before).abs().amax((0, 2)).min())


def judge(result: Result) -> tuple[Kind, str]:
    *source, padding = result["source"]
    if result["later"] or padding > 0 or result["again"] > 0:
        return "fails", f"{result['later']} outputs hear a later target, and padding changes them by {padding:.2g}"
    if not result["past"] or min(source) <= 0:
        return "fails", "some output does not hear its own past or the source"
    return "holds", (
        "every output hears each target token up to its own and no later one, each real source token (which "
        "changes it by "
        f"at least {min(source):.1g}), and padding by exactly {padding:g}"
    )


def draw(result: Result) -> Figure:
    return pictures.maps({"output (row) hears target (column)": result["own"]}, title="what the decoder hears")


CLAIM = Experiment(
    number=27,
    name="what the decoder sees",
    statement="The decoder sees what the encoder made and its own past, nothing else.",
    formula="p(y_t | y_{<t}, encoder(x))",
    measured="Which outputs of a small encoder-decoder with random weights change when each target token, each source "
    "token, and a padded source token does.",
    rule="holds if no output hears a later target token or padding, and each hears its past and every real source "
    "token; else fails.",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={"source": "source tokens, the last of them padding", "target": "target tokens"},
    least={"source": 3, "target": 4},
)
