"""From a wish to a folder that the verb takes, for every task and kind; and on from a model that is there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from PIL import Image

from glassformer.checkpoints import load, origin_of, read_preprocess
from glassformer.errors import ConfigError, InputError
from glassformer.tasks import classify, embed, generate, transcribe, translate
from glassformer.tasks.data import Recordings
from glassformer.tasks.learn.images import Augment
from glassformer.tasks.learn.start import start
from glassformer.tasks.learn.unlike import Changed
from glassformer.tasks.learn.wish import Start, Wish
from glassformer.tasks.sources import open_data
from glassformer.tasks.training import Optimise, Plan, train


@pytest.fixture(autouse=True)
def cached(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Embedded data is unpacked once for all tests of this file."""
    place = tmp_path_factory.getbasetemp() / "data"
    monkeypatch.setenv("GLASSFORMER_DATA", str(place))


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    rows = [f"the {a} sat {b}\tle {a} {b} est assis" for a in ("cat", "dog", "cow") for b in "abcdefgh"]
    (tmp_path / "pairs.tsv").write_text("\n".join(rows))
    return tmp_path / "pairs.tsv"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "text.txt").write_text("".join(f"the cat {i} sat on the mat with the dog {i}\n" for i in range(400)))
    return tmp_path / "text.txt"


def learned(begun: Start, folder: Path, steps: int = 2) -> Path:
    train(begun.model, begun.lesson, Plan(steps=steps, optimise=Optimise(rate=begun.rate)))
    return begun.save(begun.model.eval(), folder)


@pytest.mark.parametrize("kind", ["hybrid", "vit", "cnn", "mlp", "rnn"])
def test_images(kind: str, tmp_path: Path) -> None:
    room = {"hybrid": {"depth": 1, "heads": 2}, "vit": {"depth": 1, "heads": 2}, "mlp": {"depth": 1}}.get(kind, {})
    begun = start("classify", Wish(data="uci-digits", kind=kind, width=16, batch=8, **room))
    picture = sorted((open_data("uci-digits") / "test" / "3").iterdir())[0]
    assert len(classify(load(learned(begun, tmp_path / "m")), picture)) == 5
    assert begun.what.endswith(" held out")


def test_what_is_left_out_and_how_images_are_changed(tmp_path: Path, pairs: Path) -> None:
    """Lines that opening left out are told by the lesson, also where a part of them is held out."""
    with pairs.open("a") as file:
        file.write("\n\nonly one column\n")
    lesson = start("translate", Wish(data=str(pairs), width=16, depth=1, vocabulary=300)).lesson
    assert lesson.faults.told() == [
        "empty line: 1 (pairs.tsv line 25)",
        "wrong number of columns (not 2): 1 (pairs.tsv line 26)",
    ]
    assert (lesson.faults.tried, lesson.faults.failed) == (0, 0)  # a few bad lines are not half of few batches
    made = lambda **more: start("classify", Wish(data="uci-digits", kind="mlp", **more)).lesson.augment
    assert made() == Augment(crop=1)
    assert made(changes=(("mixup", 0.2), ("crop", 0), ("rand", 0.3))) == Augment(mixup=0.2, rand=0.3)
    assert made(changes=(("rand_count", 2), ("rand", 0.3))) == Augment(crop=1, rand=0.3, rand_count=2)
    assert made(augment=False) == Augment()


