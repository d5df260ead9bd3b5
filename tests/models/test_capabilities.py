"""What a model declares that it can do, and what a new architecture gets for declaring it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from typer.testing import CliRunner

import glassformer as gf
from glassformer import models
from glassformer.cli.main import build_app
from glassformer.errors import ConfigError, InputError
from glassformer.models import Frames, ImageInput, Tokens, TokenWindow
from glassformer.models.protocols import (
    Classifier,
    ImageModel,
    ImageTextModel,
    Model,
    PatchModel,
    StreamModel,
    TokenPredictor,
    can,
    context_length,
    inputs_of,
    require,
    sizes_of,
    verbs,
)
from glassformer.models.sessions import Session
from glassformer.models.tiny import MAKERS, tiny_model
from glassformer.nn import BlockConfig, FeedForwardConfig, Linear, PatchEmbedding, Stack, heads

# Every architecture states what it takes and what it can do, and keeps to it.


WORDS, FRAMES = Tokens(vocabulary=12), Frames(features=6)


def every() -> dict[str, nn.Module]:
    m = models
    pictures = ImageInput(channels=3, height=8, width=8)
    return {
        "decoder": m.Decoder(m.decoder.tiny()),
        "encoder": m.Encoder(m.encoder.tiny()),
        "seq2seq": m.Seq2Seq(m.seq2seq.tiny()),
        "vit": m.ViT(m.vit.tiny()),
        "hybrid": m.Hybrid(m.hybrid.tiny()),
        "clip": m.CLIP(m.clip.tiny()),
        "speech": m.Speech(m.speech.tiny()),
        "whisper": m.Whisper(m.whisper.tiny()),
        "cnn": m.ConvNet2d(m.convolutional.tiny()),
        "mlp": m.MLP(m.mlp.tiny(pictures, 5)),
        "rnn writer": m.Recurrent(m.recurrent.tiny(WORDS, 12)),
        "rnn recogniser": m.Recurrent(m.recurrent.tiny(FRAMES, 12)),
        "rnn over rows": m.Recurrent(m.recurrent.tiny(Frames(features=24), 5, "last")),
        "cnn writer": m.ConvNet1d(m.convolutional_sequence.tiny(WORDS, 12)),
        "cnn both ways": m.ConvNet1d(m.convolutional_sequence.tiny(FRAMES, 12, causal=False)),
        "rnn translator": m.RecurrentSeq2Seq(m.recurrent_seq2seq.tiny(WORDS, 12)),
    }


EXPECTED = {
    "decoder": (("text",), ("generate",)),
    "encoder": (("text",), ("embed",)),
    "seq2seq": (("text", "text"), ("translate", "generate")),
    "vit": (("image",), ("classify",)),
    "hybrid": (("image",), ("classify",)),
    "clip": (("image", "text"), ("classify",)),
    "speech": (("audio",), ("transcribe",)),
    "whisper": (("audio", "text"), ("transcribe",)),
    "cnn": (("image",), ("classify",)),
    "mlp": (("image",), ("classify",)),
    "rnn writer": (("text",), ("generate",)),
    "rnn recogniser": (("audio",), ("transcribe",)),
    "rnn over rows": (("image",), ("classify",)),
    "cnn writer": (("text",), ("generate",)),
    "cnn both ways": (("audio",), ()),
    "rnn translator": (("text", "text"), ("translate", "generate")),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_inputs_and_verbs_follow_from_the_config(name: str) -> None:
    model = every()[name]
    assert isinstance(model, Model)
    assert (inputs_of(model), verbs(model)) == EXPECTED[name]
    assert all(sizes_of(model).values())
    for verb in verbs(model):
        assert require(model, verb) is model


def test_a_verb_that_does_not_apply_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="this Decoder cannot assign classes: it supports generate"):
        require(every()["decoder"], "classify")
    with pytest.raises(InputError, match="this Linear cannot embed texts: load a model that can"):
        require(nn.Linear(2, 2), "embed")
    assert not can(models.MLP(models.mlp.tiny(TokenWindow(vocabulary=9, length=3, width=4), 9)), "classify")
    assert inputs_of(nn.Linear(2, 2)) == ()
    assert sizes_of(nn.Linear(2, 2)) == {}


def test_classifiers_give_logits_for_their_classes() -> None:
    image = torch.randn(2, 3, 8, 8)
    for name, model in every().items():
        if can(model, "classify") and name != "clip":
            classifier = require(model, "classify")
            assert isinstance(model, ImageModel)
            assert classifier.class_logits(image).shape == (2, classifier.classes)
            other = classifier.with_classes(9)
            assert isinstance(other, Classifier)
            assert other.class_logits(image).shape == (2, 9)
            assert all(isinstance(model.get_submodule(part), nn.Module) for part in classifier.head_names)


def test_pool_weights_are_those_of_the_pooled_vector() -> None:
    image = torch.randn(2, 3, 8, 8)
    for name in ("vit", "hybrid"):
        model = every()[name].eval()
        assert isinstance(model, PatchModel)
        rows, columns = model.patch_grid((8, 8))
        weights, X = model.pool_weights(image), model.features(image)
        assert X.shape[1] == len(model.prefix_names) + rows * columns == weights.shape[1]
        torch.testing.assert_close(weights.sum(1), torch.ones(2))
        torch.testing.assert_close(model.pool(X), (weights[:, None] @ X)[:, 0])  # type: ignore[operator]


def test_sessions_start_from_prompts() -> None:
    for name, model in every().items():
        if can(model, "generate") and name != "rnn translator":
            session = require(model, "generate").session()
            assert isinstance(session, Session)
            prompt = torch.tensor([3, 4])
            assert len(session.prefix(prompt)) in (1, 2)
            assert session.prefill([prompt], 2).shape == (1, session.vocabulary)
    with pytest.raises(ConfigError, match="one start token and the end tokens"):
        require(every()["rnn translator"], "generate").session()


def test_context_and_tokens_are_those_of_the_config() -> None:
    found = every()
    lengths = {name: context_length(found[name]) for name in ("decoder", "encoder", "seq2seq", "rnn writer", "vit")}
    assert lengths == {"decoder": 48, "encoder": 32, "seq2seq": 512, "rnn writer": None, "vit": None}
    for name in ("decoder", "encoder", "rnn writer"):
        model, tokens = found[name], torch.tensor([[1, 2, 3]])
        assert isinstance(model, TokenPredictor)
        assert model.predicts_tokens
        assert model.token_logits(model(tokens)).shape == (1, 3, model.vocabulary)


def test_texts_of_several_lengths_keep_their_vectors() -> None:
    model = every()["clip"].eval()
    assert isinstance(model, ImageTextModel)
    rows = [[1, 29], [4, 5, 6, 29]]
    alone = torch.cat([model.texts(torch.tensor([row])) for row in rows])
    torch.testing.assert_close(model.texts(model.pad_texts(rows)), alone)


@pytest.mark.parametrize("name", ["decoder", "encoder", "speech", "rnn writer", "cnn writer", "cnn both ways"])
def test_streams_respond_as_the_whole_does(name: str) -> None:
    model = every()[name].eval()
    assert isinstance(model, StreamModel)
    X = model.example(None, torch.Generator().manual_seed(0))
    with torch.no_grad():
        whole = model.respond(X)
        pieces = model.respond_in_chunks(X.split(7, 1))
        if pieces is None:
            assert model.reach.lookahead != 0
        else:
            torch.testing.assert_close(torch.cat(list(pieces), 1), whole, atol=1e-4, rtol=1e-4)


# An architecture defined here, in one class, gets info, classify, look, trace, save and load for free.


@dataclass(frozen=True, kw_only=True)
class ToyConfig:
    """Square images of `size` pixels in patches of 4, one block."""

    size: int
    block: BlockConfig
    classes: int


@models.register
class Toy(nn.Module):
    """logits = W mean(block(patches)): no positions, no CLS."""

    inputs = ("image",)
    verbs = ("classify",)
    channels = 3
    patch_size = (4, 4)
    prefix_names: tuple[str, ...] = ()
    head_names = ("head",)

    def __init__(self, config: ToyConfig, *, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        width = config.block.attention.width
        self.embed = PatchEmbedding(self.patch_size, self.channels, width)
        self.encoder = Stack(config.block, 1)
        self.head = Linear(width, config.classes)
        generator = torch.Generator().manual_seed(seed)
        for weight in self.parameters():
            if not weight.is_meta:
                nn.init.normal_(weight, 0, 0.3, generator=generator)

    def features(self, image: Tensor) -> Tensor:
        return self.encoder(self.embed(image))

    def forward(self, image: Tensor) -> Tensor:
        return self.head(self.features(image).mean(1))

    @property
    def classes(self) -> int:
        return self.config.classes

    @property
    def image_size(self) -> tuple[int, int]:
        return self.config.size, self.config.size

    def class_logits(self, X: Tensor, real: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        return self(X)

    def with_classes(self, classes: int, *, image_size: tuple[int, int] | None = None, seed: int = 0) -> Toy:
        return Toy(replace(self.config, classes=classes), seed=seed)

    def patch_grid(self, size: tuple[int, int]) -> tuple[int, int]:
        return size[0] // 4, size[1] // 4

    def pool_weights(self, image: Tensor) -> Tensor:
        n = (image.shape[2] // 4) * (image.shape[3] // 4)
        return torch.full((len(image), n), 1 / n)

    def position_table(self, grid: tuple[int, int]) -> Tensor:
        return torch.zeros(grid[0] * grid[1], self.config.block.attention.width)

    def sizes(self) -> dict[str, str]:
        return {"image": f"{self.config.size}×{self.config.size}", "classes": str(self.classes)}


@pytest.fixture
def toy() -> Toy:
    block = BlockConfig(attention=heads(8, 2), ffn=FeedForwardConfig(width=8, hidden=16))
    return Toy(ToyConfig(size=16, block=block, classes=3), seed=1).eval()


@pytest.fixture
def folder(toy: Toy, tmp_path: Path) -> Path:
    gf.save(toy, tmp_path / "toy")
    how = {"image_processor_type": "ViTImageProcessor", "size": {"height": 16, "width": 16}}
    (tmp_path / "toy" / "preprocessor_config.json").write_text(json.dumps(how))
    return tmp_path / "toy"


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    pixels = np.random.default_rng(0).integers(0, 256, (20, 31, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    return tmp_path / "a.png"


def test_save_and_load(toy: Toy, folder: Path) -> None:
    loaded = gf.load(folder)
    assert isinstance(loaded, Toy)
    assert loaded.config == toy.config
    image = torch.randn(2, 3, 16, 16)
    torch.testing.assert_close(loaded(image), toy(image))


def test_info(folder: Path) -> None:
    shown = CliRunner().invoke(build_app("info"), ["info", str(folder)], catch_exceptions=False).stdout
    assert "Toy" in shown
    assert "16×16" in shown
    assert shown.splitlines()[-1].split() == ["commands", "classify"]


def test_classify(folder: Path, picture: Path) -> None:
    model = gf.load(folder)
    assert verbs(model) == ("classify",)
    found = gf.classify(model, picture)
    assert sorted(one.label for one in found) == ["LABEL_0", "LABEL_1", "LABEL_2"]
    assert sum(one.score for one in found) == pytest.approx(1)
    words = ["classify", "-m", str(folder), str(picture)]
    shown = CliRunner().invoke(build_app("classify"), words, catch_exceptions=False).stdout
    assert f"{found.label} {found.score:.4f}" in shown


def test_trace(folder: Path) -> None:
    model = gf.load(folder)
    with gf.trace(model, "*.A") as trace:
        model(torch.randn(1, 3, 16, 16))
    assert trace["encoder.0.attention.A"].shape == (1, 2, 16, 16)


def test_look(folder: Path, picture: Path) -> None:
    model = gf.load(folder)
    assert isinstance(model, PatchModel)
    report = gf.look(model, picture)
    names = [section.name for section in report.sections]
    assert "Answer" in names
    assert len(names) > 5


def test_an_unregistered_architecture_is_refused(toy: Toy, folder: Path) -> None:
    card = json.loads((folder / "glassformer.json").read_text())
    (folder / "glassformer.json").write_text(json.dumps(card | {"kind": "Stranger"}))
    with pytest.raises(ConfigError, match="there is no architecture 'Stranger': import the module that registers it"):
        gf.load(folder)
    with pytest.raises(ConfigError, match="takes no config"):
        models.register(nn.Linear)


@pytest.mark.parametrize("kind", MAKERS)
def test_a_seed_determines_the_weights(kind: str) -> None:
    model, again = tiny_model(f"tiny:{kind}", seed=5), tiny_model(kind, seed=5)
    assert not model.training
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
    other = tiny_model(kind, seed=6)
    assert any(not torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


def test_an_unknown_architecture(refused) -> None:  # type: ignore[no-untyped-def]
    refused(InputError, "there is no tiny:horse: choose tiny: and one of decoder", lambda: tiny_model("tiny:horse"))
