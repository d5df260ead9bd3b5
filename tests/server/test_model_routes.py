"""The Model room over HTTP: the same weights as the model itself."""

from __future__ import annotations

import base64
import io
import urllib.request
from typing import Any

import numpy as np
import pytest

from glassformer.errors import InputError
from glassformer.runtime.device import available_devices
from glassformer.server.models import Models
from glassformer.server.settings import Settings
from server.conftest import Server

TEXT = "The cat sat by the king, because it"


def array(server: Server, path: str) -> Any:
    with urllib.request.urlopen(server.address + path, timeout=60) as response:
        return np.load(io.BytesIO(response.read()))


def png(size: int = 28) -> str:
    from PIL import Image

    file = io.BytesIO()
    image = Image.new("L", (size, size))
    for y in range(size // 5, size - size // 5):
        image.putpixel((size // 2, y), 255)
        image.putpixel((size // 2 + 1, y), 255)
    image.save(file, "png")
    return base64.b64encode(file.getvalue()).decode()


@pytest.fixture(scope="module")
def writer(server: Server) -> Any:
    return server.post("api/models/writer/look", texts=[TEXT])


def test_shipped_models_are_listed(server: Server) -> None:
    names = [each["name"] for each in server.ask("GET", "api/models")[1]["models"]]
    assert names == ["digits", "finder", "listener", "objects", "translator", "writer"]
    assert server.ask("GET", "api/models/..%2Fwriter")[0] in (404, 422)
    assert server.ask("GET", "api/models/nothing")[0] == 422


def test_weights_are_those_of_the_model(server: Server, writer: Any) -> None:
    import torch

    from glassformer import lens, load
    from glassformer.report.inputs import prepare_inputs

    model = load("writer").eval()
    seen = prepare_inputs(model, [TEXT])
    with torch.no_grad(), lens.trace(model, "*.A", "*.V", "*.H") as run:
        model(*seen.tensors)
    layer = writer["layers"][2]
    A = run[f"{layer['path']}.A"][0, 1].numpy()
    row = server.ask("GET", f"api/looks/{writer['id']}/row?path={layer['path']}&head=1&query=6")[1]
    np.testing.assert_allclose(row["all"], A[6], atol=1e-5)
    assert row["keys"][0]["weight"] == max(key["weight"] for key in row["keys"])
    for key in row["keys"]:
        assert key["score"] == pytest.approx(row["beta"] * key["product"] + key["bias"])
        value = run[f"{layer['path']}.V"][0, 1, key["index"], row["value_coordinates"]]
        np.testing.assert_allclose(key["v"], value, atol=1e-5)
    h = run[f"{layer['path']}.H"][0, 1, 6]
    np.testing.assert_allclose(row["h"], h[row["value_coordinates"]], atol=1e-4)
    assert max(map(abs, row["h"])) == pytest.approx(float(h.abs().max()), abs=1e-4)
    image = array(server, f"api/looks/{writer['id']}/map.npy?path={layer['path']}&head=1")
    np.testing.assert_allclose(image / 255, np.sqrt(A / A.max()), atol=0.003)


def test_every_head_has_a_thumbnail(server: Server, writer: Any) -> None:
    small = array(server, f"api/looks/{writer['id']}/thumbnails.npy")
    assert small.dtype == np.uint8
    assert small.shape[0] == len(writer["heads"]) == 20


def test_a_head_switched_off_changes_the_answer(server: Server, writer: Any) -> None:
    heads = [{"path": writer["layers"][0]["path"], "head": h} for h in range(5)]
    after = server.post(f"api/looks/{writer['id']}/change", heads=heads, change="off")
    assert any(abs(row["after"] - row["before"]) > 0.01 for row in after["rows"])
    before = server.post(f"api/looks/{writer['id']}/change", heads=heads[:1], change="uniform")["before"]
    assert before["options"] == writer["answer"]["options"]


def test_a_row_on_paper_solves_to_the_heads_weights(server: Server, writer: Any) -> None:
    path = writer["layers"][1]["path"]
    made = server.post(f"api/looks/{writer['id']}/paper", path=path, head=0, query=9)
    steps = {step["symbol"]: step for step in server.post("api/paper", exercise=made["exercise"])["steps"]}
    np.testing.assert_allclose(steps["A"]["value"][0], made["weights"], atol=2e-4)
    attention = server.post("api/paper", exercise=made["exercise"])["attention"]
    assert attention["keys"][-1] == "the others"
    assert attention["queries"] == [writer["layers"][1]["query_labels"][9].strip()]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"texts": []}, "empty"),
        ({"texts": ["a"], "file": "AAAA", "suffix": ".png"}, "image"),
        ({"texts": [], "file": "no base64", "suffix": ".png"}, "base64"),
        ({"texts": ["word " * 1500]}, "tokens"),
        ({"texts": [], "file": "file", "suffix": ""}, "suffix"),
        ({"texts": ["a" * 8001]}, "text 1 has more than 8,000 characters: give a shorter one"),
        ({"texts": ["a", "b", "c"]}, "texts has more than 2 entries: give fewer"),
        ({"words": ["a"]}, "there is no field words: leave it out"),
        ({"texts": [1]}, "text 1 cannot be used: it should be a valid string"),
    ],
)
def test_wrong_inputs_are_explained(server: Server, body: Any, words: str) -> None:
    status, problem = server.ask("POST", "api/models/writer/look", body)
    assert status == 422
    assert words in f"{problem['fact']}: {problem['remedy']}"


def test_a_text_beyond_the_context_is_said_to_be_so(server: Server, writer: Any) -> None:
    assert writer["notes"] == []
    look = server.post("api/models/writer/look", texts=["My cat does not like rain. " * 40])
    tokens = look["layers"][0]["queries"]
    assert look["notes"] == [f"The text has {tokens} tokens; the model was trained on at most 256."]


def test_a_forgotten_run_is_explained(server: Server) -> None:
    assert server.ask("GET", "api/looks/0123456789abcdef/row?path=x&head=0&query=0")[0] == 422


@pytest.mark.slow
@pytest.mark.parametrize("name", ["digits", "objects"])
def test_images_are_classified(server: Server, name: str) -> None:
    look = server.post(f"api/models/{name}/look", file=png(), suffix=".png")
    assert look["grid"]
    assert sum(each["p"] for each in look["answer"]["options"]) <= 1.0001
    if name == "digits":
        assert look["answer"]["options"][0]["name"] == "1"


@pytest.mark.slow
def test_pairs_and_recordings(server: Server) -> None:
    pair = server.post("api/models/translator/look", texts=["The cat is sleeping."])
    assert "chat" in pair["answer"]["text"]
    assert any(".cross" in layer["path"] for layer in pair["layers"])
    clip = server.ask("GET", "api/clips")[1][0]
    with urllib.request.urlopen(f"{server.address}api/clips/{clip['name']}", timeout=60) as response:
        sound = base64.b64encode(response.read()).decode()
    heard = server.post("api/models/listener/look", file=sound, suffix=".flac")
    assert heard["answer"]["text"]
    status, problem = server.ask("POST", "api/models/listener/look", {"file": png(), "suffix": ".png"})
    assert status == 422
    assert "audio" in problem["fact"]


@pytest.mark.slow
def test_a_second_sentence_is_compared_with_the_first(server: Server) -> None:
    texts = ["The cat sat on the chair.", "The cat was sitting on a chair."]
    look = server.post("api/models/finder/look", texts=texts)
    assert look["answer"]["options"][0]["name"] == texts[1]
    import torch

    import glassformer as gf

    vectors = torch.as_tensor(gf.embed(gf.load("finder"), texts))
    expected = torch.nn.functional.cosine_similarity(vectors[:1], vectors[1:])
    assert look["answer"]["options"][0]["p"] == pytest.approx(float(expected), abs=1e-5)


def test_models_are_loaded_on_the_chosen_device() -> None:
    models = Models(Settings(device="cpu"))
    assert {weight.device.type for weight in models.model("digits").parameters()} == {"cpu"}
    missing = next((name for name in ("cuda", "mps") if name not in available_devices()), None)
    assert missing is not None
    with pytest.raises(InputError, match=f"device '{missing}' is not available"):
        Models(Settings(device=missing))
