"""Model capabilities: the protocols that the rest of the package relies on instead of testing for a class.

A model is an `nn.Module` built from a frozen config. It declares two properties, which may depend on its config:
`inputs`, the kind of each argument of `forward`, and `verbs`, what it can be used for. Each verb implies the methods of
one protocol below, and `require(model, "classify")` returns the model as that protocol or explains why it cannot. The
other protocols (`PatchModel`, `StreamModel`, …) are tested with `isinstance`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple, Protocol, overload, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from glassformer.core.audio import MelConfig
from glassformer.errors import InputError
from glassformer.models.sessions import Session
from glassformer.nn.tap import Tap

InputKind = Literal["text", "image", "audio", "frames"]
"""Token ids, pixels, log-mel frames of a recording, or real vectors of any other origin."""
Verb = Literal["classify", "generate", "translate", "embed", "transcribe"]


@runtime_checkable
class Model(Protocol):
    """The properties that every architecture declares."""

    config: Any

    @property
    def inputs(self) -> tuple[InputKind, ...]:
        """The kind of each positional argument of `forward`: ("text", "text") is a source and a target."""

    @property
    def verbs(self) -> tuple[Verb, ...]:
        """What the model can be used for, depending on its config; () if it can only be called and traced."""

    def sizes(self) -> dict[str, str]:
        """Facts for `info`, by name: layers, vocabulary, context, classes, …"""


# ---- one protocol per verb -------------------------------------------------------------------------------------------


@runtime_checkable
class Classifier(Protocol):
    """A model that assigns labels to an image or a text."""

    @property
    def classes(self) -> int:
        """Number of classes; 0 if the labels are texts passed with each image (see `ImageTextModel`)."""

    def class_logits(self, X: Tensor, real: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        """Logits (b, classes) of images (b, c, H, W) or token ids (b, t)."""

    @property
    def head_names(self) -> tuple[str, ...]:
        """Names of the submodules that map features to classes; fine-tuning on other classes replaces them."""

    def with_classes(self, classes: int, *, image_size: tuple[int, int] | None = None, seed: int = 0) -> nn.Module:
        """Create a newly initialised model of this architecture for other classes and, where possible, another size."""


@runtime_checkable
class TextGenerator(Protocol):
    """A model that generates tokens autoregressively."""

    @property
    def context_length(self) -> int | None:
        """Maximum number of tokens of prompt and answer together; None: unlimited."""

    def session(self, *, start: tuple[int, ...] = (), ends: tuple[int, ...] = ()) -> Session:
        """Create a decoding session. `start` and `ends` replace the model's own start and end tokens."""


@runtime_checkable
class Translator(TextGenerator, Protocol):
    """A model that reads a source and generates a target."""

    @property
    def start_token(self) -> int | None:
        """The token that every answer starts with; None if it is only defined in the model's folder."""

    def cross_attentions(self) -> list[Tap]:
        """The taps of the decoder's cross-attention weights A, one for each layer; empty if there is none."""


@runtime_checkable
class Embedder(Protocol):
    """A model that represents a text by one vector."""

    @property
    def context_length(self) -> int | None: ...

    def embeddings(self, tokens: Int[Tensor, "b t"], real: Bool[Tensor, "b t"] | None = None) -> Float[Tensor, "b n"]:
        """Embed each row of token ids; `real` is False at padding."""


@runtime_checkable
class TextEncoder(Embedder, Protocol):
    """An encoder of text that can be fine-tuned as a classifier of texts or of their tokens."""

    @property
    def per_token(self) -> bool:
        """Whether the classes are those of every token: logits are (b, t, classes)."""

    def with_text_head(self, classes: int, *, per_token: bool, pooler: bool, seed: int = 0) -> nn.Module:
        """Create a newly initialised model of this architecture with a classification head instead of its own heads.

        `pooler`: classify tanh(W x₀) of the first token, as BERT does, instead of the pooled tokens.
        """


class AudioStream(Protocol):
    """Streaming inference: samples in, rows of CTC logits out as they become final."""

    def feed(self, wave: Float[Tensor, " n"]) -> Float[Tensor, "k v"]: ...

    def finish(self) -> Float[Tensor, "k v"]: ...


