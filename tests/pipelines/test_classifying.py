"""Oracles: Hugging Face's classes and processors on the same folders."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tokenizers import Tokenizer

import glassformer as gf
from glassformer.checkpoints import load_folder
from glassformer.errors import ConfigError, InputError
from glassformer.models import Decoder, ViT, decoder, vit
from glassformer.pipelines.classify import Classification, LabelScore, classify
from glassformer.pipelines.tokenizers import tokenizer_of


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    pixels = np.random.default_rng(0).integers(0, 256, (20, 31, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    return tmp_path / "a.png"


@pytest.fixture
def seer(hf: Any, tmp_path: Path) -> Path:
    config = hf.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24, image_size=16, patch_size=8
    )
    config.id2label = {0: "cat", 1: "dog", 2: "fish"}
    model = hf.ViTForImageClassification(config)
    for weight in model.parameters():
        weight.data = 0.3 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))
    model.save_pretrained(tmp_path / "vit")
    hf.ViTImageProcessor(size={"height": 16, "width": 16}).save_pretrained(tmp_path / "vit")
    return tmp_path / "vit"


def test_texts_as_hugging_face(hf: Any, bert: Path) -> None:
    model = load_folder(bert)
    text = "the cat sat on the mat"
    with torch.no_grad():
        peer = hf.BertForSequenceClassification.from_pretrained(bert)
        expected = peer(torch.tensor([tokenizer_of(model).encode(text)])).logits[0].softmax(-1)
    found = {guess.label: guess.score for guess in gf.classify(model, text)}
    assert found == {"bad": pytest.approx(float(expected[0])), "good": pytest.approx(float(expected[1]))}
    (best,) = classify(model, text, top_k=1)
    assert best.score == max(found.values())


@pytest.mark.parametrize(
    ("problem", "count"),
    [
        ("regression", 1),
        ("regression", 3),
        ("multi_label_classification", 3),
        ("single_label_classification", 3),
        (None, 1),
        (None, 3),
    ],
)
def test_scores_are_those_of_hugging_faces_pipeline(
    hf: Any, bert: Path, tmp_path: Path, problem: str | None, count: int
) -> None:
    config = hf.BertConfig.from_pretrained(bert, num_labels=count, problem_type=problem)
    torch.manual_seed(0)
    peer = hf.BertForSequenceClassification(config).eval()
    peer.classifier.weight.data *= 30
    peer.save_pretrained(tmp_path / "m")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        if (bert / name).is_file():
            (tmp_path / "m" / name).write_bytes((bert / name).read_bytes())
    tokenizer = hf.AutoTokenizer.from_pretrained(tmp_path / "m")
    pipe = hf.pipeline("text-classification", model=peer, tokenizer=tokenizer, device="cpu")
    for item in ("the cat sat", ("the cat", "it was soft")):
        given = item if isinstance(item, str) else {"text": item[0], "text_pair": item[1]}
        expected = {one["label"]: one["score"] for one in _flat(pipe(given, top_k=None))}
        found = classify(load_folder(tmp_path / "m"), item)
        assert {one.label: one.score for one in found} == pytest.approx(expected, abs=1e-5)
        assert found.problem_type == (problem or ("multi" if count == 1 else "single") + "_label_classification")


def _flat(found: Any) -> list[Any]:
    return found[0] if isinstance(found[0], list) else list(found)


def test_a_result_shows_itself() -> None:
    found = Classification((LabelScore("cat", 0.75), LabelScore("<dog>", 0.25)))
    assert str(found) == f"cat     75.0%  {'█' * 30}\n<dog>   25.0%  {'█' * 10}"
    assert "<td>&lt;dog&gt;</td><td>0.2500</td>" in found._repr_html_()
    assert (found.label, found.score, len(found)) == ("cat", 0.75, 2)
    assert str(Classification((LabelScore("LABEL_0", -1.25),), "regression")) == "LABEL_0  -1.2500"


def test_images_as_hugging_face(hf: Any, seer: Path, picture: Path) -> None:
    processor = hf.ViTImageProcessor.from_pretrained(seer)
    peer = hf.ViTForImageClassification.from_pretrained(seer)
    with torch.no_grad(), Image.open(picture) as image:
        expected = peer(**processor(image, return_tensors="pt")).logits[0].softmax(-1)
    found = classify(load_folder(seer), picture, top_k=2)
    best = expected.topk(2)
    assert [guess.label for guess in found] == [("cat", "dog", "fish")[i] for i in best.indices]
    np.testing.assert_allclose([guess.score for guess in found], best.values, atol=0.02)
    with Image.open(picture) as image:
        assert classify(load_folder(seer), image, top_k=2) == found


def test_clip_by_texts(hf: Any, byte_words: Tokenizer, tmp_path: Path, picture: Path) -> None:
    from tokenizers import processors

    size = byte_words.get_vocab_size()
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    text = {**sizes, "vocab_size": size + 1, "max_position_embeddings": 20, "eos_token_id": size, "bos_token_id": 0}
    config = hf.CLIPConfig(
        text_config={**text, "pad_token_id": 1},
        vision_config={**sizes, "image_size": 16, "patch_size": 8},
        projection_dim=8,
    )
    model = hf.CLIPModel(config)
    for weight in model.parameters():
        weight.data = 0.3 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))
    folder = tmp_path / "clip"
    model.save_pretrained(folder)
    processor = hf.CLIPImageProcessor(size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16})
    processor.save_pretrained(folder)
    words = Tokenizer.from_str(byte_words.to_str())
    words.add_special_tokens(["<|endoftext|>"])
    words.post_processor = processors.TemplateProcessing(
        single="$A <|endoftext|>", special_tokens=[("<|endoftext|>", size)]
    )
    words.save(str(folder / "tokenizer.json"))
    labels = ["the cat", "the dog sat in the garden"]
    found = classify(load_folder(folder), picture, labels=labels)
    with torch.no_grad(), Image.open(picture) as image:
        pixels = processor(image, return_tensors="pt")["pixel_values"]
        scores = [
            model.eval()(pixel_values=pixels, input_ids=torch.tensor([words.encode(label).ids])).logits_per_image[0, 0]
            for label in labels
        ]
    expected = torch.stack(scores).softmax(-1)
    assert found[0].label == labels[int(expected.argmax())]
    assert found[0].score == pytest.approx(float(expected.max()), abs=0.02)
    assert sum(guess.score for guess in found) == pytest.approx(1)


def test_labels_without_names(bert: Path, edited: Callable[..., Path]) -> None:
    model = load_folder(edited(bert, config={"id2label": None}))
    assert {guess.label for guess in classify(model, "the cat")} == {"LABEL_0", "LABEL_1"}


def test_what_is_refused(bert: Path, seer: Path, picture: Path, tmp_path: Path, refused: Any) -> None:
    model = load_folder(seer)
    refused(InputError, f"there is no file {tmp_path / 'x.png'}", lambda: classify(model, tmp_path / "x.png"))
    (tmp_path / "b.png").write_text("no picture")
    refused(InputError, f"{tmp_path / 'b.png'} cannot be read", lambda: classify(model, tmp_path / "b.png"))
    refused(InputError, "top_k must be at least 1, got 0", lambda: classify(model, picture, top_k=0))
    own = "labels were given, but this ViT has its own classes"
    refused(InputError, own, lambda: classify(model, picture, labels=["a"]))
    refused(InputError, "this Decoder cannot assign classes", lambda: classify(Decoder(decoder.tiny()), "a"))
    refused(InputError, "this model was not loaded", lambda: classify(ViT(vit.tiny()), picture))
    refused(InputError, "a text classifier was given a PosixPath", lambda: classify(load_folder(bert), picture))
    refused(InputError, "an image classifier was given a tuple", lambda: classify(model, ("a", "b")))


def test_a_softmax_over_one_label_is_refused(hf: Any, bert: Path, tmp_path: Path, refused: Any) -> None:
    hf.BertForSequenceClassification(hf.BertConfig.from_pretrained(bert, num_labels=1)).save_pretrained(tmp_path / "m")
    (tmp_path / "m" / "tokenizer.json").write_bytes((bert / "tokenizer.json").read_bytes())
    raw = json.loads((tmp_path / "m" / "config.json").read_text())
    (tmp_path / "m" / "config.json").write_text(json.dumps(raw | {"problem_type": "single_label_classification"}))
    said = "problem_type is 'single_label_classification', but the model has one label"
    refused(ConfigError, said, lambda: classify(load_folder(tmp_path / "m"), "the cat"))


def test_a_truncated_text_is_said_to_be(bert: Path, edited: Callable[..., Path]) -> None:
    folder = edited(bert)
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 6}')
    model = load_folder(folder)
    assert classify(model, "the").warning == ""
    found = classify(model, "the cat sat on the mat")
    assert found.truncated_to == 6
    assert "truncated to the model's maximum of 6 tokens" in str(found)
    assert "truncated" in found._repr_html_()
    (folder / "test.csv").write_text("text,label\nthe,good\nthe cat sat on the mat,bad\nthe mat sat on the cat,bad\n")
    metrics = gf.evaluate(model, folder / "test.csv")
    assert (metrics["texts"], metrics["truncated"]) == (3, 2)


def test_an_unknown_problem_type_is_refused(bert: Path, edited: Callable[..., Path], refused: Any) -> None:
    model = load_folder(edited(bert, config={"problem_type": "ranking"}))
    refused(ConfigError, "problem_type is 'ranking': it must be one of", lambda: classify(model, "the cat"))
