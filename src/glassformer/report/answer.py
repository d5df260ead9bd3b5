"""The model card, and the model's answer to the input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from glassformer.checkpoints import origin_of
from glassformer.lens import attention_layers
from glassformer.models.protocols import Classifier, CTCModel, ImageTextModel, SpeechGenerator, TextGenerator
from glassformer.pipelines.classify import distribution_warning, image_logits, labels_of
from glassformer.pipelines.tokenizers import optional_tokenizer, token_name
from glassformer.report.inputs import Inputs
from glassformer.report.views import Block, Paragraph, Section, table

TOP = 5  # number of answers shown


def card(model: nn.Module, inputs: Inputs, note: str) -> Section:
    """Section with architecture, origin, sizes and input, preceded by any notes."""
    notes: list[Block] = [Paragraph(text, note=True) for text in (note, *inputs.notes) if text]
    return Section("Model", [*notes, table(["", ""], _facts(model, inputs))])


def _facts(model: nn.Module, inputs: Inputs) -> Iterator[tuple[str, str]]:
    origin = origin_of(model)
    yield "architecture", type(model).__name__
    if origin is not None:
        yield "from", str(origin.folder.name) + (f", family {origin.family}" if origin.family else "")
    yield "parameters", f"{sum(weight.numel() for weight in model.parameters()):,}"
    stacks: dict[str, list[Any]] = {}
    for path, layer in attention_layers(model).items():
        kind = "cross-attention" if ".cross" in path else "attention"
        stacks.setdefault(f"{kind} of the {path.split('.')[0]}", []).append(layer.config)
    for stack, configs in stacks.items():
        c = configs[0]
        shared = "" if c.kv_heads == c.heads else f" sharing {c.kv_heads} key-value heads"
        yield stack, f"{len(configs)} layers × {c.heads} heads{shared}, width {c.width}"
    sizes = " and ".join(" × ".join(map(str, x.shape[1:])) for x in inputs.tensors)
    what = "numbers" if inputs.tensors[0].is_floating_point() else "tokens"
    yield "input", f"{inputs.title} ({sizes} {what})"


def answer(model: nn.Module, inputs: Inputs, out: Tensor) -> list[Section]:
    """Section with the most likely answers; empty for a model whose output is a vector."""
    spoken: list[Block] = [Paragraph(f"“{inputs.answer}”")] if inputs.answer else []
    if isinstance(model, TextGenerator | SpeechGenerator):
        tokenizer, names = optional_tokenizer(model), {token: name for name, token in _named(inputs)}
        rows = _best(out[0, -1], lambda token: names.get(token, token_name(tokenizer, token)))
        next_tokens = table(["token", "probability"], rows)
        return [Section("Answer", [*spoken, Paragraph("Most likely next tokens:"), next_tokens])]
    if isinstance(model, CTCModel):
        best = out[0].argmax(-1).tolist()
        symbols = " ".join("·" if symbol == 0 else str(symbol) for symbol in best[:200])
        text = f"Most likely symbol of each frame, · for the blank: {symbols}"
        return [Section("Answer", spoken or [Paragraph(text)])]
    if isinstance(model, Classifier) and model.classes:
        if inputs.image is None:
            logits, warning = model.class_logits(inputs.tensors[0])[0], ""
        else:
            logits, distance, threshold = image_logits(model, inputs.tensors[0])
            warning = distribution_warning(distance, threshold)
        notes: list[Block] = [Paragraph(f"The image is {warning}.", note=True)] if warning else []
        rows = _best(logits, labels_of(model).__getitem__)
        return [Section("Answer", [table(["class", "probability"], rows), *notes])]
    return []


def compare_texts(model: ImageTextModel, inputs: Inputs) -> list[tuple[str, str, str]]:
    """Return (text, probability, cosine) of each text with the image; empty without an image."""
    texts = inputs.labels["texts"]
    if len(inputs.tensors) == len(texts) or not texts:
        return []
    image, *rows = inputs.tensors
    x, y = model.images(image), torch.cat([model.texts(ids) for ids in rows])
    cosine = (normalize(x, dim=-1) @ normalize(y, dim=-1).mT)[0]
    logits = torch.cat([model(image, ids) for ids in rows], 1)[0]  # type: ignore[operator]
    both = zip(texts, logits.softmax(-1).tolist(), cosine.tolist(), strict=True)
    return [(text, f"{p:.3f}", f"{c:.3f}") for text, p, c in both]


def _named(inputs: Inputs) -> Iterator[tuple[str, int]]:
    """Yield the display name and the id of each input token."""
    for stack, names in inputs.labels.items():
        ids = inputs.tokens[stack] if isinstance(inputs.tokens, dict) else inputs.tokens
        if ids is not None:
            yield from zip(names, ids[0].tolist(), strict=True)


def _best(logits: Tensor, name: Callable[[int], str]) -> list[tuple[str, str]]:
    p = logits.float().softmax(-1).topk(min(TOP, logits.shape[-1]))
    return [(name(i), f"{share:.3f}") for share, i in zip(p.values.tolist(), p.indices.tolist(), strict=True)]
