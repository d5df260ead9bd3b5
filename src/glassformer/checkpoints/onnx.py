"""Export a model to a single .onnx file, verified against the model in onnxruntime on inputs of other sizes."""

from __future__ import annotations

import importlib
import logging
import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from glassformer.checkpoints.loading import load_folder
from glassformer.checkpoints.onnx_readme import SIZES, SYMBOLS, TOKENIZER, companion_name, onnx_readme
from glassformer.checkpoints.origin import origin_of, reads_pairs
from glassformer.checkpoints.parity import LONGEST, lengths_to_compare
from glassformer.checkpoints.preprocess import FILE as PREPROCESSING
from glassformer.checkpoints.preprocess import read_preprocess
from glassformer.checkpoints.temperature import fold_temperature
from glassformer.errors import CheckpointError, InputError
from glassformer.models import CLIP, ConvNet1d, Decoder, Encoder, Recurrent, RecurrentSeq2Seq, Seq2Seq, Speech, Whisper
from glassformer.models.convolutional_sequence import ConvNet1dConfig
from glassformer.models.protocols import ImageModel, context_length, inputs_of
from glassformer.models.sequence_io import Frames, Tokens
from glassformer.nn.attention import MultiHeadAttention
from glassformer.nn.tap import attached

DYNAMIC = torch.export.Dim.DYNAMIC
APART = 1e-3  # tolerance relative to the largest output; more than rounding


class ExportedModel(nn.Module):
    """The model as a single function with named inputs and one output.

    An encoder returns class logits if it has classes, token logits if it has a masked-language-model head, else one
    vector per sequence; if `pooled` (a sentence-transformers folder), vectors take precedence over token logits. A
    classifier that was trained on pairs of texts has an input of segments if the model distinguishes them.
    """

    def __init__(self, model: Any, seed: int = 0, *, pooled: bool = False) -> None:
        super().__init__()
        self.model, self.pooled = model, pooled
        self.image_size = _prepared_size(model)
        self.random = torch.Generator().manual_seed(seed)

    def forward(self, *inputs: Tensor) -> Tensor:
        model = self.model
        match model:
            case Encoder() if model.config.classes:
                return model.classify(*inputs)
            case Encoder() if model.config.word_head and not self.pooled:
                return model.words(model(*inputs))
            case Encoder():
                return model.sentences(model(*inputs), inputs[1])
            case Seq2Seq():
                source, real, target = inputs
                return model(source, target, real)
            case _:
                return model(*inputs)

    @property
    def output(self) -> str:
        """A description of the output."""
        model: nn.Module = self.model
        match self.model:
            case Encoder() if self.model.config.classes:
                return "class logits"
            case Encoder() if not self.model.config.word_head or self.pooled:
                return "embeddings"
            case CLIP():
                return "similarity logits"
            case Speech():
                return "symbol logits (CTC)"
            case ConvNet1d() if isinstance(self.model.config.reads, Frames):
                return "symbol logits (CTC)"
            case ImageModel() if inputs_of(model) == ("image",):
                return "class logits" if getattr(model, "classes", 0) else "embeddings"
        return "token logits"

    def example(self, batch: int, length: int) -> dict[str, Tensor]:
        """Return random inputs: `batch` sequences of `length` tokens."""
        model: nn.Module = self.model
        c = self.model.config
        match self.model:
            case Decoder() | Encoder():
                real = self._real(batch, length, left=isinstance(self.model, Decoder))
                found = {"tokens": self._tokens(c.text.vocabulary, batch, length), "real": real}
                if isinstance(self.model, Encoder) and c.classes and c.text.segments > 1 and reads_pairs(model):
                    found["segments"] = torch.randint(0, 2, (batch, length), generator=self.random)
                return found
            case Seq2Seq():
                target = self._tokens(c.target.vocabulary, batch, max(2, length - 2))
                source = self._tokens(c.source.vocabulary, batch, length)
                return {"source": source, "real": self._real(batch, length), "target": target}
            case CLIP() if c.vision is not None and c.text is not None:
                tokens = self._tokens(c.text.vocabulary - 1, batch, length)
                tokens[:, -1] = c.text.vocabulary - 1 if c.end is None else c.end
                return {"image": self._image(c.vision, batch), "tokens": tokens}
            case Whisper():
                frames = torch.randn(batch, c.frames, c.embed.bands, generator=self.random)
                return {"frames": frames, "target": self._tokens(c.target.vocabulary, batch, length)}
            case ImageModel() if inputs_of(model) == ("image",):
                size = self.model.image_size or self.image_size
                return {"image": torch.randn(batch, self.model.channels, *size, generator=self.random)}
            case Speech():
                return {"frames": torch.randn(batch, 40 * length, c.embed.bands, generator=self.random)}
            case ConvNet1d(config=ConvNet1dConfig(reads=Frames(features=features))):
                return {"frames": torch.randn(batch, 40 * length, features, generator=self.random)}
            case ConvNet1d(config=ConvNet1dConfig(reads=Tokens(vocabulary=vocabulary))):
                return {"tokens": self._tokens(vocabulary, batch, length)}
            case Recurrent() | RecurrentSeq2Seq():
                fact = f"a {type(self.model).__name__} loops over time, and its ONNX file would be of one length only"
                raise InputError(fact, "export its folder instead, or train --arch transformer or cnn")
        raise InputError(f"a {type(self.model).__name__} cannot be exported to ONNX", "export its folder instead")

    def _tokens(self, vocabulary: int, batch: int, length: int) -> Tensor:
        return torch.randint(min(4, vocabulary - 1), vocabulary, (batch, length), generator=self.random)

    def _real(self, batch: int, length: int, *, left: bool = False) -> Tensor:
        """Return a mask that is False at padding: one token of every sequence but the first, on the left or right."""
        real = torch.ones(batch, length, dtype=torch.bool)
        real[1:, 0 if left else -1] = False
        return real

    def _image(self, c: Any, batch: int) -> Tensor:
        return torch.randn(batch, c.channels, *c.image, generator=self.random)

    def free(self, example: dict[str, Tensor]) -> tuple[dict[int, Any], ...]:
        """Return the dynamic axes of each input: the batch size and the number of tokens or frames."""
        long = (*SIZES, *(() if isinstance(self.model, Whisper) else ("frames",)))
        return tuple({0: DYNAMIC, 1: DYNAMIC} if name in long else {0: DYNAMIC} for name in example)


