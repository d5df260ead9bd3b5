"""Every architecture states what it takes and what it can do, and keeps to it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from glassformer import models
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
    with pytest.raises(InputError, match="this Decoder cannot assign classes: its verbs are: generate"):
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
        pieces = model.respond_in_pieces(X.split(7, 1))
        if pieces is None:
            assert model.reach.lookahead != 0
        else:
            torch.testing.assert_close(torch.cat(list(pieces), 1), whole, atol=1e-4, rtol=1e-4)
