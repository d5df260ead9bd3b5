"""Models to folders: our own format, Hugging Face's and ONNX."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import soundfile
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import nn

import glassformer as gf
from glassformer.checkpoints import load_folder, native, onnx, origin_of, published_weights, save
from glassformer.checkpoints.export_folder import export_model
from glassformer.checkpoints.onnx import ExportedModel, explicit, export_onnx
from glassformer.checkpoints.origin import Origin, with_origin
from glassformer.checkpoints.preprocess import read_preprocess
from glassformer.core.audio import log_mel
from glassformer.errors import CheckpointError, ConfigError, GlassError, InputError
from glassformer.models import (
    CLIP,
    ConvNet2d,
    Decoder,
    Encoder,
    Hybrid,
    Recurrent,
    RecurrentConfig,
    Seq2Seq,
    ViT,
    Whisper,
    clip,
    convolutional,
    decoder,
    encoder,
    hybrid,
    seq2seq,
    vit,
    whisper,
)
from glassformer.models.convolutional_sequence import ConvNet1d
from glassformer.models.sequence_io import Tokens
from glassformer.pipelines.calibration import Calibration, calibration_of
from glassformer.pipelines.classify import labels_of
from glassformer.pipelines.loading import find_model
from glassformer.pipelines.speech.charset import recognizer_config
from glassformer.train.objectives.language_modeling import convolutional as convolutional_lm

# Our own format: what is loaded is what was saved, as a whole or not at all.


MODELS = [
    (Decoder, decoder.tiny()),
    (Decoder, decoder.tiny_modern()),
    (Encoder, encoder.tiny()),
    (Seq2Seq, seq2seq.tiny()),
    (Seq2Seq, seq2seq.tiny_modern()),
    (ViT, vit.tiny()),
]


@pytest.mark.parametrize(("kind", "config"), MODELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_there_and_back(tmp_path: Path, kind: type[nn.Module], config: Any, dtype: torch.dtype) -> None:
    model = kind(config, seed=3).to(dtype)
    again = gf.load(gf.save(model, tmp_path / "a" / "b"), dtype=dtype)
    assert type(again) is kind
    assert again.config == config
    assert not again.training
    for (name, a), (other, b) in zip(model.named_parameters(), again.named_parameters(), strict=True):
        assert name == other
        assert torch.equal(a, b)
    assert all(not buffer.is_meta for buffer in again.buffers())
    origin = origin_of(again)
    assert origin is not None
    assert origin.family == ""


def test_what_came_with_it_goes_on(tiny: Path, tmp_path: Path) -> None:
    (tiny / "tokenizer.json").write_text("{}")
    model = gf.load(tiny)
    gf.save(model, tmp_path / "own")
    again = gf.load(tmp_path / "own")
    assert again.origin.raw == model.origin.raw
    assert (again.origin.family, again.origin.names) == ("gpt2", model.origin.names)
    assert again.origin.tokenizer == tmp_path / "own" / "tokenizer.json"
    gf.save(again, tmp_path / "own")  # over the file that it is mapped from
    assert torch.equal(gf.load(tmp_path / "own").decoder.embed.table.weight, model.decoder.embed.table.weight)
    assert sorted(p.name for p in (tmp_path / "own").iterdir()) == [
        "glassformer.json",
        "model.safetensors",
        "tokenizer.json",
    ]


def test_two_saves_are_not_mixed(tmp_path: Path) -> None:
    gf.save(Decoder(decoder.tiny(), seed=0), tmp_path / "a")
    gf.save(Decoder(decoder.tiny_modern(), seed=0), tmp_path / "b")
    (tmp_path / "a" / native.CARD).write_bytes((tmp_path / "b" / native.CARD).read_bytes())
    with pytest.raises(CheckpointError, match="were not saved together"):
        gf.load(tmp_path / "a")


def test_a_save_that_fails_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = Decoder(decoder.tiny(), seed=0)
    gf.save(old, tmp_path / "a")

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(native, "save_file", fail)
    with pytest.raises(CheckpointError, match=r"model.safetensors cannot be written \(No space left on device\): free"):
        gf.save(Decoder(decoder.tiny(), seed=1), tmp_path / "a")
    again = gf.load(tmp_path / "a")
    assert torch.equal(again.decoder.embed.table.weight, old.decoder.embed.table.weight)
    assert len(list((tmp_path / "a").iterdir())) == 2


def rewrite(folder: Path, card: dict[str, Any]) -> None:
    """A card of someone else's making, with the digest that belongs to it."""
    text = json.dumps(card)
    (folder / native.CARD).write_text(text)
    tensors = load_file(folder / "model.safetensors")
    save_file(tensors, folder / "model.safetensors", metadata={"card": native._digest(text)})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda card: card | {"format": 2}, "format 2"),
        (lambda card: card | {"kind": "os"}, "no architecture 'os'"),
        (lambda card: card | {"kind": "Encoder"}, "config is"),
        (lambda card: card | {"config": None}, "config is 'None'"),
        (lambda card: card | {"origin": {"folder": "/etc"}}, "origin"),
        (lambda card: card | {"origin": 3}, "origin"),
        (lambda card: deep(card, 10**9), "depth is 1000000000"),
        (lambda card: deep(card, 3), r"decoder\.2\..* is missing"),
        (lambda card: deep(card, 1), r"decoder\.1\..* has no place"),
    ],
)
def test_hostile_cards(tmp_path: Path, change: Any, said: str) -> None:
    gf.save(Decoder(decoder.tiny(), seed=0), tmp_path)
    rewrite(tmp_path, change(json.loads((tmp_path / native.CARD).read_text())))
    with pytest.raises(GlassError, match=said):
        gf.load(tmp_path)