def _prepared_size(model: nn.Module) -> tuple[int, int]:
    """Return the size that images are prepared to, for a model that takes any."""
    origin = origin_of(model)
    if origin is not None and origin.file(PREPROCESSING) is not None:
        size = read_preprocess(origin).resize
        return size if isinstance(size, tuple) else (size or 32, size or 32)
    return 32, 32


class OnnxComparison(NamedTuple):
    """The largest difference from the model in onnxruntime, the input sizes compared, and what was not tried."""

    apart: float
    sizes: tuple[str, ...]
    untried: tuple[str, ...]

    def __str__(self) -> str:
        rest = "".join(f"; not tried: {what}" for what in self.untried)
        return f"equal: at most {self.apart:.1e} apart in onnxruntime, inputs of {', '.join(self.sizes)}{rest}"


class Exported(NamedTuple):
    """The exported file, its output, and its comparison in onnxruntime (None if it is not installed)."""

    path: Path
    output: str
    compared: OnnxComparison | None

    def __str__(self) -> str:
        return f"{self.path}: {self.output} ({self.compared or 'not compared: pip install onnxruntime'})"


def export_onnx(folder: str | Path, out: str | Path) -> Exported:
    """Export a folder to an .onnx file with dynamic batch size and token count; a file that differs is not kept.

    NAME.md beside it documents inputs, preprocessing and labels; a tokenizer.json or symbols.json is copied along as
    NAME.tokenizer.json or NAME.symbols.json.
    """
    out = Path(out)
    if out.suffix != ".onnx":
        raise InputError(f"{out.name} does not end in .onnx", "choose a name that does")
    if out.exists():
        raise InputError(f"{out} already exists", "choose another path, or remove it first")
    _require("onnx", "onnxscript")
    model = load_folder(folder)
    temperature = fold_temperature(model)
    call = ExportedModel(model, pooled=(Path(folder) / "modules.json").is_file()).eval()
    example = call.example(2, min(6, context_length(model) or 6))
    part = out.with_name(f".{out.stem}.{os.getpid()}.onnx")
    try:
        _put(call, example, part)
        compared = compare_in_onnxruntime(call, part)
        os.replace(part, out)
        _document(out, model, example, call.output, temperature)
    except OSError as error:
        raise InputError(f"{out} cannot be written ({error.strerror})", "choose another place") from None
    finally:
        part.unlink(missing_ok=True)
    return Exported(out, call.output, compared)


