"""Transfer learning: a trained model with a new classification head and positions interpolated to a new image size."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor, nn

from glassformer.checkpoints import load_folder
from glassformer.checkpoints.origin import origin_of, with_origin
from glassformer.errors import InputError
from glassformer.models.protocols import Classifier, PatchModel, TextEncoder
from glassformer.nn.linear import initialise, normal


def retarget(
    source: nn.Module | str | Path, *, classes: int, image: tuple[int, int] | None = None, seed: int = 0
) -> nn.Module:
    """Return a new model with the weights of `source` (a model or a folder) and a new classification head.

    The image size can change if positions are interpolated (ViT, hybrid) or not used (convolutions).
    """
    base = load_folder(source) if isinstance(source, str | Path) else source
    if classes < 1:
        raise InputError(f"classes must be at least 1, got {classes}", "give at least 1")
    if not isinstance(base, Classifier):
        raise InputError(f"a {type(base).__name__} has no classification head", "fine-tune a classifier")
    new = base.with_classes(classes, image_size=image, seed=seed).to(next(base.parameters()).dtype)
    state, own = base.state_dict(), new.state_dict()
    if isinstance(base, PatchModel) and isinstance(new, PatchModel):
        size = image or new.image_size
        assert size is not None
        state["positions"] = base.position_table(new.patch_grid(size)).detach()
    heads = classifier_heads(new)
    kept = {name: state[name].to(tensor) for name, tensor in own.items() if name.split(".")[0] not in heads}
    return _finish(base, new, kept, seed)


def with_text_head(base: nn.Module, *, classes: int, per_token: bool, pooler: bool, seed: int = 0) -> nn.Module:
    """Return a new model with the weights of a text encoder and a new classification head.

    A pooler that the encoder lacks is newly initialised as well.
    """
    assert isinstance(base, TextEncoder)
    new = base.with_text_head(classes, per_token=per_token, pooler=pooler, seed=seed)
    state = base.state_dict()
    fresh = {*classifier_heads(new), *(["pooler"] if "pooler.weight" not in state else [])}
    kept = {
        name: state[name].to(tensor) for name, tensor in new.state_dict().items() if name.split(".")[0] not in fresh
    }
    return _finish(base, new, kept, seed)


def _finish(base: nn.Module, new: nn.Module, kept: dict[str, Tensor], seed: int) -> nn.Module:
    new.load_state_dict(kept, strict=False)
    for path in classifier_heads(new):
        initialise(new.get_submodule(path), seed, normal(0.02))
    origin = origin_of(base)
    return new if origin is None else with_origin(new, origin)


def classifier_heads(model: nn.Module) -> tuple[str, ...]:
    """Return the names of the submodules that map features to classes."""
    return tuple(model.head_names) if isinstance(model, Classifier) and model.classes else ()
