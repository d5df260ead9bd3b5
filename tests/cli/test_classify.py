from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from glassformer.checkpoints import load, save
from glassformer.cli.classify import _shown
from glassformer.cli.main import build
from glassformer.errors import InputError
from glassformer.models import ViT, vit
from glassformer.pipelines import LabelScore, classify


def run(*arguments: str, text: bytes = b"") -> tuple[int, str, str]:
    result = CliRunner().invoke(build(), ["classify", *arguments], input=text, catch_exceptions=False)
    return result.exit_code, result.stdout, result.stderr


def test_lines(reader: Path) -> None:
    model = load(reader)
    code, out, error = run("-m", str(reader), "-k", "1", text=b"the cat\nthe \xff\nthe dog\n")
    best = [classify(model, text, top_k=1)[0] for text in ("the cat", "the dog")]
    shown = [
        f"{text}\t{one.label} {one.score:.4f}" for text, one in zip(("the cat", "the dog"), best, strict=True)
    ]
    assert out.splitlines() == shown
    assert code == 2
    assert error == "glassformer: standard input:2: byte 4 is not UTF-8: save the text as UTF-8\n"


def test_a_bad_image_is_told(tmp_path: Path) -> None:
    folder = save(ViT(vit.tiny()), tmp_path / "vit")
    (tmp_path / "vit" / "preprocessor_config.json").write_text('{"image_processor_type": "ViTImageProcessor"}')
    code, out, error = run("-m", str(folder), str(tmp_path / "a.png"), str(tmp_path / "b.png"))
    assert (code, out) == (2, "")
    assert error.count("there is no") == 2
    with pytest.raises(InputError, match="no images were given"):
        run("-m", str(folder))


def test_the_patches_that_mattered_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save(ViT(vit.tiny()), tmp_path / "vit")
    (folder / "preprocessor_config.json").write_text('{"image_processor_type": "ViTImageProcessor", "size": 8}')
    for name in ("a", "b"):
        Image.new("RGB", (9, 9), (200, 10, 10)).save(tmp_path / f"{name}.png")
    images = [str(tmp_path / "a.png"), str(tmp_path / "b.png")]
    assert run("-m", str(folder), *images, "--figure", str(tmp_path / "seen"))[0] == 0
    assert sorted(path.name for path in (tmp_path / "seen").iterdir()) == ["a.png", "b.png"]
    with pytest.raises(InputError, match=r"--figure seen\.png is one file for 2 images: give a folder"):
        run("-m", str(folder), *images, "--figure", str(tmp_path / "seen.png"))


def test_pictures_of_the_same_name_are_all_kept(tmp_path: Path) -> None:
    folder = save(ViT(vit.tiny()), tmp_path / "vit")
    (folder / "preprocessor_config.json").write_text('{"image_processor_type": "ViTImageProcessor", "size": 8}')
    images = [tmp_path / name for name in ("x/1.png", "y/1.png", "y/1-2.png")]
    for path in images:
        path.parent.mkdir(exist_ok=True)
        Image.new("RGB", (9, 9), (200, 10, 10)).save(path)
    seen = tmp_path / "seen"
    code, _, error = run("-m", str(folder), *map(str, images), "--figure", str(seen))
    assert code == 0
    assert sorted(path.name for path in seen.iterdir()) == ["1-2-2.png", "1-2.png", "1.png"]
    told = ((images[1], "1-2.png"), (images[2], "1-2-2.png"))
    assert error == "".join(f"glassformer: {image} was drawn to {seen / name}\n" for image, name in told)
    (tmp_path / "afile").write_text("")
    for place in ("afile", "afile/x", "afile/x.png"):
        with pytest.raises(InputError, match=r"afile(/x)? cannot be created \(.*\): choose another place for --figure"):
            run("-m", str(folder), str(images[0]), "--figure", str(tmp_path / place))


def test_bars_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    shown = _shown("a.png", [LabelScore("cat", 0.75), LabelScore("horse", 0.25)])
    assert shown.splitlines() == ["a.png", f"  cat     75.0%  {'█' * 30}", f"  horse   25.0%  {'█' * 10}"]