@runtime_checkable
class CTCModel(Protocol):
    """A transcriber with a CTC head: one row of logits for every `stack` log-mel frames; class 0 is the blank."""

    def ctc_logits(
        self, frames: Float[Tensor, "b t bands"], lengths: Int[Tensor, " b"], *, stack: int
    ) -> Float[Tensor, "b n v"]:
        """Compute all rows at once, as in training; `lengths` are the numbers of frames of the recordings."""

    def audio_stream(self, mel: MelConfig, *, stack: int) -> AudioStream:
        """Create a streaming pass over the same computation."""

    @property
    def piece(self) -> int:
        """Number of rows that a stream processes at a time."""


@runtime_checkable
class SpeechGenerator(Protocol):
    """A transcriber that generates text tokens from a window of log-mel frames, as Whisper does."""

    @property
    def context_length(self) -> int | None: ...

    @property
    def window(self) -> int:
        """Number of frames encoded at once."""

    @property
    def bands(self) -> int:
        """Number of mel bands of a frame."""

    @property
    def vocabulary(self) -> int: ...

    @property
    def start_token(self) -> int: ...

    @property
    def end_token(self) -> int: ...

    @property
    def factor(self) -> int:
        """Number of frames per encoder position."""

    def session(self, *, start: tuple[int, ...] = (), ends: tuple[int, ...] = ()) -> Session: ...


Transcriber = CTCModel | SpeechGenerator


# ---- capabilities that are not verbs ---------------------------------------------------------------------------------


@runtime_checkable
class TokenPredictor(Protocol):
    """A text model whose output at each position can be mapped to logits over the vocabulary."""

    @property
    def vocabulary(self) -> int: ...

    @property
    def predicts_tokens(self) -> bool:
        """Whether the model has a head over the vocabulary."""

    def token_logits(self, output: Tensor) -> Tensor:
        """Map the output of `forward` to logits over the vocabulary."""


@runtime_checkable
class WindowModel(Protocol):
    """A language model that predicts the token after a window of exactly `context_length` tokens."""

    @property
    def context_length(self) -> int | None: ...

    def slide(self, tokens: Int[Tensor, "b t"]) -> Float[Tensor, "b n v"]:
        """Logits after every full window of the tokens."""


@runtime_checkable
class TextModel(Protocol):
    """A model that takes token ids."""

    @property
    def vocabulary(self) -> int:
        """Vocabulary size: token ids are below it."""


@runtime_checkable
class AudioModel(Protocol):
    """A model of log-mel frames that defines how they are computed."""

    @property
    def mel(self) -> MelConfig: ...

    @property
    def row_seconds(self) -> float:
        """Duration of one encoder position, in seconds."""


@runtime_checkable
class ImageModel(Protocol):
    """A model of images."""

    @property
    def channels(self) -> int: ...

    @property
    def image_size(self) -> tuple[int, int] | None:
        """Rows and columns of the images that the model was built for; None: any."""


@runtime_checkable
class PatchModel(ImageModel, Protocol):
    """A Transformer over the patches of an image, preceded by prefix tokens."""

    @property
    def patch_size(self) -> tuple[int, int]:
        """Pixels from one token to the next, vertically and horizontally."""

    @property
    def prefix_names(self) -> tuple[str, ...]:
        """Names of the tokens before the patches: CLS, registers."""

    def patch_grid(self, size: tuple[int, int]) -> tuple[int, int]:
        """Rows and columns of tokens for an image of this size."""

    def pool_weights(self, image: Float[Tensor, "b c H W"]) -> Float[Tensor, "b n"]:
        """Weight of each token after the last layer in the pooled vector; rows sum to 1."""

    def features(self, image: Float[Tensor, "b c H W"]) -> Float[Tensor, "b n m"]:
        """Every token after the last layer."""

    def position_table(self, grid: tuple[int, int]) -> Float[Tensor, "n m"]:
        """The learned positions, interpolated to this grid."""


@runtime_checkable
class CellModel(Protocol):
    """A model over images with attention between the cells of grids before its patches."""

    def cell_grids(self, size: tuple[int, int]) -> dict[str, tuple[int, int]]:
        """Rows and columns of the queries of each such layer, by path; its keys are these cells and a ring of zeros."""


