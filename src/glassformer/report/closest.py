"""Find the heads of a model that come closest to a constructed behaviour, on texts or images."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from glassformer.errors import InputError
from glassformer.lens import NearTable, nearest_heads
from glassformer.lens.construct import Routing
from glassformer.models.protocols import PatchModel, inputs_of
from glassformer.pipelines.tokenizers import tokens_of
from glassformer.report.inputs import prepare_inputs


def closest_heads(model: nn.Module, routing: Routing, texts: Sequence[str], images: Sequence[str]) -> NearTable:
    """Return the distance of every head from `routing`, on texts for a text model or on images for an image model."""
    kinds, name = inputs_of(model), type(model).__name__
    if kinds not in (("text",), ("image",)):
        raise InputError(f"a {name} takes neither texts nor images alone", "compare with a model of text or images")
    wanted, other = (texts, images) if kinds == ("text",) else (images, texts)
    if not wanted or other:
        raise InputError(f"a {name} takes only {kinds[0]} input", f"give some with --{kinds[0]}")
    if not isinstance(model, PatchModel):
        return nearest_heads(model, [tokens_of(model, text) for text in texts], routing)
    given = [prepare_inputs(model, [path]) for path in images]
    return nearest_heads(
        model,
        [x for one in given for x in one.tensors],
        routing,
        size=given[0].grid if routing.dims == 2 else None,
        prefix=len(model.prefix_names),
    )
