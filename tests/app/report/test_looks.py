from __future__ import annotations

import dataclasses

import torch

from glassformer import lens
from glassformer.app.report.inputs import see
from glassformer.app.report.looks import overlays
from glassformer.models import ViT, vit


def test_overlays(shown) -> None:
    model, seen, run, out = shown("vit")
    with torch.no_grad():  # as the report runs: gradients are switched on where they are needed
        made = overlays(model, run, seen, out)
    assert made.count("<img") == 2
    assert "each head of encoder.2.attention" in made


def test_no_cls_no_overlay(shown, files) -> None:
    model = ViT(dataclasses.replace(vit.tiny(), prefix=0, pool="mean")).eval()
    seen = see(model, [str(files / "picture.png")])
    with torch.no_grad(), lens.trace(model) as run:
        out = model(*seen.inputs)
    assert overlays(model, run, seen, out) == ""
