"""What a folder holds, in a few lines: family, sizes, words, and what the model can do."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from glassformer.checkpoints.loading import load
from glassformer.checkpoints.origin import origin_of
from glassformer.models import CLIP, MLP, ConvNet2d, Decoder, Encoder, Hybrid, ImageInput, Seq2Seq, ViT, Whisper
from glassformer.nn import Learned

WORDS = ("tokenizer.json", "source.spm", "spiece.model", "tokenizer.model", "vocab.json", "vocab.txt")


class About(NamedTuple):
    """Facts by their names, in the order to show them."""

    folder: Path
    facts: dict[str, str]
    verbs: tuple[str, ...]

    def __str__(self) -> str:
        rows = {**self.facts, "verbs": ", ".join(self.verbs) or "none: trace it, or use it in Python"}
        wide = max(map(len, rows))
        return "\n".join(f"{name:<{wide}}  {value}" for name, value in rows.items())


def about(folder: str | Path) -> About:
    model = load(folder, check=False)
    origin = origin_of(model)
    assert origin is not None
    numbers = sum(weight.numel() for weight in model.parameters())
    classes = ", ".join(map(str, origin.raw.get("architectures") or []))
    facts = {
        "family": f"{origin.family or 'our own'}{f' ({classes})' if classes else ''}",
        "model": type(model).__name__,
        "parameters": f"{numbers:,}",
        **_sizes(model),
    }
    words = [name for name in WORDS if origin.file(name) is not None]
    facts["tokenizer"] = words[0] if words else "none"
    return About(Path(folder), facts, verbs(model, bool(words)))


def verbs(model: nn.Module, words: bool) -> tuple[str, ...]:
    """The commands that a model of this kind answers."""
    match model:
        case Decoder() if words:
            return ("generate",)
        case Seq2Seq() if words:
            return ("translate", "generate")
        case Encoder() if words:
            return ("embed", "classify") if model.config.classes else ("embed",)
        case ViT():
            return ("classify",) if model.config.classes else ()
        case Hybrid() | ConvNet2d():
            return ("classify",)
        case MLP() if isinstance(model.config.reads, ImageInput):
            return ("classify",)
        case CLIP() if words and model.config.vision is not None and model.config.text is not None:
            return ("classify",)
        case Whisper() if words:
            return ("transcribe",)
    return ()


def _sizes(model: Any) -> dict[str, str]:
    """Depth × width, heads, vocabulary, context: of each side."""
    c = model.config
    match model:
        case Decoder():
            return {"layers": _stack(c.text), "vocabulary": f"{c.text.vocabulary:,}", "context": f"{c.length:,} tokens"}
        case Encoder():
            length = c.text.positions.length if isinstance(c.text.positions, Learned) else None
            context = f"{length:,} tokens" if length else "any"
            after = [c.pooling, *(["dense"] if c.dense else []), *(["length 1"] if c.normalise else [])]
            sizes = {"layers": _stack(c.text), "vocabulary": f"{c.text.vocabulary:,}", "context": context}
            return sizes | ({"classes": str(c.classes)} if c.classes else {"vectors": ", ".join(after)})
        case Seq2Seq():
            sides = f"{_stack(c.source)} + {_stack(c.target)}"
            return {"layers": sides, "vocabulary": f"{c.target.vocabulary:,}", "context": f"{c.length:,} tokens"}
        case ViT() | Hybrid():
            return _vision(c) | {"classes": str(c.classes)}
        case CLIP():
            found = _vision(c.vision) if c.vision is not None else {}
            return found | ({"text": _stack(c.text)} if c.text is not None else {}) | {"space": str(c.width)}
        case Whisper():
            sides = f"{c.depth} × {c.width}, {c.block.attention.heads} heads + {_stack(c.target)}"
            heard = f"{c.frames} frames of {c.embed.bands} bands, {c.length} tokens"
            return {"layers": sides, "vocabulary": f"{c.target.vocabulary:,}", "context": heard}
    return {}


def _stack(text: Any) -> str:
    attention = text.block.attention
    shared = f" ({attention.kv_heads} for keys)" if attention.kv_heads != attention.heads else ""
    return f"{text.depth} × {text.width}, {attention.heads} heads{shared}"


def _vision(c: Any) -> dict[str, str]:
    (rows, columns), (h, w) = c.image, c.patch
    return {
        "layers": f"{c.depth} × {c.width}, {c.block.attention.heads} heads",
        "image": f"{rows}×{columns} in {h}×{w}",
    }