@runtime_checkable
class ImageTextModel(Protocol):
    """A model that embeds images and texts in one space; either tower may be missing."""

    @property
    def towers(self) -> tuple[InputKind, ...]:
        """Which of "image" and "text" the model has."""

    @property
    def context_length(self) -> int | None: ...

    def get_submodule(self, target: str) -> nn.Module:
        """Return a submodule; the towers are called vision and text."""

    def images(self, image: Float[Tensor, "b c H W"]) -> Float[Tensor, "b n"]: ...

    def texts(self, tokens: Int[Tensor, "b t"]) -> Float[Tensor, "b n"]: ...

    def pad_texts(self, rows: list[list[int]]) -> Int[Tensor, "b t"]:
        """Pad texts of different lengths to one batch; padding does not change their embeddings."""


class Reach(NamedTuple):
    """The inputs that an output may depend on, as declared by the config; None means unlimited.

    An output of a chunk may depend on `left` inputs before the chunk and `lookahead` inputs after it; there is one
    output for every `stride` inputs (None: to be measured).
    """

    lookahead: int | None
    left: int | None = None
    chunk: int = 1
    stride: int | None = None


@runtime_checkable
class StreamModel(Protocol):
    """A sequence model that declares its reach, so that leaks can be detected and streams compared."""

    @property
    def reach(self) -> Reach: ...

    def example(self, length: int | None, generator: torch.Generator) -> Tensor:
        """Create a random input of `length` steps, or of enough steps to cover the whole reach."""

    def respond(self, X: Tensor) -> Tensor:
        """Compute the outputs for such an input, all at once."""

    def respond_in_chunks(self, pieces: Iterable[Tensor]) -> Iterator[Tensor] | None:
        """Compute the same outputs from a stream; None if the model cannot stream."""

    @property
    def step_seconds(self) -> float | None:
        """Duration of one input step, in seconds; None if it has none."""


# ---- helpers ---------------------------------------------------------------------------------------------------------

DOES: dict[Verb, str] = {
    "classify": "assign classes",
    "generate": "generate text",
    "translate": "translate",
    "embed": "embed texts",
    "transcribe": "transcribe speech",
}
_PROTOCOLS: dict[Verb, Any] = {
    "classify": Classifier,
    "generate": TextGenerator,
    "translate": Translator,
    "embed": Embedder,
    "transcribe": (CTCModel, SpeechGenerator),
}


def verbs(model: nn.Module) -> tuple[Verb, ...]:
    """Return what a model can be used for: the verbs it declares and whose protocol it implements."""
    return tuple(verb for verb in getattr(model, "verbs", ()) if isinstance(model, _PROTOCOLS[verb]))


def can(model: nn.Module, verb: Verb) -> bool:
    """Return whether a verb applies to a model."""
    return verb in verbs(model)


def inputs_of(model: nn.Module) -> tuple[InputKind, ...]:
    """Return the kind of each argument of `forward`; () for a module that does not declare it."""
    return tuple(getattr(model, "inputs", ()))


def sizes_of(model: nn.Module) -> dict[str, str]:
    """Return the facts that `info` shows; empty for a module that does not declare any."""
    return dict(model.sizes()) if isinstance(model, Model) else {}


@overload
def require(model: nn.Module, verb: Literal["classify"]) -> Classifier: ...
@overload
def require(model: nn.Module, verb: Literal["generate"]) -> TextGenerator: ...
@overload
def require(model: nn.Module, verb: Literal["translate"]) -> Translator: ...
@overload
def require(model: nn.Module, verb: Literal["embed"]) -> Embedder: ...
@overload
def require(model: nn.Module, verb: Literal["transcribe"]) -> Transcriber: ...


def require(model: nn.Module, verb: Verb) -> Any:
    """Return the model as the protocol of a verb, or raise an error that lists what it can do instead."""
    if can(model, verb):
        return model
    others = ", ".join(verbs(model))
    remedy = f"it supports {others}" if others else "load a model that can"
    raise InputError(f"this {type(model).__name__} cannot {DOES[verb]}", remedy)


def context_length(model: nn.Module) -> int | None:
    """Return the maximum number of tokens of a model; None if it is unlimited or the model takes no tokens."""
    found = getattr(model, "context_length", None)
    return found if isinstance(found, int) else None


def device_of(model: nn.Module) -> torch.device:
    """Return the device of the weights, or the CPU if there are none."""
    return next((weight.device for weight in model.parameters()), torch.device("cpu"))
