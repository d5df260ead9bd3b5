"""An architecture defined here, in one class, gets info, classify, look, trace, save and load for free."""

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
from glassformer.cli.main import build
from glassformer.errors import ConfigError
from glassformer.models.protocols import PatchModel, verbs
from glassformer.nn import BlockConfig, FeedForwardConfig, Linear, PatchEmbedding, Stack, heads


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
    shown = CliRunner().invoke(build(), ["info", str(folder)], catch_exceptions=False).stdout
    assert "Toy" in shown
    assert "16×16" in shown
    assert shown.splitlines()[-1].split() == ["verbs", "classify"]


def test_classify(folder: Path, picture: Path) -> None:
    model = gf.load(folder)
    assert verbs(model) == ("classify",)
    found = gf.classify(model, picture)
    assert sorted(one.label for one in found) == ["LABEL_0", "LABEL_1", "LABEL_2"]
    assert sum(one.score for one in found) == pytest.approx(1)
    shown = CliRunner().invoke(build(), ["classify", "-m", str(folder), str(picture)], catch_exceptions=False).stdout
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


def test_an_architecture_that_nobody_registered_is_refused(toy: Toy, folder: Path) -> None:
    card = json.loads((folder / "glassformer.json").read_text())
    (folder / "glassformer.json").write_text(json.dumps(card | {"kind": "Stranger"}))
    with pytest.raises(ConfigError, match="there is no architecture 'Stranger': import the module that registers it"):
        gf.load(folder)
    with pytest.raises(ConfigError, match="takes no config"):
        models.register(nn.Linear)