def deep(card: dict[str, Any], depth: int) -> dict[str, Any]:
    card["config"]["text"]["depth"] = depth
    return card


def test_only_our_models(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a Linear cannot be saved"):
        gf.save(nn.Linear(2, 2), tmp_path)


def test_weights_are_reproducible_and_have_the_mode_of_other_files(tmp_path: Path) -> None:
    model = ViT(vit.tiny(), seed=0)
    before = os.umask(0o027)
    try:
        files = [gf.save(model, tmp_path / str(i)) / "model.safetensors" for i in range(6)]
    finally:
        os.umask(before)
    assert len({path.read_bytes() for path in files}) == 1
    assert {oct(path.stat().st_mode & 0o777) for path in files} == {"0o640"}
    assert sorted(path.name for path in (tmp_path / "0").iterdir()) == ["glassformer.json", "model.safetensors"]


# Weights go out as they came in.


def test_as_it_came(tiny: Path) -> None:
    tensors = {name.removeprefix("transformer."): t for name, t in load_file(tiny / "model.safetensors").items()}
    save_file(tensors, tiny / "model.safetensors")
    given = published_weights(load_folder(tiny))
    assert given.keys() == tensors.keys()
    assert all(torch.equal(given[name], tensor) for name, tensor in tensors.items())


def test_a_model_of_our_own_in_usual_names() -> None:
    model = Decoder(decoder.tiny(), seed=0)
    given = published_weights(model, "gpt2")
    assert given["transformer.h.0.attn.c_attn.weight"].shape == (16, 48)
    with pytest.raises(ConfigError, match="not belong to a published family"):
        published_weights(model)
    with pytest.raises(ConfigError, match="'nonsense'"):
        published_weights(model, "nonsense")


def require_same(one: Path, other: Path) -> None:
    ours, theirs = load_file(one), load_file(other)
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert ours[name].dtype == theirs[name].dtype
        assert torch.equal(ours[name], theirs[name]), name


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_bit_for_bit(tmp_path: Path, write_gpt2: Callable[..., Path], dtype: torch.dtype) -> None:
    folder = write_gpt2(tmp_path / "tiny", Decoder(decoder.plain(30, 12, 2, 3, 20), seed=0), dtype)
    tensors = load_file(folder / "model.safetensors")
    tensors |= {
        "lm_head.weight": tensors["transformer.wte.weight"].clone(),
        "transformer.h.0.attn.bias": torch.ones(1, 1),
    }
    save_file(tensors, folder / "model.safetensors")  # a copy of a tied weight, and a buffer
    (folder / "generation_config.json").write_text('{"eos_token_id": 3}')
    (folder / "tokenizer.json").write_text("{}")
    out = export_model(folder, tmp_path / "out")
    require_same(out / "model.safetensors", folder / "model.safetensors")
    for name in ("config.json", "generation_config.json", "tokenizer.json"):
        assert json.loads((out / name).read_text()) == json.loads((folder / name).read_text())


def test_from_our_own_format(tiny: Path, tmp_path: Path) -> None:
    save(load_folder(tiny), tmp_path / "ours")
    out = export_model(tmp_path / "ours", tmp_path / "out")
    require_same(out / "model.safetensors", tiny / "model.safetensors")
    assert json.loads((out / "config.json").read_text()) == json.loads((tiny / "config.json").read_text())


def test_hugging_face_reads_it(hf: Any, tiny: Path, tmp_path: Path) -> None:
    peer = hf.GPT2LMHeadModel.from_pretrained(export_model(tiny, tmp_path / "out"))
    tokens = torch.tensor([[3, 1, 4, 1, 5]])
    with torch.no_grad():
        torch.testing.assert_close(peer(tokens).logits, load_folder(tiny)(tokens), atol=1e-5, rtol=1e-5)


def test_a_sentence_encoder_with_its_dense_layer(hf: Any, publish: Callable[..., Path], tmp_path: Path) -> None:
    sizes = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 20}
    folder = publish(hf.BertModel(hf.BertConfig(vocab_size=20, max_position_embeddings=10, **sizes)))
    kinds = ("Transformer", ""), ("Pooling", "1_Pooling"), ("Dense", "2_Dense"), ("Normalize", "3_Normalize")
    modules = [{"type": f"sentence_transformers.models.{kind}", "path": path} for kind, path in kinds]
    (folder / "modules.json").write_text(json.dumps(modules))
    for name in ("1_Pooling", "2_Dense"):
        (folder / name).mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    (folder / "2_Dense" / "config.json").write_text('{"out_features": 5, "bias": true}')
    dense = {"linear.weight": torch.randn(5, 12), "linear.bias": torch.randn(5)}
    save_file(dense, folder / "2_Dense" / "model.safetensors")
    out = export_model(folder, tmp_path / "out")
    for name in (".", "2_Dense"):
        require_same(out / name / "model.safetensors", folder / name / "model.safetensors")
    tokens = torch.tensor([[5, 6, 7]])
    one, other = load_folder(folder), load_folder(out)
    assert torch.equal(one.sentences(one(tokens)), other.sentences(other(tokens)))


