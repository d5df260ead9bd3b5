"""Draws docs/picture.png: the weights of one exercise, exact on paper, and the same head in a model.

.venv/bin/python docs/picture.py
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from glassformer.figures import attention_map, save
from glassformer.lens import trace
from glassformer.nn import MultiHeadAttention, heads
from glassformer.worked import library
from glassformer.worked.solve import solve

TOKENS = ["(1,2)", "(2,0)", "(0,1)", "(1,1)"]


def main() -> None:
    solution = solve(library.get("four-tokens"))
    paper = np.array([[float(x) for x in row] for row in solution["A"]])
    model = MultiHeadAttention(heads(2, 1, beta=1.0, biases=""))
    with torch.no_grad():
        model.WQ.weight.copy_(torch.eye(2))
        model.WK.weight.copy_(torch.diag(torch.tensor([1.0, 0.0])))
        model.WV.weight.copy_(torch.diag(torch.tensor([0.0, 1.0])))
    X = torch.tensor([[[1.0, 2.0], [2.0, 0.0], [0.0, 1.0], [1.0, 1.0]]])
    with torch.no_grad(), trace(model, "A") as run:
        model(X)
    traced = run["A"][0, 0].numpy().astype(np.float64)
    assert np.abs(paper - traced).max() < 1e-6
    pictures = [
        attention_map(paper, TOKENS, TOKENS, title="A, worked exactly on paper"),
        attention_map(traced, TOKENS, TOKENS, title="A, traced in a model that never held it"),
    ]
    left, right = (Image.open(io.BytesIO(save(picture))) for picture in pictures)
    both = Image.new("RGB", (left.width + right.width, left.height), "white")
    both.paste(left, (0, 0))
    both.paste(right, (left.width, 0))
    both.save(Path(__file__).parent / "picture.png", optimize=True)


if __name__ == "__main__":
    main()