def _document(out: Path, model: nn.Module, example: dict[str, Tensor], output: str, temperature: float | None) -> None:
    """Write the page that says how inputs are prepared, and copy the tokenizer or the symbols if there are any."""
    origin = origin_of(model)
    assert origin is not None
    page = onnx_readme(out, model, example, output, temperature)
    out.with_suffix(".md").write_text(page, encoding="utf-8")
    if origin.tokenizer is not None and example.keys() & {"tokens", "source"}:
        shutil.copyfile(origin.tokenizer, out.with_name(companion_name(out, TOKENIZER)))
    if (symbols := origin.file(SYMBOLS)) is not None and "frames" in example:
        shutil.copyfile(symbols, out.with_name(companion_name(out, SYMBOLS)))


def _put(call: ExportedModel, example: dict[str, Tensor], path: Path) -> None:
    with _quiet(), explicit(call):
        try:
            made = torch.onnx.export(
                call,
                tuple(example.values()),
                dynamo=True,
                dynamic_shapes=(call.free(example),),
                input_names=list(example),
                output_names=["output"],
                verbose=False,
            )
        except Exception as error:  # each stage of the exporter raises its own
            fact = f"a {type(call.model).__name__} cannot be exported to ONNX ({type(error).__name__})"
            raise CheckpointError(fact, "export its folder instead") from error
        assert made is not None
        made.save(str(path), external_data=False)


def compare_in_onnxruntime(call: ExportedModel, path: Path) -> OnnxComparison | None:
    """max |theirs − ours| / max |ours| on inputs of other sizes; None if onnxruntime is not installed.

    The lengths cover each change in a text model's behaviour, as in `parity`.
    """
    try:
        runtime = importlib.import_module("onnxruntime")
    except ImportError:
        return None
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    known, worst = {one.name for one in session.get_inputs()}, 0.0
    most = context_length(call.model) or LONGEST
    lengths, untried = lengths_to_compare(call.model)
    sizes: dict[str, None] = {}
    for batch, length in ((1, 5), (3, 8), *((1, length) for length in lengths if length > 8)):
        example = call.example(batch, min(length, most))
        sizes[_size(example)] = None
        (theirs,) = session.run(None, {name: x.numpy() for name, x in example.items() if name in known})
        with torch.no_grad():
            ours = call(*example.values())
        error = float((torch.from_numpy(theirs) - ours).abs().max() / ours.abs().max())
        if not error <= APART:  # NaN is a difference too
            fact = f"the ONNX file differs from the model by {error:.1e} on {_size(example)}"
            raise CheckpointError(fact, "it was deleted")
        worst = max(worst, error)
    return OnnxComparison(worst, tuple(sizes), untried)


def _size(example: dict[str, Tensor]) -> str:
    for name in ("tokens", "source", "target", "frames"):
        if name in example:
            return f"{example[name].shape[1]} {'frames' if name == 'frames' else 'tokens'}"
    rows, columns = example["image"].shape[2:]
    return f"{rows} × {columns} pixels"


@contextmanager
def explicit(model: nn.Module) -> Iterator[None]:
    """Run every attention layer unfused, by an identity edit of A: ONNX has no fused kernel."""
    taps = [module.A for module in model.modules() if isinstance(module, MultiHeadAttention)]
    with attached((tap.editors, lambda A: A) for tap in taps):
        yield


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter's own warnings and log messages."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _require(*names: str) -> None:
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            fact = f"ONNX needs the package {name}, which is not installed"
            raise InputError(fact, "pip install glassformer[onnx], then export again") from None