def test_what_would_be_ignored_is_refused(pairs: Path, refused: Callable[..., None]) -> None:
    classified = lambda **more: lambda: start("classify", Wish(data="uci-digits", **more))
    refused(ConfigError, "heads 2 means nothing to a cnn", classified(kind="cnn", heads=2))
    refused(ConfigError, "depth 2 means nothing to a rnn", classified(kind="rnn", depth=2))
    refused(ConfigError, "an mlp of 9 layers: choose at most 3", classified(kind="mlp", depth=9))
    refused(ConfigError, "there is no change 'zoom': choose crop,", classified(changes=(("zoom", 1.0),)))
    refused(ConfigError, "crop is 1.5: choose a whole number", classified(changes=(("crop", 1.5),)))
    refused(ConfigError, "rand is -1: choose 0", classified(changes=(("rand", -1.0),)))
    refused(ConfigError, "a change of crop where nothing", classified(augment=False, changes=(("crop", 1.0),)))
    said = "rand_count 3 means nothing where rand is 0: give --change rand=… too, or leave it out"
    refused(ConfigError, said, classified(changes=(("rand_count", 3.0),)))
    refused(ConfigError, said, classified(changes=(("rand", 0.0), ("rand_count", 3.0))))
    refused(ConfigError, "rand 0.3 means nothing where", classified(changes=(("rand", 0.3), ("rand_count", 0.0))))
    refused(ConfigError, "mixup is changed twice: give it once", classified(changes=(("mixup", 0.1), ("mixup", 0.2))))
    refused(ConfigError, "flip is 2: choose 0 (no) or 1", classified(changes=(("flip", 2.0),)))
    quiet = Wish(data="x", changes=(("bands", 0.0), ("width", 4.0)))
    refused(ConfigError, "width 4 means nothing where bands is 0", lambda: quiet.changed(Changed))
    wish = lambda: start("translate", Wish(data=str(pairs), changes=(("crop", 1.0),)))
    refused(ConfigError, "changes (('crop', 1.0),) means nothing to sentence pairs", wish)


HEADLESS = [
    ("classify", "cnn", "a cnn for pictures"),
    ("classify", "rnn", "a rnn for pictures"),
    ("classify", "mlp", "an mlp"),
    ("translate", "rnn", "a recurrent net"),
    ("generate", "rnn", "a recurrent net"),
    ("generate", "cnn", "a convolutional net"),
    ("transcribe", "rnn", "a recurrent net"),
    ("transcribe", "cnn", "a convolutional net"),
]


@pytest.mark.parametrize(("task", "kind", "what"), HEADLESS)
def test_heads_of_what_has_none(
    task: str, kind: str, what: str, pairs: Path, text: Path, refused: Callable[..., None]
) -> None:
    data = {"translate": str(pairs), "generate": str(text), "transcribe": "librivox"}.get(task, "uci-digits")
    said = f"heads 7 means nothing to {what}: leave it out"
    refused(ConfigError, said, lambda: start(task, Wish(data=data, kind=kind, heads=7)))


OTHERS = {
    "classify": {"vocabulary": 300},
    "translate": {"image": 32, "augment": False},
    "transcribe": {"image": 32, "vocabulary": 300, "smoothing": 0.1},
    "generate": {"image": 32, "augment": False, "smoothing": 0.1},
    "embed": {"image": 32, "augment": False, "smoothing": 0.1},
}


@pytest.mark.parametrize(("task", "name"), [(task, name) for task, given in OTHERS.items() for name in given])
def test_options_of_other_tasks(task: str, name: str, refused: Callable[..., None]) -> None:
    value = OTHERS[task][name]
    refused(ConfigError, f"{name} {value} means nothing to", lambda: start(task, Wish(data="x", **{name: value})))


def photographs(folder: Path, size: tuple[int, int]) -> str:
    """Two classes of one colour each; `size` is (columns, rows)."""
    for name, colour in (("blue", (0, 0, 200)), ("red", (200, 0, 0))):
        (folder / name).mkdir(parents=True)
        for i in range(3):
            Image.new("RGB", size, colour).save(folder / name / f"{i}.png")
    return str(folder)


def test_photographs_are_scaled_unless_wished_otherwise(tmp_path: Path, refused: Callable[..., None]) -> None:
    large, small = photographs(tmp_path / "large", (640, 480)), photographs(tmp_path / "small", (64, 48))
    made = lambda data, **more: start("classify", Wish(data=data, width=8, **more))
    begun = made(large, depth=1, heads=2)
    assert begun.model.config.image == (72, 96)
    assert begun.note == "images of 480 × 640 are scaled to 72 × 96; --image SIDE makes them otherwise"
    folder = begun.save(begun.model, tmp_path / "m")
    assert made(large, kind="vit", depth=1, heads=2).model.config.grid == (6, 8)
    begun = made(large, kind="mlp")
    assert begun.lesson.train.shape == (3, 72, 96)
    plain = begun.save(begun.model, tmp_path / "mlp")
    begun = made(small, depth=1, heads=2)
    assert (begun.model.config.image, begun.note) == ((48, 64), "")
    begun = made(large, depth=1, heads=2, image=120)
    assert (begun.model.config.image, begun.note) == ((120, 120), "")
    for base in (folder, plain):  # what comes is of another shape, and the model's size stays
        again = start("classify", Wish(data=small, base=str(base)))
        assert (again.lesson.train.shape, again.note) == ((3, 72, 96), "")
    said = "images of 260 × 260 are 4,225 tokens, in patches of 4 × 4; at most 4,096 are taken: choose a smaller"
    refused(ConfigError, said, lambda: made(large, image=260))
    refused(ConfigError, said, lambda: start("classify", Wish(data=large, base=str(folder), image=260)))
    refused(ConfigError, "images of 67 × 67 are 4,489 tokens, in", lambda: made(large, kind="vit", image=67))
    assert made(large, kind="rnn", image=260).lesson.train.shape == (3, 260, 260)