ENCODER = encoder.tiny()
MEAN_POOLED = replace(vit.plain(8, 4, 16, 2, 2, classes=5, channels=1), image=(8, 12), prefix=0, pool="mean")
TRAINED_FROM_SCRATCH = [
    (Decoder, decoder.tiny_modern(), "LlamaForCausalLM"),
    (Decoder, replace(decoder.plain(50, 16, 2, 2, 48, dropout=0.1), tied=False), "GPT2LMHeadModel"),
    (Encoder, ENCODER, "BertForMaskedLM"),
    (Encoder, replace(ENCODER, word_head=False, classes=3, pooler=True), "BertForSequenceClassification"),
    (Encoder, replace(ENCODER, word_head=False, classes=3, per_token=True), "BertForTokenClassification"),
    (ViT, vit.tiny(), "ViTForImageClassification"),
    (ViT, MEAN_POOLED, "IJepaForImageClassification"),
]


@pytest.mark.parametrize(("kind", "config", "name"), TRAINED_FROM_SCRATCH)
def test_transformers_loads_what_was_trained_from_scratch(
    hf: Any, tmp_path: Path, kind: type[nn.Module], config: Any, name: str
) -> None:
    origin = Origin(folder=tmp_path, raw={}, generation={"eos_token_id": 7})
    model = with_origin(kind(config, seed=3).eval(), origin)
    out = export_model(save(model, tmp_path / "ours"), tmp_path / "out")
    peer = getattr(hf, name).from_pretrained(out).eval()
    assert peer.config.architectures == [name]
    if isinstance(model, ViT):
        x: Any = torch.randn(2, model.config.channels, *model.config.image)
        ours = model(x)
    else:
        x = torch.randint(4, 50, (2, 9))
        ours = model(x)
        if isinstance(model, Encoder):
            ours = model.classify(x) if config.classes else model.words(ours)
        else:
            assert peer.generation_config.eos_token_id == 7
    with torch.no_grad():
        torch.testing.assert_close(peer(x).logits, ours, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(peer(x).logits, getattr(hf, name).from_pretrained(out)(x).logits)


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        (Encoder, replace(ENCODER, word_head=False, classes=3)),  # BERT classifies from its pooler, not the mean
        (ViT, replace(vit.tiny(), registers=2)),
        (Seq2Seq, seq2seq.tiny_modern()),
    ],
)
def test_architectures_that_transformers_does_not_have_are_refused(
    tmp_path: Path, refused: Any, kind: type[nn.Module], config: Any
) -> None:
    folder = save(kind(config), tmp_path / "ours")
    fact = f"this {kind.__name__} differs from every published architecture"
    refused(ConfigError, fact, lambda: export_model(folder, tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_folded_temperature_is_not_applied_twice(tmp_path: Path) -> None:
    """An exported folder keeps the means that tell unusual images, with temperature 1."""
    model = ViT(vit.plain(8, 4, 16, 1, 2, classes=3), seed=1)
    folder = save(model, tmp_path / "model")
    Calibration(temperature=2.5, means=torch.ones(3, 16), factor=torch.eye(16), threshold=3.0).save(folder)
    out = load_folder(export_model(folder, tmp_path / "out"))
    torch.testing.assert_close(out.head.weight, model.head.weight / 2.5)
    torch.testing.assert_close(out.head.bias, model.head.bias / 2.5)
    found = calibration_of(out)
    assert found is not None
    assert (found.temperature, found.threshold) == (1.0, 3.0)
    assert found.means is not None


pytestmark = pytest.mark.usefixtures("unchecked")
onnxruntime = pytest.importorskip("onnxruntime")


@pytest.mark.slow
def test_a_decoder_with_grouped_heads(tmp_path: Path) -> None:
    model = Decoder(decoder.tiny_modern(), seed=1)
    made = export_onnx(save(model, tmp_path / "model"), tmp_path / "model.onnx")
    assert made.compared is not None
    assert made.compared.apart < 1e-5
    assert made.compared.sizes == ("5 tokens", "8 tokens", "12 tokens")
    session = onnxruntime.InferenceSession(str(made.path))
    tokens = torch.randint(50, (4, 11), generator=torch.Generator().manual_seed(0))
    real = torch.ones(4, 11, dtype=torch.bool)
    real[2, :5] = False
    (theirs,) = session.run(None, {"tokens": tokens.numpy(), "real": real.numpy()})
    ours = model.eval()(tokens, real)
    torch.testing.assert_close(torch.from_numpy(theirs)[real], ours[real], atol=1e-5, rtol=1e-4)
    alone = model(tokens[2:3, 5:])  # padding changes nothing
    torch.testing.assert_close(torch.from_numpy(theirs)[2, 5:], alone[0], atol=1e-5, rtol=1e-4)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "model.md", "model.onnx"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda: Encoder(encoder.tiny(), seed=1),
        lambda: Seq2Seq(seq2seq.tiny(), seed=1),
        lambda: ViT(vit.tiny(), seed=1),
        lambda: Hybrid(hybrid.tiny(), seed=1),
        lambda: ConvNet2d(convolutional.tiny(), seed=1),
        lambda: Whisper(whisper.tiny(), seed=1),
        lambda: CLIP(clip.tiny(), seed=1),
        lambda: ConvNet1d(convolutional_lm(9, 8, 2), seed=1),
    ],
)
def test_other_kinds(tmp_path: Path, make: Callable[[], Any]) -> None:
    made = export_onnx(save(make(), tmp_path / "model"), tmp_path / "model.onnx")
    assert made.compared is not None
    assert made.compared.apart < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["vit", "hybrid", "cnn"])
