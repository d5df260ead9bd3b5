"""The recipes for text, whole, on a few sentences; and what they shipped, on the data it was measured with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from glassformer.checkpoints import load_folder
from glassformer.data import Pairs
from glassformer.data.sources import fetch, unpack
from glassformer.pipelines import embed, evaluate, generate, translate
from glassformer.pipelines.loading import HERE

RECIPES = Path(__file__).parents[2] / "recipes"
SMALL = {
    "translator": {
        "VOCABULARY": 300,
        "FIRST_STEPS": 13,
        "STEPS": (6, 10),
        "SECOND": {"schedule": "wsd", "warmup": 2},
        "THIRD_STEPS": 10,
        "THIRD": {"warmup": 2},
        "FOURTH_STEPS": 10,
        "FOURTH": {"schedule": "wsd", "warmup": 2},
        "FIFTH_STEPS": 6,
        "FIFTH": {"schedule": "wsd", "warmup": 2},
        "TOKENS": 200,
        "FIFTH_TOKENS": 300,
        "PART": 2,
    },
    "writer": {"VOCABULARY": 300, "LENGTH": 32, "STEPS": 20},
    "finder": {"VOCABULARY": 300, "MASKED": 20, "CONTRAST": 20},
}
MEGABYTES = {"translator": 16, "writer": 5, "finder": 5}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Pairs in which two of three sentences share a translation, and text: train, valid and test."""
    folder = tmp_path / "data"
    folder.mkdir()
    lines = [f"{a} {i} {b}\t{i} phrase {i % 9}\tsomeone\n" for i in range(60) for a, b in (("one", "two"), ("a", "b"))]
    verse = "".join(f"the {i} cats of the house went out at {i % 24} o'clock.\n" for i in range(200))
    for part, share in (("train", 1), ("valid", 9), ("test", 9)):
        (folder / f"{part}.tsv").write_text("".join(lines[::share]), encoding="utf-8")
        (folder / f"{part}.txt").write_text(verse[: len(verse) // share], encoding="utf-8")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", ["translator", "finder", "writer"])
def test_a_recipe_leaves_a_model_its_numbers_and_a_card(
    name: str, recipe: Any, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = recipe(name)
    for setting, value in SMALL[name].items():
        monkeypatch.setattr(module, setting, value)
    monkeypatch.setattr(module, "open_data", lambda _: data)
    monkeypatch.setattr(module, "EVERYDAY", data / "valid.tsv", raising=False)
    out, runs = tmp_path / "out", tmp_path / "runs"
    getattr(module, name)(out, runs, False)
    card, measured = (out / "card.md").read_text(), json.loads((out / "measured.json").read_text())
    assert card.startswith(f"# {name}\n")
    assert "{" not in card
    assert f"{measured['parameters']:,}" in card
    assert measured["machine"]["processor"] in card
    before = contents(out)
    getattr(module, name)(out, runs, True)  # everything is done: nothing is trained again, and the folder is the same
    assert contents(out) == before
    model = load_folder(out)
    match name:
        case "translator":
            assert isinstance(translate(model, "one 1 two"), str)
        case "writer":
            assert isinstance(generate(model, "the", max_new_tokens=3), str)
        case "finder":
            assert embed(model, "one 1 two").shape == (128,)


def contents(folder: Path) -> dict[str, Any]:
    """The files of a folder; weights by their values, for the order of names in their file is free."""
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".safetensors"}
    return files | {name: weight.tolist() for name, weight in load_folder(folder).state_dict().items()}


def told(name: str) -> dict[str, Any]:
    return dict(json.loads((HERE / name / "measured.json").read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", ["translator", "writer", "finder"])
def test_what_is_shipped_is_small_and_says_what_it_is(name: str) -> None:
    measured = told(name)
    size = sum(path.stat().st_size for path in (HERE / name).iterdir())
    assert size < MEGABYTES[name] * 1e6
    card = (HERE / name / "card.md").read_text(encoding="utf-8")
    assert f"{measured['parameters']:,}" in card
    assert {"## Training data", "## Training", "## Limitations"} <= set(card.splitlines())


@pytest.mark.slow
def test_the_translator_is_as_good_as_it_says(recipe: Any) -> None:
    said, model, data = told("translator")["held_out"], load_folder(HERE / "translator"), fetch("tatoeba-en-fr")
    found = evaluate(model, data, limit=said["sentences"])
    assert found["sentences"] == said["sentences"]
    assert found["bleu"] == pytest.approx(said["bleu"], abs=0.5)
    assert found["chrf"] == pytest.approx(said["chrf"], abs=0.5)
    train, test = (Pairs.open(data / f"{part}.tsv") for part in ("train", "test"))
    measured = recipe("translator").measure(model, train, test)
    for part in ("one_word_from_a_training_sentence", "rest"):
        assert measured[part]["sentences"] == said[part]["sentences"]
        assert measured[part]["bleu"] == pytest.approx(said[part]["bleu"], abs=0.5)
    assert measured["everyday"]["phrases"] == said["everyday"]["phrases"]
    assert measured["everyday"]["right"] == pytest.approx(said["everyday"]["right"], abs=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "expected"),
    {
        "hello": {"Bonjour", "Salut"},
        "thank you": {"Merci"},
        "Yes": {"Oui"},
        "dog": {"Chien", "Le chien"},
        "Where is the station": {"Où est la gare", "Où se trouve la gare"},
        "THE BOOK IS ON THE TABLE": {"Le livre est sur la table"},
        "Paris is the capital of France.": {"Paris est la capitale de la France."},
        "I am tired, but I am happy.": {"Je suis fatigué, mais je suis heureux."},
    }.items(),
)
def test_the_translator_survives_ordinary_input(source: str, expected: set[str]) -> None:
    assert translate(load_folder(HERE / "translator"), source) in expected


@pytest.mark.slow
def test_the_writer_is_as_good_as_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = told("writer")["held_out"]
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path))
    found = evaluate(load_folder(HERE / "writer"), unpack("shakespeare"))
    assert found["bits_per_byte"] == pytest.approx(part["bits_per_byte"], abs=1e-3)
    assert found["perplexity_per_byte"] == pytest.approx(part["perplexity_per_byte"], abs=5e-3)


@pytest.mark.slow
def test_the_finder_beats_bags_of_words(recipe: Any) -> None:
    measured = told("finder")
    made = recipe("finder").Prepared(fetch("tatoeba-en-fr"))
    found, bag = made.judge(load_folder(HERE / "finder")), made.bag()
    for part in ("all", "hard"):
        rank = found[part]["mean_reciprocal_rank"]
        assert rank == pytest.approx(measured["held_out"][part]["mean_reciprocal_rank"], abs=0.003)
        assert rank > max(bag[kind][part]["mean_reciprocal_rank"] for kind in ("counts", "tfidf"))
