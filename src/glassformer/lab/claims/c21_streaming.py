"""logits(whole recording) = logits(pieces, with a cache): a causal encoder never depends on later input."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure
from torch import Tensor

from glassformer.core import log_mel
from glassformer.lab import plots
from glassformer.lab.experiment import Experiment, Kind, Result
from glassformer.lab.tensors import generator
from glassformer.models import Speech
from glassformer.models.speech import tiny
from glassformer.nn import Chunks
from glassformer.progress import tracked

ROUNDING = 1e-4  # of the largest logit, in float32


def measure(seed: int, *, seconds: float = 1.0, left: int = 8) -> Result:
    from dataclasses import replace

    model = Speech(replace(tiny(), chunks=Chunks(chunk=1, left=left)), seed=seed)
    wave = 0.1 * torch.randn(int(16000 * seconds), generator=generator(seed))
    with torch.no_grad():
        whole = model(log_mel(wave[None], model.config.mel))[0]
    hop = model.config.mel.hop
    sizes = tracked((hop // 2, hop, 3 * hop, len(wave)), "Streaming with chunks of each size")
    errors = {str(piece): _difference(model, wave, piece, whole) for piece in sizes}
    return {"rows": len(whole), "largest": float(whole.abs().max()), "errors": errors}


def _difference(model: Speech, wave: Tensor, piece: int, whole: Tensor) -> float:
    """Return the largest difference from the offline logits; −1 if the number of frames differs."""
    stream = model.stream()
    rows = [stream.feed(part) for part in wave.split(piece)]
    streamed = torch.cat([*rows, stream.finish()])
    return float((streamed - whole).abs().max()) if streamed.shape == whole.shape else -1.0


def judge(result: Result) -> tuple[Kind, str]:
    errors = result["errors"]
    shown = ", ".join(f"{error:.1g} with chunks of {piece} samples" for piece, error in errors.items())
    if all(0 <= error <= ROUNDING * result["largest"] for error in errors.values()):
        return "holds", (
            f"all {result['rows']} frames arrive and differ from those of the whole recording by no more than float32 "
            f"rounding ({shown}; the largest logit is {result['largest']:.2g})"
        )
    return "fails", f"the logits differ by more than rounding ({shown}; −1 means a different number of frames)"


def draw(result: Result) -> Figure:
    values = {f"{piece} samples": max(error, 1e-9) for piece, error in result["errors"].items()}
    return plots.bars(values, up="largest difference", title="streamed against whole recording", log=True)


CLAIM = Experiment(
    number=21,
    name="streaming frame by frame",
    statement="A causal encoder that is fed frame by frame with a cache returns exactly what it returns for the whole "
    "recording.",
    formula="f(x_1, …, x_T)_t = f(x_1, …, x_t)_t",
    measured="The logits of a small speech encoder with random weights on noise, for the whole recording and streamed "
    "in chunks of half a frame, one frame, three frames and the whole length.",
    rule=f"“holds” if streaming returns as many frames of logits and they differ by at most {ROUNDING:g} times the "
    "largest logit, which is float32 rounding over the layers; otherwise “fails”.",
    falsified_by="A streamed frame that differs from that of the whole recording by more than rounding, or a "
    "different number of frames.",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={"seconds": "duration of the recording in seconds", "left": "frames of left context"},
    least={"seconds": 0.2, "left": 0},
)
