"""logits = model(pixels): every model that names pictures, called the same way."""

from __future__ import annotations

from torch import Tensor, nn

from glassformer.errors import InputError, ShapeError
from glassformer.models import MLP, ConvNet2d, Frames, Hybrid, ImageInput, Recurrent, ViT


def sees(model: nn.Module) -> bool:
    """Whether it takes pictures and answers with classes; a recurrent network may, which reads them row by row."""
    match model:
        case ViT():
            return bool(model.config.classes)
        case Hybrid() | ConvNet2d():
            return True
        case MLP():
            return isinstance(model.config.reads, ImageInput)
        case Recurrent():
            return isinstance(model.config.reads, Frames) and model.config.pool != "none"
    return False


def classes_of(model: nn.Module) -> int:
    if not isinstance(model, ViT | Hybrid | ConvNet2d | MLP | Recurrent) or not sees(model):
        fact = f"this {type(model).__name__} names no pictures"
        raise InputError(fact, "take one that was built for images, with classes")
    return model.config.classes


def logits_of(model: nn.Module, X: Tensor) -> Tensor:
    """(b, channels, rows, columns) to (b, classes)."""
    return model(rows_of(X, model)) if isinstance(model, Recurrent) else model(X)


def rows_of(X: Tensor, model: Recurrent) -> Tensor:
    """(b, rows, channels · columns): a picture as a sequence of its rows."""
    rows = X.transpose(1, 2).flatten(2)
    reads = model.config.reads
    if isinstance(reads, Frames) and rows.shape[2] != reads.features:
        fact = f"rows of {X.shape[1]} × {X.shape[3]} numbers for a network that reads {reads.features}"
        raise ShapeError(fact, "scale the image to the size it was trained on")
    return rows