def test_the_program_beside_an_onnx_file_answers_as_classify_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arch: str
) -> None:
    trained = gf.train("classify", "uci-digits", output=tmp_path / "mine", arch=arch, steps=3, progress=False)
    made = export_onnx(tmp_path / "mine", tmp_path / "digits.onnx")
    page = (tmp_path / "digits.md").read_text()
    assert "Resize to 8 × 8" in page
    assert "| 9 | 9 |" in page
    monkeypatch.chdir(tmp_path)
    picture = Image.effect_noise((31, 17), 60)
    picture.putalpha(Image.linear_gradient("L").resize(picture.size))  # transparent pixels are put on white
    picture.save("picture.png")
    names: dict[str, Any] = {}
    exec(page.split("```python\n")[1].split("```")[0], names)
    steps = read_preprocess(origin_of(gf.load(tmp_path / "mine")))
    assert trained.examined is not None
    assert trained.examined.temperature is not None
    with torch.no_grad():
        ours = trained.model.eval()(steps.batch([Image.open("picture.png")])) / trained.examined.temperature
    torch.testing.assert_close(torch.from_numpy(names["output"]), ours, atol=1e-4, rtol=1e-3)
    assert made.output == "class logits"


def run_page(page: Path, text: str, second: str = "") -> dict[str, Any]:
    """Run the program of the page beside an .onnx file on a text or two."""
    program, names = page.read_text().split("```python\n")[1].split("```")[0], dict[str, Any]()
    exec(program.replace("A sentence.", text).replace("Another sentence.", second), names)
    return names


