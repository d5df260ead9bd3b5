from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest

from glassformer.data.sources.pairs import PAIRS
from glassformer.data.sources.split import PARTS, part_of, plain

Tarred = Callable[[dict[str, bytes]], Path]


@pytest.mark.parametrize(("name", "language"), [("fr", "fra"), ("es", "spa")])
def test_every_line_once_and_sentences_whole(tarred: Tarred, tmp_path: Path, name: str, language: str) -> None:
    lines = [f"Sentence {i}{mark}\tmot {i} \u2028 {mark}\tby #{i}\n" for i in range(500) for mark in ("", "!", ".")]
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as packed:
        packed.writestr(f"{language}.txt", "".join(lines))
    files = [tarred({f"nmt-0.0.6/data/{language}-eng.zip": raw.getvalue()})]
    made = tmp_path / "made"
    PAIRS[f"tatoeba-en-{name}"].make(files, made)
    found = {part: (made / f"{part}.tsv").read_text(encoding="utf-8").split("\n")[:-1] for part in PARTS}
    assert sorted(chain(*found.values())) == sorted(line[:-1] for line in lines)
    for part, own in found.items():
        assert own, part
        assert len(own) % 3 == 0  # `Sentence 7`, `Sentence 7!` and `Sentence 7.` are one sentence
        assert {part_of(plain(line.split("\t")[0]), valid=0.02, test=0.02) for line in own} == {part}
    assert sorted(path.name for path in made.iterdir()) == sorted(f"{part}.tsv" for part in PARTS)