def test_images_on_from_a_model_at_another_size(tmp_path: Path) -> None:
    wish = Wish(data="uci-digits", kind="vit", width=16, depth=1, heads=2, batch=8)
    folder = learned(start("classify", wish), tmp_path / "small")
    other = start("classify", Wish(data="uci-digits", base=str(folder), image=16, rank=2, batch=8))
    assert read_preprocess(origin_of(load(folder))).mean == other.lesson.mean  # it goes on seeing as it learned to
    rests = {name for name, weight in other.model.named_parameters() if not weight.requires_grad}
    before = {name: weight.clone() for name, weight in other.model.named_parameters()}
    model = load(learned(other, tmp_path / "large"))
    assert model.config.image == (16, 16)
    for name in rests - {name for name in rests if ".WQ." in name or ".WV." in name}:
        assert torch.equal(dict(model.named_parameters())[name], before[name]), name


@pytest.mark.parametrize("kind", ["transformer", "rnn"])
def test_pairs(kind: str, tmp_path: Path, pairs: Path) -> None:
    wish = Wish(data=str(pairs), kind=kind, width=16, depth=1, vocabulary=300, batch=64)
    folder = learned(start("translate", wish), tmp_path / "m")
    assert isinstance(translate(load(folder), "the cat sat a", max_new=3), str)
    learned(start("translate", Wish(data=str(pairs), base=str(folder), batch=64)), tmp_path / "again")


@pytest.mark.parametrize("kind", ["transformer", "rnn", "cnn"])
def test_text(kind: str, tmp_path: Path, text: Path) -> None:
    begun = start("generate", Wish(data=str(text), kind=kind, width=16, depth=1, vocabulary=300, batch=2))
    folder = learned(begun, tmp_path / "m")
    if kind == "transformer":
        assert generate(load(folder), "the cat", max_new=4)
        again = start("generate", Wish(data=str(text), base=str(folder), rank=1, batch=2))
        learned(again, tmp_path / "again")


def test_sentences(tmp_path: Path, text: Path) -> None:
    wish = Wish(data=str(text), width=16, depth=1, vocabulary=300, batch=64)
    folder = learned(start("embed", wish), tmp_path / "m")
    assert embed(load(folder), "the cat").shape == (16,)
    learned(start("embed", Wish(data=str(text), base=str(folder), batch=64)), tmp_path / "again")


@pytest.mark.parametrize(
    "kind", ["transformer", pytest.param("rnn", marks=pytest.mark.slow), pytest.param("cnn", marks=pytest.mark.slow)]
)
def test_recordings(kind: str, tmp_path: Path) -> None:
    wish = Wish(data="librivox", kind=kind, width=16, depth=1, batch=4)
    begun = start("transcribe", wish)
    folder = learned(begun, tmp_path / "m", steps=1)
    wave = Recordings.open(open_data("librivox") / "test.tsv").wave(0)
    assert isinstance(transcribe(load(folder), wave[:16000]).text, str)


def test_what_is_refused(refused: Callable[..., None], tmp_path: Path, pairs: Path) -> None:
    refused(InputError, "there is no task 'sing' to train for", lambda: start("sing", Wish(data="x")))
    folder = learned(start("classify", Wish(data="uci-digits", kind="mlp", width=8, batch=8)), tmp_path / "m", 1)
    refused(
        InputError,
        f"{folder} holds a MLP: go on from a model that translates",
        lambda: start("translate", Wish(data=str(pairs), base=str(folder))),
    )
