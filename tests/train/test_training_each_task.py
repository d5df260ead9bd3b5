"""From data to a folder that the pipeline of the task takes, for every task and architecture; and fine-tuning it."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import soundfile
import torch
from PIL import Image

import glassformer as gf
from glassformer.checkpoints import load_folder, origin_of, read_preprocess, save
from glassformer.data import Recordings
from glassformer.data.sources import open_data
from glassformer.errors import ConfigError, InputError
from glassformer.models import Decoder, ViT, decoder, vit
from glassformer.pipelines import classify, embed, generate, transcribe, translate
from glassformer.train import Progress, TrainArgs, Trained
from glassformer.train.objectives import build
from glassformer.train.objectives.image_classification import ImageAugmentation
from glassformer.train.objectives.language_modeling import BLOCK


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


def made(task: str, data: str | Path, **args: Any) -> tuple[Any, Any]:
    return build(TrainArgs(task=task, data=str(data), **args))


def train(task: str, data: Any, steps: int = 2, **args: Any) -> Trained:
    return gf.train(task, data, steps=steps, progress=False, **args)


@pytest.mark.parametrize(
    "arch", ["hybrid", *(pytest.param(arch, marks=pytest.mark.slow) for arch in ("vit", "cnn", "mlp", "rnn"))]
)
def test_image_classification(arch: str, tmp_path: Path) -> None:
    size = {"hybrid": {"depth": 1, "heads": 2}, "vit": {"depth": 1, "heads": 2}, "mlp": {"depth": 1}}.get(arch, {})
    trained = train("classify", "uci-digits", arch=arch, width=16, batch_size=8, **size)
    assert set(trained.metrics) == {"accuracy", "loss"}
    image = sorted((open_data("uci-digits") / "test" / "3").iterdir())[0]
    assert len(classify(load_folder(trained.save(tmp_path / "m")), image)) == 5


def test_training_from_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[Progress] = []
    small = {"arch": "mlp", "width": 8, "depth": 1, "batch_size": 16}
    for wrong in (print, ["print"], 3):
        with pytest.raises(ConfigError, match=r"^callbacks is .*: give a list of functions that take a Progress$"):
            gf.train("classify", "uci-digits", callbacks=wrong)
    trained = gf.train("classify", "uci-digits", epochs=0.1, progress=seen.append, callbacks=[seen.append], **small)
    assert trained.stopped == "finished"
    assert [one.step for one in seen[::2]] == list(range(1, trained.args.total_steps + 1))
    assert trained.metrics in [line.get("val") for line in trained.history]
    said = capsys.readouterr().err
    assert "images of 8 × 8 in 10 classes" in said
    chosen = "batch size 16 images, 10 steps (0.11 epochs), lr 0.001 (cosine, 0 warm-up steps), weight decay 0.05"
    assert f"glassformer: {chosen}\n" in said
    assert "accuracy" in str(trained)
    folder = trained.save(tmp_path / "m")
    assert TrainArgs.from_dict(TrainArgs.read(tmp_path / "m" / "train.yaml")) == trained.args
    again = gf.train("classify", "uci-digits", progress=False, epochs=0.1, **small)
    for one, two in zip(load_folder(folder).parameters(), again.model.parameters(), strict=True):
        assert torch.equal(one, two), "the same seed gives the same model"
    capsys.readouterr()


def test_the_trained_model_works_as_it_is(tmp_path: Path) -> None:
    """With its own classes, not those of the model it was fine-tuned from, and before it is saved."""
    small = {"steps": 1, "progress": False}
    letters = [(torch.rand(1, 28, 28), "abcdefghij"[i % 10]) for i in range(40)]
    image = Image.new("L", (28, 28))
    tuned = gf.train("classify", letters, from_="digits", **small)
    assert {one.label for one in gf.classify(tuned.model, image)} <= {*"abcdefghij"}
    texts = [("good film", "pos"), ("bad film", "neg")] * 10
    tiny = {"width": 8, "depth": 1, "heads": 2}
    for output in (None, tmp_path / "m"):
        trained = gf.train("classify", texts, output=output, **tiny, **small)
        found = gf.classify(trained.model, "good film")
        assert {one.label for one in found} == {"pos", "neg"}
    assert [*found] == [*gf.classify(gf.load(tmp_path / "m"), "good film")], "calibrated, once it is in a folder"
    trained = gf.train("translate", [("a b", "c d")] * 20, lora_rank=None, **tiny, **small)
    assert isinstance(gf.translate(trained.model, "a b"), str)
    again = gf.translate(gf.load(trained.save(tmp_path / "t")), "a b")
    assert again == gf.translate(trained.model, "a b")


def test_rows_that_were_left_out_are_reported_once(pairs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pairs.open("a") as file:
        file.write("\nonly one column\n")
    gf.train("translate", pairs, steps=1, width=8, depth=1, heads=2, vocab_size=300)
    said = capsys.readouterr().err
    assert said.count("left out: ") == 1
    assert "1 step (" in said
    assert "trained 1 step;" not in said, "the summary is printed by the command"


def test_mistakes_from_python(refused: Callable[..., None]) -> None:
    refused(ConfigError, "the task 'sing' is unknown: choose classify", lambda: gf.train("sing", "x"))
    refused(ConfigError, "the task 'clasify' is unknown: did you mean classify?", lambda: gf.train("clasify", "x"))
    lr = "--lr is 'fast': choose a positive number, or auto"
    refused(ConfigError, lr, lambda: gf.train("classify", "uci-digits", lr="fast"))
    refused(ConfigError, lr, lambda: TrainArgs(lr="fast"))
    said = "there is no option 'learning_rate': did you mean lr?"
    refused(ConfigError, said, lambda: gf.train("classify", "uci-digits", learning_rate=0.1))
    refused(ConfigError, "resume needs an output folder", lambda: gf.train("classify", "x", resume=True))


def test_lines_that_were_left_out(pairs: Path) -> None:
    with pairs.open("a") as file:
        file.write("\n\nonly one column\n")
    _, objective = made("translate", pairs, width=16, depth=1, vocab_size=300)
    assert objective.faults.summary() == [
        "empty line: 1 (pairs.tsv line 25)",
        "wrong number of columns (not 2): 1 (pairs.tsv line 26)",
    ]
    assert (objective.faults.tried, objective.faults.failed) == (0, 0), "a few bad lines are not half of few batches"


def test_augmentation_of_images() -> None:
    augment = lambda **more: made("classify", "uci-digits", arch="mlp", **more)[1].augment
    assert augment() == ImageAugmentation(crop=1)
    assert augment(augment=False) == ImageAugmentation()
    assert augment(augmentation={"mixup": 0.2}) == ImageAugmentation(crop=1, mixup=0.2)


HEADLESS = [
    ("classify", "cnn"),
    ("classify", "rnn"),
    ("classify", "mlp"),
    ("translate", "rnn"),
    ("generate", "rnn"),
    ("generate", "cnn"),
    ("transcribe", "rnn"),
    ("transcribe", "cnn"),
]


@pytest.mark.parametrize(("task", "arch"), HEADLESS)
def test_heads_of_architectures_without_attention(
    task: str, arch: str, pairs: Path, text: Path, refused: Callable[..., None]
) -> None:
    data = {"translate": str(pairs), "generate": str(text), "transcribe": "librivox"}.get(task, "uci-digits")
    said = f"--heads has no effect on --arch {arch}: leave out --heads"
    refused(ConfigError, said, lambda: made(task, data, arch=arch, heads=7))


OTHERS: dict[str, dict[str, Any]] = {
    "classify": {"vocab_size": 300},
    "translate": {"image_size": 32, "augment": False, "max_length": 9, "problem_type": "regression"},
    "transcribe": {"image_size": 32, "vocab_size": 300, "label_smoothing": 0.1, "max_length": 9},
    "generate": {"image_size": 32, "augment": False, "label_smoothing": 0.1, "max_length": 9},
    "embed": {"image_size": 32, "augment": False, "label_smoothing": 0.1, "problem_type": "regression"},
}


@pytest.mark.parametrize(("task", "name"), [(task, name) for task, given in OTHERS.items() for name in given])
def test_options_of_other_tasks(task: str, name: str, refused: Callable[..., None]) -> None:
    flag = "--" + name.replace("_", "-")
    refused(ConfigError, f"{flag} has no effect on", lambda: made(task, "uci-digits", **{name: OTHERS[task][name]}))


def test_options_that_do_not_suit_an_architecture(pairs: Path, refused: Callable[..., None]) -> None:
    classified = lambda **more: lambda: made("classify", "uci-digits", **more)
    refused(ConfigError, "--depth has no effect on --arch rnn", classified(arch="rnn", depth=2))
    refused(ConfigError, "--depth is 9: choose at most 3 for --arch mlp", classified(arch="mlp", depth=9))
    crop = lambda: made("translate", pairs, augmentation={"crop": 1.0})
    refused(ConfigError, "--augmentation has no effect on translation", crop)
    refused(ConfigError, "--arch rnn is not available for this task", lambda: made("embed", pairs, arch="rnn"))


def photographs(folder: Path, size: tuple[int, int]) -> str:
    """Two classes of one colour each; `size` is (columns, rows)."""
    for name, colour in (("blue", (0, 0, 200)), ("red", (200, 0, 0))):
        (folder / name).mkdir(parents=True)
        for i in range(3):
            Image.new("RGB", size, colour).save(folder / name / f"{i}.png")
    return str(folder)


def test_large_images_are_resized(tmp_path: Path, refused: Callable[..., None]) -> None:
    large, small = photographs(tmp_path / "large", (640, 480)), photographs(tmp_path / "small", (64, 48))
    new = lambda data, **more: made("classify", data, width=8, **more)
    model, objective = new(large, depth=1, heads=2)
    assert model.config.image == (72, 96)
    assert objective.notes == ("images of 480 × 640 are resized to 72 × 96 (see --image-size)",)
    folder = objective.save(model, tmp_path / "m")
    assert new(large, arch="vit", depth=1, heads=2)[0].config.grid == (6, 8)
    model, objective = new(large, arch="mlp")
    assert objective.train.shape == (3, 72, 96)
    plain = objective.save(model, tmp_path / "mlp")
    model, objective = new(small, depth=1, heads=2)
    assert (model.config.image, objective.notes) == ((48, 64), ())
    assert objective.augment == ImageAugmentation(crop=6, flip=True, erase=0.25)
    model, objective = new(large, depth=1, heads=2, image_size=120)
    assert (model.config.image, objective.notes) == ((120, 120), ())
    for base in (folder, plain):  # fine-tuning keeps the size of the model
        _, objective = made("classify", small, from_=str(base))
        assert (objective.train.shape, objective.notes) == ((3, 72, 96), ())
        assert objective.augment == ImageAugmentation(crop=9, flip=True)
    said = "images of 260 × 260 in patches of 4 × 4 are 4,225 tokens, more than 4,096: choose a smaller --image-size"
    refused(ConfigError, said, lambda: new(large, image_size=260))
    refused(ConfigError, said, lambda: made("classify", large, from_=str(folder), image_size=260))
    refused(ConfigError, "images of 67 × 67 in patches of 1 × 1", lambda: new(large, arch="vit", image_size=67))
    assert new(large, arch="rnn", image_size=260)[1].train.shape == (3, 260, 260)


def test_fine_tuning_at_another_image_size_with_lora(tmp_path: Path) -> None:
    vit = {"arch": "vit", "width": 16, "depth": 1, "heads": 2, "batch_size": 8}
    folder = train("classify", "uci-digits", **vit).save(tmp_path / "small")
    _, objective = made("classify", "uci-digits", from_=str(folder))
    assert read_preprocess(origin_of(load_folder(folder))).mean == objective.mean, "its normalisation is kept"
    assert objective.default_lr < 1e-3
    tuned = train("classify", "uci-digits", from_=str(folder), image_size=16, lora_rank=2, batch_size=8)
    frozen = {name: weight for name, weight in tuned.model.named_parameters() if not weight.requires_grad}
    model = load_folder(tuned.save(tmp_path / "large"))
    assert model.config.image == (16, 16)
    for name, weight in model.named_parameters():
        if name in frozen and ".WQ." not in name and ".WV." not in name:
            assert torch.equal(weight, frozen[name]), name


@pytest.mark.parametrize("arch", ["transformer", "rnn"])
def test_translation(arch: str, tmp_path: Path, pairs: Path) -> None:
    trained = train("translate", pairs, arch=arch, width=16, depth=1, vocab_size=300, batch_size=64)
    folder = trained.save(tmp_path / "m")
    assert isinstance(translate(load_folder(folder), "the cat sat a", max_new_tokens=3), str)
    train("translate", pairs, from_=str(folder), batch_size=64)


@pytest.mark.parametrize("arch", ["transformer", "rnn", "cnn"])
def test_language_modeling(arch: str, tmp_path: Path, text: Path) -> None:
    folder = train("generate", text, arch=arch, width=16, depth=1, vocab_size=300, batch_size=2).save(tmp_path / "m")
    if arch == "transformer":
        assert generate(load_folder(folder), "the cat", max_new_tokens=4)
        train("generate", text, from_=str(folder), lora_rank=1, batch_size=2).save(tmp_path / "again")
        load_folder(tmp_path / "again")


def test_the_end_of_a_text_is_for_validation_unless_another_text_is_given(text: Path, tmp_path: Path) -> None:
    small = {"width": 16, "depth": 1, "heads": 2, "vocab_size": 300}
    _, cut = made("generate", text, **small)
    total = cut.blocks.tokens + cut.val.tokens
    assert cut.val.tokens == round(0.1 * total)
    (tmp_path / "other.txt").write_text("another text, " * 200)
    model, given = made("generate", text, val=str(tmp_path / "other.txt"), **small)
    assert given.blocks.tokens == total
    assert model.config.length == 2 * BLOCK


def test_masked_language_modeling(tmp_path: Path, text: Path) -> None:
    trained = train("embed", text, width=16, depth=1, vocab_size=300, batch_size=64)
    assert trained.objective.summary() == "360 sentences, 40 for validation"
    folder = trained.save(tmp_path / "m")
    assert embed(load_folder(folder), "the cat").shape == (16,)
    train("embed", text, from_=str(folder), batch_size=64)


@pytest.mark.parametrize(
    "arch", ["transformer", pytest.param("rnn", marks=pytest.mark.slow), pytest.param("cnn", marks=pytest.mark.slow)]
)
def test_speech_recognition(arch: str, tmp_path: Path) -> None:
    trained = train("transcribe", "librivox", steps=1, arch=arch, width=16, depth=1, batch_size=4)
    wave = Recordings.open(open_data("librivox") / "test.tsv").wave(0)
    assert isinstance(transcribe(load_folder(trained.save(tmp_path / "m")), wave[:16000]).text, str)


def test_models_that_do_not_suit_the_task(
    refused: Callable[..., None], tmp_path: Path, pairs: Path, text: Path
) -> None:
    image, mute = save(ViT(vit.tiny()), tmp_path / "vit"), save(Decoder(decoder.tiny()), tmp_path / "mute")
    for task, data, what in (
        ("translate", pairs, "a translator that `glassformer train` made"),
        ("generate", text, "a language model"),
        ("embed", text, "an encoder"),
    ):
        said = f"--from {image} is a ViT: fine-tune {what}"
        refused(InputError, said, lambda task=task, data=data: made(task, data, from_=str(image)))
    refused(InputError, f"{mute} has no tokenizer.json", lambda: made("generate", text, from_=str(mute)))


ITALIAN = ("perché no", "la città è qui", "così va l'età", "un caffè", "più su")


@pytest.fixture
def italian(tmp_path: Path) -> Path:
    """Noise with transcripts in Italian, one of them in decomposed Unicode, one with digits."""
    rows, draw = ["path\tsentence"], torch.Generator().manual_seed(0)
    for i, sentence in enumerate([*ITALIAN * 4, unicodedata.normalize("NFD", "perché"), "sono 12 gatti"]):
        soundfile.write(tmp_path / f"{i}.wav", (torch.randn(24_000, generator=draw) / 10).numpy(), 16_000)
        rows.append(f"{i}.wav\t{sentence}")
    (tmp_path / "speech.tsv").write_text("\n".join(rows), encoding="utf-8")
    return tmp_path / "speech.tsv"


def test_the_alphabet_is_learned_from_the_transcripts(italian: Path, tmp_path: Path) -> None:
    small = {"width": 16, "depth": 1, "heads": 2, "batch_size": 8, "augment": False, "val": str(italian)}
    trained = train("transcribe", italian, steps=4, output=tmp_path / "out", **small)
    letters = set(trained.objective.recognizer.charset.names)
    assert set("àèéìòù' ") - letters == {"ò"}
    assert "w" not in letters, "12 is not twelve in Italian"
    assert "à" in trained.objective.notes[0]
    assert trained.faults is not None
    assert trained.faults.summary() == [
        "transcript with digits, which are spelled out in English only: write them as words: 1 (21.wav)"
    ]
    assert trained.objective.summary() == "21 recordings, 21 for validation", "found before training, not counted"
    assert (tmp_path / "out" / "run" / "left-out.tsv").read_text().endswith("write them as words\t21.wav\n")
    model = load_folder(trained.save(tmp_path / "m"))
    assert isinstance(transcribe(model, torch.randn(16_000) / 10).text, str)


def test_fine_tuning_in_another_language_says_what_it_cannot_keep(italian: Path, refused: Any) -> None:
    says = "21 of 22 transcripts have letters that listener lacks (à è é ì ù): leave out --from to learn the alphabet"
    refused(InputError, says, lambda: made("transcribe", italian, from_="listener", val=str(italian)))
    with italian.open("a", encoding="utf-8") as file:
        file.write("".join(f"\n{i}.wav\tla mia casa" for i in range(20)))
    _, objective = made("transcribe", italian, from_="listener", val=str(italian))
    assert objective.recognizer.ngram is None, "an English language model is not carried along"
    lacks, ngram = objective.notes
    assert lacks.startswith("21 of 42 transcripts have letters that listener lacks (à è é ì ù) and are left out")
    assert ngram.startswith("the letter n-gram model of listener is not kept")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # within torch
def test_a_compiled_model_learns_the_same(tmp_path: Path, unchecked: None) -> None:
    small = {"arch": "mlp", "width": 8, "depth": 1, "batch_size": 16, "steps": 5, "log_every": 1, "report_to": "none"}
    plain, compiled = (train("classify", "uci-digits", **small, compile=how) for how in (False, True))
    assert [line["loss"] for line in compiled.history] == pytest.approx(
        [line["loss"] for line in plain.history], rel=1e-4
    )
    assert compiled.model._compiled_call_impl is None
    assert set(plain.curves) == {"loss", "lr", "val.accuracy", "val.loss"}
    load_folder(compiled.save(tmp_path / "m"))


def test_what_the_machine_lacks_is_refused_before_the_data_is_read(refused: Any) -> None:
    lazy = iter(lambda: pytest.fail("the data was read"), None)
    run = lambda **more: lambda: train("classify", lazy, **more)
    if not torch.cuda.is_available():
        refused(InputError, "device 'cuda' is not available on this machine", run(device="cuda"))
    refused(ConfigError, "--report-to nowhere is unknown", run(report_to="nowhere"))


def test_data_of_python_is_named_in_words(refused: Any) -> None:
    says = "the data has only the class 'b': give data of at least 2 classes"
    refused(InputError, says, lambda: train("classify", [("a", "b")]))


def test_defaults_that_depend_on_the_length_are_derived_anew(tmp_path: Path) -> None:
    texts = tmp_path / "t.csv"
    texts.write_text("text,label\n" + "a good film,pos\na bad film,neg\n" * 20)
    small: dict[str, Any] = {"width": 8, "depth": 1, "heads": 2, "vocab_size": 300, "output": tmp_path / "m"}
    first = train("classify", texts, steps=40, **small).args
    assert (first.warmup, first.eval_every, first.save_every) == (2, 4, 20)
    again = train("classify", texts, steps=60, resume=True, output=tmp_path / "m").args
    assert (again.warmup, again.eval_every, again.save_every) == (3, 6, 20)
    small |= {"output": tmp_path / "n", "eval_every": 7, "warmup": 4}
    train("classify", texts, steps=20, **small)
    kept = train("classify", texts, steps=30, resume=True, output=tmp_path / "n").args
    assert (kept.warmup, kept.eval_every) == (4, 7), "given, not derived"


def test_text_is_shown_twice_before_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path / "data"))
    (tmp_path / "book.txt").write_text("".join(f"Line {i} of a book.\n" for i in range(900)))
    understood = train("generate", tmp_path / "book.txt", width=16, depth=1, vocab_size=300).objective.understood
    assert understood[1].startswith('example (book.txt): "Line 0 of a book. Line 1')
    assert understood[2].startswith('example (middle of book.txt): "Line 45')
    assert understood[3].startswith("remark: there are only ")
    assert "validation blocks, so that metrics are rough" in understood[3]


def test_data_from_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = torch.Generator().manual_seed(0)
    images = [(torch.rand(1, 8, 8, generator=random) / 2 + label / 2, label) for label in (0, 1) * 20]
    loader = torch.utils.data.DataLoader(images, batch_size=8)  # type: ignore[arg-type]
    trained = train("classify", loader, val=images, steps=20, arch="mlp", width=8, depth=1, lr=1e-2, augment=False)
    assert not trained.model.training, "ready to be used"
    assert repr(trained).startswith("Trained(trained 20 steps")
    assert trained.metrics["accuracy"] > 0.9
    assert trained.args.as_dict()["data"] == "a DataLoader from Python"
    folder = trained.save(tmp_path / "m")
    assert gf.evaluate(load_folder(folder), images)["accuracy"] == trained.metrics["accuracy"]
    texts = [{"text": f"{word} word {i}", "label": word} for i, word in enumerate(("good", "bad") * 10)]
    assert train("classify", iter(texts), width=8, depth=1, heads=2, vocab_size=300).objective.train.labels == (
        "bad",
        "good",
    )
    pairs = ((f"the cat {i}", f"le chat {i}") for i in range(20))
    assert len(train("translate", pairs, width=16, depth=1, vocab_size=300).objective.train) == 18
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path / "data"))
    stories = train("generate", (f"Once upon a time there were {i} cats." for i in range(400)), width=16, depth=1)
    assert stories.objective.understood[0].endswith("(columns line=text)")
    waves = [(torch.rand(16_000, generator=random) - 0.5, "hello") for _ in range(10)]
    assert train("transcribe", waves, width=16, depth=1, heads=2).metrics["wer"] >= 0
