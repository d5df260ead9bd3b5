"""What model this is, what it was given, and what it answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from glassformer.app.report.parts import says, section, table
from glassformer.app.report.seen import Seen
from glassformer.app.tokens import name_of, words_beside
from glassformer.checkpoints import origin_of
from glassformer.lens import layers
from glassformer.models import Decoder, Hybrid, RecurrentSeq2Seq, Seq2Seq, Speech, ViT, Whisper
from glassformer.tasks.classify import labels_of

BEST = 5


def card(model: nn.Module, seen: Seen, note: str) -> str:
    notes = [says(text, "note") for text in (note, *seen.notes) if text]
    return section("Model", *notes, table(["", ""], _facts(model, seen)))


def _facts(model: nn.Module, seen: Seen) -> Iterator[tuple[str, str]]:
    origin = origin_of(model)
    yield "architecture", type(model).__name__
    if origin is not None:
        yield "from", str(origin.folder.name) + (f", family {origin.family}" if origin.family else "")
    yield "parameters", f"{sum(weight.numel() for weight in model.parameters()):,}"
    stacks: dict[str, list[Any]] = {}
    for path, layer in layers(model).items():
        stacks.setdefault(path.split(".")[0] + (" to its memory" if ".cross" in path else ""), []).append(layer.config)
    for stack, configs in stacks.items():
        c = configs[0]
        shared = "" if c.kv_heads == c.heads else f" that share {c.kv_heads} of keys and values"
        yield f"attention of the {stack}", f"{len(configs)} layers × {c.heads} heads{shared}, {c.width} wide"
    sizes = " and ".join(" × ".join(map(str, x.shape[1:])) for x in seen.inputs)
    what = "numbers" if seen.inputs[0].is_floating_point() else "tokens"
    yield "input", f"{seen.title} ({sizes} {what})"


def answer(model: nn.Module, seen: Seen, out: Tensor) -> str:
    """The likeliest answers; nothing for a model that gives vectors."""
    match model:
        case Decoder() | Seq2Seq() | RecurrentSeq2Seq() | Whisper():
            words = words_beside(model)
            names = {token: name for name, token in _named(seen)}
            rows = _best(out[0, -1], lambda token: names.get(token, name_of(words, token)))
            said = says(f"“{seen.said}”") if seen.said else ""
            return section("Answer", said, says("What would come next:"), table(["token", "probability"], rows))
        case (ViT() | Hybrid()) if model.config.classes:
            rows = _best(out[0], labels_of(model, model.config.classes).__getitem__)
            return section("Answer", table(["class", "probability"], rows))
        case Speech() if seen.said:
            return section("Answer", says(f"“{seen.said}”"))
        case Speech():
            best = out[0].argmax(-1).tolist()
            text = " ".join("·" if symbol == 0 else str(symbol) for symbol in best[:200])
            return section("Answer", says(f"The likeliest symbol of each vector, · the blank: {text}"))
    return ""


def _named(seen: Seen) -> Iterator[tuple[str, int]]:
    """Words that were given, with their tokens."""
    for stack, names in seen.labels.items():
        ids = seen.tokens[stack] if isinstance(seen.tokens, dict) else seen.tokens
        if ids is not None:
            yield from zip(names, ids[0].tolist(), strict=True)


def _best(logits: Tensor, name: Any) -> list[tuple[str, str]]:
    p = logits.softmax(-1).topk(min(BEST, logits.shape[-1]))
    return [(name(i), f"{share:.3f}") for share, i in zip(p.values.tolist(), p.indices.tolist(), strict=True)]