@pytest.fixture(scope="module")
def text_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two classifiers of texts, one of words, exported to ONNX in one folder."""
    place = tmp_path_factory.mktemp("texts")
    said = [("good", "lovely"), ("bad", "awful")]
    # the labels are wrong now and then, so that a temperature is fitted
    rows = [{"text": f"a {said[i % 2][i % 4 // 2]} film {i}", "label": str((i + (i % 7 == 0)) % 2)} for i in range(60)]
    many = [{"text": row["text"], "label": ["film", row["text"].split()[1]]} for row in rows]
    words = [{"tokens": row["text"].split(), "tags": ["O", "B-how", "O", "O"]} for row in rows]
    for name, data in (("rev", rows), ("multi", many), ("ner", words)):
        options: dict[str, Any] = {"width": 16, "depth": 1, "steps": 8, "max_length": 12, "progress": False}
        gf.train("classify", data, val=data, output=place / name, vocab_size=300 + len(name), **options)
        export_onnx(place / name, place / f"{name}.onnx")
    return place


@pytest.mark.slow
@pytest.mark.parametrize("published", [True, False])
def test_a_classifier_of_pairs_is_exported_with_both_texts(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, published: bool
) -> None:
    """A published encoder has an input of segments; one trained from scratch separates the texts by a token."""
    words = ["cat", "dog", "mat", "hat"]
    rows = [
        {"premise": f"the {words[i % 4]} sat", "hypothesis": f"a {words[i % (4 - i % 2)]}", "label": str(i % 2)}
        for i in range(40)
    ]
    options: dict[str, Any] = {"from_": str(bert)} if published else {"width": 16, "depth": 1, "vocab_size": 300}
    gf.train("classify", rows, steps=4, lr=1e-2, output=tmp_path / "nli", progress=False, **options)
    monkeypatch.chdir(tmp_path)
    made = export_onnx("nli", "nli.onnx")
    inputs = [one.name for one in onnxruntime.InferenceSession(str(made.path)).get_inputs()]
    assert inputs == ["tokens", "real", "segments"][: 3 if published else 2]
    assert "The model was trained on pairs of texts" in Path("nli.md").read_text()
    pair = ("the cat sat", "a dog")
    names = run_page(Path("nli.md"), pair[0], pair[1])
    model = gf.load("nli")
    ours = {one.label: one.score for one in gf.classify(model, pair).scores}
    assert dict(zip(labels_of(model), names["p"][0].tolist(), strict=True)) == pytest.approx(ours, rel=1e-4)


@pytest.mark.slow
def test_models_of_one_folder_keep_their_tokenizers(text_models: Path) -> None:
    assert not (text_models / "tokenizer.json").exists()
    for name in ("rev", "multi", "ner"):
        own = (text_models / name / "tokenizer.json").read_bytes()
        assert (text_models / f"{name}.tokenizer.json").read_bytes() == own


@pytest.mark.slow
def test_the_page_of_a_token_classifier_has_the_rule_of_words(
    text_models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(text_models)
    text = "an unbelievably awful film, a good one after all"
    ours = gf.classify(gf.load("ner"), text)
    names = run_page(Path("ner.md"), text)
    assert names["words"] == [one.word for one in ours.scores]
    assert len(names["words"]) < 10, "truncated to 12 tokens"
    assert names["p"].max(-1).tolist() == pytest.approx([one.score for one in ours.scores], rel=1e-4)
    page = Path("ner.md").read_text()
    assert "of its first token" in page
    assert "truncated to 12" in page


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rev", "multi"])
def test_an_onnx_file_gives_the_probabilities_of_classify(
    text_models: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(text_models)
    model = gf.load(name)
    found = calibration_of(model)
    assert found is not None
    assert found.temperature != 1
    ours = {one.label: one.score for one in gf.classify(model, "a lovely film", top_k=9).scores}
    p = run_page(Path(f"{name}.md"), "a lovely film")["p"][0].tolist()
    assert dict(zip(labels_of(model), p, strict=True)) == pytest.approx(ours, rel=1e-4)
    assert f"divided by the temperature {found.temperature:.4g}" in Path(f"{name}.md").read_text()


@pytest.mark.slow
def test_a_masked_language_model_gives_token_logits(tmp_path: Path) -> None:
    model = Encoder(replace(encoder.tiny(), word_head=True), seed=1).eval()
    made = export_onnx(save(model, tmp_path / "model"), tmp_path / "model.onnx")
    assert made.output == "token logits"
    tokens, real = torch.tensor([[5, 6, 7]]), torch.ones(1, 3, dtype=torch.bool)
    (theirs,) = onnxruntime.InferenceSession(str(made.path)).run(None, {"tokens": tokens.numpy(), "real": real.numpy()})
    torch.testing.assert_close(torch.from_numpy(theirs), model.words(model(tokens, real)), atol=1e-5, rtol=1e-4)


def test_what_is_exported_is_stated() -> None:
    plain, words = (Encoder(replace(encoder.tiny(), word_head=head)) for head in (False, True))
    assert [ExportedModel(plain).output, ExportedModel(words).output, ExportedModel(words, pooled=True).output] == [
        "embeddings",
        "token logits",
        "embeddings",
    ]
    call = ExportedModel(words)
    assert call(*call.example(2, 5).values()).shape == (2, 5, words.config.text.vocabulary)


def test_layers_are_explicit_only_meanwhile() -> None:
    model = Decoder(decoder.tiny()).eval()
    before = model(torch.tensor([[1, 2, 3]]))
    with explicit(model):
        assert all(block.attention.A.edited for block in model.decoder.blocks())
        torch.testing.assert_close(model(torch.tensor([[1, 2, 3]])), before)
    assert not any(block.attention.A.edited for block in model.decoder.blocks())


def test_a_file_that_is_not_equal_is_not_kept(tmp_path: Path, monkeypatch: Any, refused: Any) -> None:
    class Wrong:
        def __init__(self, *_: Any, **__: Any) -> None: ...
        def get_inputs(self) -> list[Any]:
            return []

        def run(self, *_: Any) -> list[Any]:
            return [torch.zeros(1).numpy()]

    call = ExportedModel(Decoder(decoder.tiny()).eval())
    monkeypatch.setattr(onnxruntime, "InferenceSession", Wrong)
    refused(CheckpointError, "the ONNX file differs", lambda: onnx.compare_in_onnxruntime(call, tmp_path))


@pytest.mark.parametrize("wrong_at", [5, 8, 12])
def test_nan_in_an_onnx_file_is_a_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Any, wrong_at: int
) -> None:
    call = ExportedModel(Decoder(decoder.tiny()).eval())

    class Session:
        def __init__(self, *_: Any, **__: Any) -> None: ...
        def get_inputs(self) -> list[Any]:
            return [SimpleNamespace(name="tokens"), SimpleNamespace(name="real")]

        def run(self, _: Any, given: dict[str, Any]) -> list[Any]:
            output = call(*(torch.from_numpy(x) for x in given.values())).detach()
            return [(output * torch.nan if output.shape[1] == wrong_at else output).numpy()]

    monkeypatch.setattr(onnxruntime, "InferenceSession", Session)
    said = f"the ONNX file differs from the model by nan on {wrong_at} tokens"
    refused(CheckpointError, said, lambda: onnx.compare_in_onnxruntime(call, tmp_path))


def test_what_an_export_compared_is_stated() -> None:
    compared = onnx.OnnxComparison(2e-7, ("5 tokens", "8 tokens"), ("a sliding window of 4096 tokens",))
    said = "equal: at most 2.0e-07 apart in onnxruntime, inputs of 5 tokens, 8 tokens; not tried: a sliding window of"
    assert said in str(onnx.Exported(Path("a.onnx"), "token logits", compared))
    assert "not compared: pip install onnxruntime" in str(onnx.Exported(Path("a.onnx"), "token logits", None))


def test_onnx_what_is_refused(tmp_path: Path, refused: Any) -> None:
    refused(InputError, "a.bin does not end in .onnx", lambda: export_onnx(tmp_path, tmp_path / "a.bin"))
    (tmp_path / "a.onnx").write_text("")
    refused(InputError, f"{tmp_path / 'a.onnx'} already exists", lambda: export_onnx(tmp_path, tmp_path / "a.onnx"))


@pytest.mark.slow
def test_the_program_beside_a_speech_recogniser_hears_what_the_model_hears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = export_onnx(find_model("listener"), tmp_path / "listener.onnx")
    assert made.output == "symbol logits (CTC)"
    monkeypatch.chdir(tmp_path)
    wave = torch.randn(20_480, generator=torch.Generator().manual_seed(0)) / 10
    soundfile.write("recording.wav", wave.numpy(), 16_000, subtype="PCM_16")
    names: dict[str, Any] = {}
    exec((tmp_path / "listener.md").read_text().split("```python\n")[1].split("```")[0], names)
    model = load_folder(find_model("listener"))
    heard = torch.from_numpy(soundfile.read("recording.wav", dtype="float32")[0])
    with torch.no_grad():
        ours = model.eval()(log_mel(heard, recognizer_config(model).mel)[None].float())
    torch.testing.assert_close(torch.from_numpy(names["output"]), ours, atol=1e-3, rtol=1e-3)


def test_onnx_of_a_recurrent_network_is_refused_with_the_reason(tmp_path: Path, refused: Any) -> None:
    config = RecurrentConfig(reads=Tokens(vocabulary=9), classes=9, pool="none", width=8, layers=1)
    folder = save(Recurrent(config, seed=0), tmp_path / "model")
    said = "a Recurrent loops over time, and its ONNX file would be of one length only: export its folder instead"
    refused(InputError, said, lambda: export_onnx(folder, tmp_path / "a.onnx"))
