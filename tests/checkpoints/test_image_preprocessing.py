"""Images are preprocessed as Hugging Face's processors and timm do it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from glassformer import load
from glassformer.checkpoints import origin_of
from glassformer.checkpoints.origin import Origin
from glassformer.checkpoints.preprocess import (
    Preprocess,
    image_of,
    of_hugging_face,
    of_timm,
    open_image,
    read_preprocess,
)
from glassformer.errors import CheckpointError, ConfigError, InputError

PLAIN = {"resize": None, "resample": 2, "crop": None, "scale": None, "mean": None, "std": None}


def picture(height: int, width: int, mode: str = "RGB", seed: int = 0) -> Image.Image:
    channels = len(mode) if mode != "L" else 1
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)
    return Image.fromarray(pixels[..., 0] if mode == "L" else pixels, mode=None)


def require_same(processor: Any, folder: Path, images: list[Image.Image], family: str) -> None:
    """As the processor itself, from the file that it saves."""
    processor.save_pretrained(folder)
    steps = read_preprocess(Origin(folder=folder, family=family))
    for image in images:
        theirs = processor(image, return_tensors="pt")["pixel_values"][0]
        torch.testing.assert_close(steps(image), theirs, rtol=1e-5, atol=1e-5)


SIZES = [(40, 40), (37, 61), (61, 37), (5, 90), (16, 16), (7, 9)]


@pytest.mark.parametrize(
    ("kind", "family", "changes"),
    [
        ("ViT", "vit", {"size": {"height": 16, "width": 16}}),
        ("ViT", "vit", {"size": {"height": 12, "width": 20}, "resample": 3, "image_mean": [0.1, 0.2, 0.3]}),
        ("ViT", "vit", {"do_resize": False, "do_normalize": False}),
        ("ViT", "vit", {"size": 16, "do_rescale": False}),
        ("DeiT", "deit", {"size": {"height": 20, "width": 20}, "crop_size": {"height": 15, "width": 16}}),
        ("DeiT", "deit", {"size": 20, "crop_size": 32}),
        ("CLIP", "clip", {"size": {"shortest_edge": 16}, "crop_size": {"height": 16, "width": 16}}),
        ("CLIP", "clip", {"size": 17, "crop_size": 12, "rescale_factor": 1 / 127}),
        ("CLIP", "clip_vision", {"size": 10, "do_center_crop": False}),
        ("Bit", "dinov2", {"size": {"shortest_edge": 23}, "crop_size": {"height": 14, "width": 14}}),
        ("Bit", "dinov2", {"do_resize": False, "crop_size": 30, "resample": 1}),
    ],
)
def test_theirs(hf: Any, tmp_path: Path, kind: str, family: str, changes: dict[str, Any]) -> None:
    processor = getattr(hf, f"{kind}ImageProcessorPil")(**changes)
    require_same(processor, tmp_path, [picture(*size, seed=i) for i, size in enumerate(SIZES)], family)


def test_defaults_of_each_class(hf: Any, tmp_path: Path) -> None:
    """A file that says nothing else means what its class means."""
    for name, family in (("ViT", "vit"), ("DeiT", "deit"), ("CLIP", "clip"), ("Bit", "dinov2_with_registers")):
        processor, image = getattr(hf, f"{name}ImageProcessorPil")(), picture(250, 300)
        theirs = processor(image, return_tensors="pt")["pixel_values"][0]
        for raw in ({}, {"feature_extractor_type": f"{name}FeatureExtractor"}):
            folder = tmp_path / f"{name}{len(raw)}"
            folder.mkdir()
            (folder / "preprocessor_config.json").write_text(json.dumps(raw))
            steps = read_preprocess(Origin(folder=folder, family=family if not raw else ""))
            torch.testing.assert_close(steps(image), theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", ["L", "RGBA", "P"])
def test_other_kinds_of_pictures(hf: Any, tmp_path: Path, mode: str) -> None:
    image = picture(20, 30, "RGB").convert("P") if mode == "P" else picture(20, 30, mode)
    require_same(hf.CLIPImageProcessorPil(size=16, crop_size=16), tmp_path, [image], "clip")


def test_inside_of_a_processor_and_from_a_loaded_model(hf: Any, publish: Any) -> None:
    config = hf.ViTConfig(
        hidden_size=12, num_hidden_layers=1, num_attention_heads=3, intermediate_size=20, image_size=8, patch_size=4
    )
    folder = publish(hf.ViTForImageClassification(config))
    origin = origin_of(load(folder))
    assert origin is not None
    with pytest.raises(CheckpointError, match=r"has no preprocessor_config\.json"):
        read_preprocess(origin)
    inner = {"image_processor_type": "ViTImageProcessor", "size": {"height": 8, "width": 8}}
    (folder / "processor_config.json").write_text(json.dumps({"image_processor": inner, "processor_class": "X"}))
    steps = read_preprocess(origin)
    batch = steps.batch([picture(9, 20), picture(30, 30)])
    assert load(folder)(batch).shape == (2, 2)
    with pytest.raises(InputError, match="images become 5×6, 7×8"):
        Preprocess(**PLAIN).batch([picture(5, 6), picture(7, 8)])
    with pytest.raises(InputError, match="images become nothing"):
        steps.batch([])


TIMM = {"pretrained_cfg": {"input_size": [3, 16, 16], "crop_pct": 0.9, "mean": [0.5] * 3, "std": [0.25] * 3}}


def test_timm() -> None:
    """By its definition: the shorter side ⌊16 / 0.9⌋ = 17, bicubic, then a middle that begins at an even pixel."""
    image = picture(40, 63)
    steps = of_timm(TIMM)
    resized = np.array(image.resize((26, 17), resample=3), dtype=np.float64)  # int(17 · 63 / 40) = 26
    expected = (resized[0:16, 5:21] / 255 - 0.5) / 0.25  # (17 − 16) / 2 → 0, (26 − 16) / 2 = 5
    torch.testing.assert_close(steps(image).double(), torch.from_numpy(expected).movedim(-1, 0), rtol=1e-6, atol=1e-6)
    grown = Preprocess(**PLAIN | {"crop": (4, 4), "odd": "even"})(picture(1, 7))  # 3 rows to add: 1 above, 2 below
    assert grown.shape == (3, 4, 4)
    assert grown.sum((0, 2)).gt(0).tolist() == [False, True, False, False]
    assert torch.equal(grown[:, 1], torch.from_numpy(np.array(picture(1, 7)))[0, 2:6].T.float())  # 1.5 → 2
    assert read_preprocess(Origin(folder=Path(), family="timm", raw=TIMM)) == steps


@given(st.integers(1, 50), st.integers(1, 50), st.sampled_from(["floor", "even"]))
def test_a_crop_is_in_the_middle(n: int, k: int, odd: Any) -> None:
    start = Preprocess(**PLAIN | {"odd": odd})._start(n, k)
    assert abs(start - (n - k - start)) <= 2 if n >= k else abs(-start - (k - n + start)) <= 1
    assert (0 <= start <= n - k) if n >= k else (n - k <= start <= 0)


def test_one_channel() -> None:
    steps = of_hugging_face({"size": 4, "image_mean": [0.5], "image_std": [0.5]}, "ViT")
    assert steps(picture(9, 9)).shape == (1, 4, 4)


@pytest.mark.parametrize(
    ("raw", "named"),
    [
        ({"image_processor_type": "DetrImageProcessor"}, "'Detr'"),
        ({"size": {"longest_edge": 9}}, "size is"),
        ({"size": 0}, "size is '0'"),
        ({"size": 10**9}, "size is"),
        ({"size": True}, "size is 'True'"),
        ({"size": [1, 2, 3]}, "size is"),
        ({"resample": 9}, "resample is '9'"),
        ({"image_std": [0, 1, 1]}, "image_std"),
        ({"image_mean": [1, 2]}, "image_mean"),
        ({"image_mean": ["a", 1, 1]}, "image_mean"),
        ({"image_mean": [0.5]}, "image_mean"),
        ({"rescale_factor": float("nan")}, "rescale_factor"),
        ({"do_center_crop": True, "crop_size": {"height": 3}}, "crop_size"),
        ({"do_pad": True}, "do_pad"),
    ],
)
def test_what_is_not_supported_is_named(raw: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        of_hugging_face(raw, "ViT")


@pytest.mark.parametrize(
    "changes",
    [{"crop_pct": 0}, {"crop_pct": "x"}, {"input_size": [3, 16, 8]}, {"crop_mode": "squash"}, {"interpolation": "x"}],
)
def test_what_timm_has_and_we_have_not(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="|".join([*changes, "resample", "16×8"])):
        of_timm({"pretrained_cfg": TIMM["pretrained_cfg"] | changes})
    with pytest.raises(CheckpointError, match="pretrained_cfg"):
        of_timm({})


def test_files(tmp_path: Path) -> None:
    picture(6, 9).save(tmp_path / "a.png")
    turned = picture(6, 9)
    exif = turned.getexif()
    exif[0x0112] = 6  # the camera was held on its side
    turned.save(tmp_path / "b.jpg", exif=exif)
    assert open_image(tmp_path / "a.png").size == (9, 6)
    assert open_image(tmp_path / "b.jpg").size == (6, 9)
    (tmp_path / "c.png").write_bytes((tmp_path / "a.png").read_bytes()[:60])
    (tmp_path / "d.png").write_text("not a picture")
    Image.new("I;16", (3, 3)).save(tmp_path / "e.png")  # Pillow would turn all of it white
    for name in ("c.png", "d.png", "absent.png"):
        with pytest.raises(InputError, match=name):
            open_image(tmp_path / name.split()[0])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_an_array_that_is_not_finite_is_refused(value: float) -> None:
    with pytest.raises(InputError, match="an image has values that are not finite: give floats from 0 to 1"):
        image_of(np.full((4, 4, 3), value))


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    picture(20, 20).save(tmp_path / "large.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 300)
    with pytest.raises(InputError, match=r"large\.png cannot be read"):
        open_image(tmp_path / "large.png")
    with pytest.raises(InputError, match="would be"):
        Preprocess(**PLAIN | {"resize": 2000})(picture(1, 40))
