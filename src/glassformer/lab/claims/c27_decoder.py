"""logits_t = f(target ≤ t, memory): a decoder depends on its previous positions and on all real source tokens."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure
from torch import Tensor

from glassformer.lab import plots
from glassformer.lab.experiment import Experiment, Kind, Result
from glassformer.lab.tensors import generator
from glassformer.lens import receptive_field
from glassformer.models import Seq2Seq
from glassformer.models.seq2seq import tiny


def measure(seed: int, *, source: int = 6, target: int = 6) -> Result:
    random = generator(seed)
    model = Seq2Seq(tiny(), seed=seed).double().eval()
    vocabulary = model.config.source.vocabulary
    X, Y = (torch.randint(3, vocabulary, (2, n), generator=random) for n in (source, target))
    real = torch.ones(2, source, dtype=torch.bool)
    real[:, -1] = False  # the last source token is padding
    own = receptive_field(lambda tokens: model.decode(tokens, model.encode(X, real), None), Y)
    with torch.no_grad():
        memory = model.encode(X, real)
        before = model.decode(Y, memory)
        changes = [_changed(model, X, Y, real, j, before) for j in range(source)]
        same = model.decode(Y, memory) - before
    return {
        "own": own.depends.int().tolist(),
        "later": int(own.depends.triu(1).sum()),
        "past": bool(own.depends[torch.ones(target, target).tril().bool()].all()),
        "source": [float(change.min()) for change in changes[:-1]],  # the output that changes least
        "padding": float(changes[-1].max()),  # the output that changes most
        "again": float(same.abs().max()),
    }


def _changed(model: Seq2Seq, X: Tensor, Y: Tensor, real: Tensor, j: int, before: Tensor) -> Tensor:
    """Return the change of each output when source token j is replaced."""
    X = X.clone()
    X[:, j] = (X[:, j] - 2) % (model.config.source.vocabulary - 3) + 3
    after = model.decode(Y, model.encode(X, real))
    return (after - before).abs().amax((0, 2))


def judge(result: Result) -> tuple[Kind, str]:
    source, padding = result["source"], result["padding"]
    if result["again"] > 0:
        return "fails", f"the control failed: the same input gives outputs that differ by {result['again']:.2g}"
    if result["later"] or padding > 0:
        return "fails", (
            f"there are {result['later']} pairs of an output and a later target token that it depends on, and padding "
            f"changes outputs by up to {padding:.2g}"
        )
    if not result["past"] or min(source) <= 0:
        return "fails", "some output does not depend on its own past or on the source"
    return "holds", (
        "every output depends on each target token up to its own and on no later one, and on each real source token "
        f"(which changes it by at least {min(source):.1g}); padding changes no output"
    )


def draw(result: Result) -> Figure:
    return plots.maps({"output (row) depends on target (column)": result["own"]}, title="what the decoder depends on")


CLAIM = Experiment(
    number=27,
    name="what the decoder sees",
    statement="The decoder sees the encoder's output and its own past, and nothing else.",
    formula="p(y_t | y_{<t}, encoder(x))",
    measured="Which outputs of a small encoder-decoder with random weights change when one target token, one source "
    "token or a padding token of the source does.",
    rule="“holds” if no output depends on a later target token or on padding, and each depends on every target token "
    "up to its own and on every real source token; otherwise “fails”.",
    falsified_by="An output that depends on a later target token or on padding, or one that does not depend on its "
    "past or on some source token.",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={"source": "number of source tokens, of which the last is padding", "target": "number of target tokens"},
    least={"source": 3, "target": 4},
)
