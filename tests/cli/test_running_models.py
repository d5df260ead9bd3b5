"""Commands that run a model: classify, generate, translate, embed, transcribe, evaluate."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from PIL import Image
from typer.testing import CliRunner

from glassformer.checkpoints import Preprocess, load_folder, save
from glassformer.cli.classify import _shown as shown_classes
from glassformer.cli.main import build_app
from glassformer.cli.transcribe import _clock
from glassformer.cli.transcribe import _shown as shown_transcript
from glassformer.core.audio import MelConfig, log_mel
from glassformer.data.sources import embedded_part, open_data
from glassformer.errors import InputError
from glassformer.models import MLP, Speech, ViT, vit
from glassformer.pipelines import (
    Classification,
    LabelScore,
    Segment,
    Transcript,
    classify,
    embed,
    evaluate,
    generate,
    translate,
    translate_aligned,
)
from glassformer.pipelines.speech.charset import RecognizerConfig
from glassformer.train.objectives import speech_models
from glassformer.train.objectives.ctc import save_speech
from glassformer.train.objectives.image_classification import save_images
from glassformer.train.objectives.image_models import Size, mlp_config


def run_classify(*arguments: str, text: bytes = b"") -> tuple[int, str, str]:
    result = CliRunner().invoke(build_app("classify"), ["classify", *arguments], input=text, catch_exceptions=False)
    return result.exit_code, result.stdout, result.stderr


def test_classify_lines(reader: Path) -> None:
    model = load_folder(reader)
    code, out, error = run_classify("-m", str(reader), "-k", "1", text=b"the cat\nthe \xff\nthe dog\n")
    best = [classify(model, text, top_k=1)[0] for text in ("the cat", "the dog")]
    shown = [f"{text}\t{one.label} {one.score:.4f}" for text, one in zip(("the cat", "the dog"), best, strict=True)]
    assert out.splitlines() == shown
    assert code == 2
    assert error == "glassformer: standard input:2: byte 4 is not UTF-8: save the text as UTF-8\n"
    assert run_classify("the cat", "the dog", "-m", str(reader), "-k", "1") == (0, out, "")


def test_a_broken_image_is_reported(tmp_path: Path) -> None:
    folder = save(ViT(vit.tiny()), tmp_path / "vit")
    (tmp_path / "vit" / "preprocessor_config.json").write_text('{"image_processor_type": "ViTImageProcessor"}')
    code, out, error = run_classify("-m", str(folder), str(tmp_path / "a.png"), str(tmp_path / "b.png"))
    assert (code, out) == (2, "")
    assert error.count("there is no") == 2
    with pytest.raises(InputError, match="no images were given"):
        run_classify("-m", str(folder))


def test_the_patches_that_mattered_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save(ViT(vit.tiny()), tmp_path / "vit")
    (folder / "preprocessor_config.json").write_text('{"image_processor_type": "ViTImageProcessor", "size": 8}')
    for name in ("a", "b"):
        Image.new("RGB", (9, 9), (200, 10, 10)).save(tmp_path / f"{name}.png")
    images = [str(tmp_path / "a.png"), str(tmp_path / "b.png")]
    assert run_classify("-m", str(folder), *images, "--figure", str(tmp_path / "seen"))[0] == 0
    assert sorted(path.name for path in (tmp_path / "seen").iterdir()) == ["a.png", "b.png"]
    with pytest.raises(InputError, match=r"--figure seen\.png is one file for 2 images: give a folder"):
        run_classify("-m", str(folder), *images, "--figure", str(tmp_path / "seen.png"))


def test_figures_of_images_with_the_same_name_are_numbered(tmp_path: Path) -> None:
    folder = save(ViT(vit.tiny()), tmp_path / "vit")
    (folder / "preprocessor_config.json").write_text('{"image_processor_type": "ViTImageProcessor", "size": 8}')
    images = [tmp_path / name for name in ("x/1.png", "y/1.png", "y/1-2.png")]
    for path in images:
        path.parent.mkdir(exist_ok=True)
        Image.new("RGB", (9, 9), (200, 10, 10)).save(path)
    seen = tmp_path / "seen"
    code, _, error = run_classify("-m", str(folder), *map(str, images), "--figure", str(seen))
    assert code == 0
    assert sorted(path.name for path in seen.iterdir()) == ["1-2-2.png", "1-2.png", "1.png"]
    told = ((images[1], "1-2.png"), (images[2], "1-2-2.png"))
    assert error == "".join(f"glassformer: {image} was drawn to {seen / name}\n" for image, name in told)
    (tmp_path / "afile").write_text("")
    for place in ("afile", "afile/x", "afile/x.png"):
        with pytest.raises(InputError, match=r"afile(/x)? cannot be created \(.*\): choose another place for --figure"):
            run_classify("-m", str(folder), str(images[0]), "--figure", str(tmp_path / place))


def test_bars_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    shown = shown_classes("a.png", Classification((LabelScore("cat", 0.75), LabelScore("horse", 0.25))))
    assert shown.splitlines() == ["a.png", f"  cat     75.0%  {'█' * 30}", f"  horse   25.0%  {'█' * 10}"]


def test_a_regression_on_a_terminal_is_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    shown = shown_classes("a text", Classification((LabelScore("LABEL_0", 3.25),), "regression"))
    assert shown.splitlines() == ["a text", "  LABEL_0  3.2500"]


def run_generate(*arguments: str, text: str = "") -> tuple[int, str, str]:
    result = CliRunner().invoke(build_app("generate"), ["generate", *arguments], input=text, catch_exceptions=False)
    return result.exit_code, result.stdout, result.stderr


def test_prompts_as_arguments_or_lines(writer: Path) -> None:
    model = load_folder(writer)
    expected = "".join(generate(model, text, max_new_tokens=6) + "\n" for text in ("ab", "cd"))
    assert run_generate("-m", str(writer), "ab", "cd", "--max-new-tokens", "6") == (0, expected, "")
    assert run_generate("-m", str(writer), "--max-new-tokens", "6", text="ab\ncd\n") == (0, expected, "")


def test_every_option_has_its_effect(writer: Path) -> None:
    model = load_folder(writer)
    sampled = generate(model, "ab", max_new_tokens=9, temperature=1.5, top_k=9, top_p=0.9, min_p=0.01, seed=3)
    options = ["-t", "1.5", "--top-k", "9", "--top-p", "0.9", "--min-p", "0.01", "--seed", "3", "--max-new-tokens", "9"]
    assert run_generate("-m", str(writer), "ab", *options)[1] == sampled + "\n"
    beams = generate(model, "ab", max_new_tokens=5, num_beams=3, repetition_penalty=1.4)
    options_of_beam = ["--num-beams", "3", "--max-new-tokens", "5", "--repetition-penalty", "1.4"]
    assert run_generate("-m", str(writer), "ab", *options_of_beam)[1] == beams + "\n"
    stop = sampled[3]
    assert run_generate("-m", str(writer), "ab", *options, "--stop", stop)[1] == sampled[: sampled.index(stop)] + "\n"


def test_a_bad_prompt_is_reported_and_the_others_are_answered(writer: Path) -> None:
    code, out, error = run_generate("-m", str(writer), "ab", "x" * 50, "cd", "--max-new-tokens", "3")
    assert code == 2
    assert len(out.encode().splitlines()) >= 2
    assert error.startswith("glassformer: prompt 2: a prompt of 50 tokens exceeds the model's context of 40")


def test_generate_what_is_refused(writer: Path) -> None:
    with pytest.raises(InputError, match="--system needs a chat"):
        run_generate("-m", str(writer), "ab", "--no-chat", "--system", "x")
    assert run_generate("-m", str(writer), "ab", "--system", "x")[2].startswith(
        "glassformer: prompt 1: the model's folder has no chat"
    )


SIZES = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 1, "num_heads": 2, "feed_forward_proj": "gated-silu"}


@pytest.fixture
def folder(writer: Path, tmp_path: Path) -> Path:
    """A T5 whose tokens are bytes, as transformers would save one."""
    transformers = pytest.importorskip("transformers")
    tokens = {"pad_token_id": 1, "eos_token_id": 0, "decoder_start_token_id": 1}
    model = transformers.T5ForConditionalGeneration(transformers.T5Config(vocab_size=256, **SIZES, **tokens))
    transformers.utils.logging.disable_progress_bar()
    model.save_pretrained(tmp_path / "t5")
    (tmp_path / "t5" / "tokenizer.json").write_bytes((writer / "tokenizer.json").read_bytes())
    return tmp_path / "t5"


def test_translate_lines(folder: Path) -> None:
    model = load_folder(folder)
    call = ["translate", "-m", str(folder), "--max-new-tokens", "4", "--num-beams", "2", "--prefix", "x: "]
    result = CliRunner().invoke(build_app(), call, input=b"ab\n\xff\n\ncd\n", catch_exceptions=False)
    both = translate(model, ["ab", "cd"], num_beams=2, max_new_tokens=4, prefix="x: ")
    first, last = (" ".join(text.splitlines()) for text in both)
    assert result.stdout == f"{first}\n\n\n{last}\n"  # a line for a line: what fails and what is empty has its own
    assert result.exit_code == 2
    assert result.stderr == "glassformer: standard input:2: byte 0 is not UTF-8: save the text as UTF-8\n"


def test_which_word_looked_at_which(folder: Path, tmp_path: Path) -> None:
    found = translate_aligned(load_folder(folder), "ab cd", max_new_tokens=4)
    call = ["translate", "-m", str(folder), "--max-new-tokens", "4", "ab cd"]
    drawn = [*call, "--align", "--figure", str(tmp_path / "a.png")]
    result = CliRunner().invoke(build_app(), drawn, catch_exceptions=False)
    first, *rows = result.stdout.removesuffix("\n").split("\n")
    assert first == found.text
    assert len(rows) == len(found.target)
    assert all(" ← " in row for row in rows)
    assert (tmp_path / "a.png").exists() == bool(found.target)
    with pytest.raises(InputError, match="--figure draws one text, got 2"):
        CliRunner().invoke(build_app("translate"), [*call, "ef", "--figure", "a.png"], catch_exceptions=False)


TEXTS = ["the cat sat", "the market fell", "the dog sat the cat sat"]


def run_embed(*arguments: str, text: str | bytes = "") -> tuple[int, str, str]:
    result = CliRunner().invoke(build_app("embed"), ["embed", *arguments], input=text, catch_exceptions=False)
    return result.exit_code, result.stdout, result.stderr


def test_lines_to_vectors(reader: Path, tmp_path: Path) -> None:
    expected = embed(load_folder(reader), TEXTS)
    (tmp_path / "lines.txt").write_text("\n".join(TEXTS))
    call = ["-m", str(reader), str(tmp_path / "lines.txt"), "-o", str(tmp_path / "v.npy"), "--batch-size", "2"]
    assert run_embed(*call) == (0, "", "")
    torch.testing.assert_close(torch.from_numpy(np.load(tmp_path / "v.npy")), expected)
    code, out, error = run_embed("-m", str(reader), text="\n".join(TEXTS))
    rows = [json.loads(line) for line in out.splitlines()]
    assert (code, error) == (0, "")
    assert [row["text"] for row in rows] == TEXTS
    torch.testing.assert_close(torch.tensor([row["vector"] for row in rows]), expected)
    run_embed("-m", str(reader), "-o", str(tmp_path / "v.jsonl"), text="\n".join(TEXTS))
    assert (tmp_path / "v.jsonl").read_text() == out


def test_search(reader: Path) -> None:
    code, out, _ = run_embed("-m", str(reader), "--search", "the cat sat", "-k", "2", text="\n".join(TEXTS))
    rows = [line.split("\t") for line in out.splitlines()]
    assert code == 0
    assert len(rows) == 2
    assert rows[0] == ["1.0000", "the cat sat"]


def test_a_bad_line_is_reported_and_the_others_are_embedded(reader: Path) -> None:
    code, out, error = run_embed("-m", str(reader), text=b"the cat\nthe \xff\n" + b"cat " * 40 + b"\nthe dog\n")
    assert code == 2
    assert [json.loads(line)["text"] for line in out.splitlines()] == ["the cat", "the dog"]
    first, second = error.splitlines()
    assert first == "glassformer: standard input:2: byte 4 is not UTF-8: save the text as UTF-8"
    assert second.startswith("glassformer: standard input:3: a text of 42 tokens exceeds the model's context of 12")


def test_embed_what_is_refused(reader: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--output v.txt has an unknown format"):
        run_embed("-m", str(reader), "-o", str(tmp_path / "v.txt"), text="the")


def test_a_table_for_parquet(reader: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyarrow import parquet

    _, out, _ = run_embed("-m", str(reader), text="\n".join(TEXTS))
    run_embed("-m", str(reader), "-o", str(tmp_path / "v.parquet"), text="\n".join(TEXTS))
    rows = parquet.read_table(tmp_path / "v.parquet").to_pylist()
    assert rows == [json.loads(line) for line in out.splitlines()]
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"\.parquet needs the package pyarrow"):
        run_embed("-m", str(reader), "-o", str(tmp_path / "v.parquet"), text="the")


GLASSFORMER = [sys.executable, "-c", "from glassformer.cli.main import main; main()"]
FOUND = Transcript((Segment(0.0, 1.5, "Hello."), Segment(3661.25, 3662.0, "Bye.")))
SOUND = (np.random.default_rng(0).normal(size=16_000) * 3000).astype("<i2")


@pytest.fixture(scope="module")
def listener(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random recogniser that says something else nearly every 40 ms."""
    recognizer = RecognizerConfig(mel=MelConfig(bands=8, high=4000.0), stack=4)
    model = Speech(speech_models.transformer(recognizer, width=16, depth=1, count=2), seed=5).eval()
    frames = log_mel(torch.randn(16_000, generator=torch.Generator().manual_seed(0)) / 10, recognizer.mel)
    speech_models.normalise_stem(model, frames[None].float())
    return save_speech(model, tmp_path_factory.mktemp("listener"), recognizer)


def test_forms() -> None:
    assert shown_transcript(Path("a.wav"), FOUND, "plain") == "Hello. Bye."
    assert shown_transcript(Path("a.wav"), FOUND, "text").splitlines()[1] == "3661.25 – 3662.00  Bye."
    srt = shown_transcript(Path("a.wav"), FOUND, "srt")
    assert srt.startswith("1\n00:00:00,000 --> 00:00:01,500\nHello.\n\n2\n01:01:01,250 --> 01:01:02,000\nBye.\n")
    loaded = json.loads(shown_transcript(Path("a.wav"), FOUND, "json"))
    assert loaded["file"] == "a.wav"
    assert loaded["segments"][0] == {"start": 0.0, "end": 1.5, "text": "Hello."}


def test_a_clock_carries() -> None:
    assert _clock(59.9999) == "00:01:00,000"


def test_a_file_and_the_same_sound_live(listener: Path, tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", SOUND, 16_000, subtype="PCM_16")
    plain = ["-m", str(listener), "-f", "plain"]
    told = CliRunner().invoke(
        build_app("transcribe"), ["transcribe", str(tmp_path / "a.wav"), *plain], catch_exceptions=False
    )
    live = CliRunner().invoke(
        build_app("transcribe"), ["transcribe", "--live", *plain], input=SOUND.tobytes(), catch_exceptions=False
    )
    assert len(told.stdout) > 5
    assert live.stdout.split() == told.stdout.split()


@pytest.mark.slow
def test_control_c_ends_with_the_rest_and_zero(listener: Path) -> None:
    command = [*GLASSFORMER, "transcribe", "--live", "-m", str(listener), "-f", "json"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(SOUND.tobytes())
        process.stdin.flush()
        first = json.loads(process.stdout.readline())  # a word while the sound goes on
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert errors == b""
    assert first["known"] < 1
    assert json.loads(rest.splitlines()[-1])["known"] == pytest.approx(1.0)


def test_incompatible_options_are_errors(listener: Path) -> None:
    run = lambda *given: CliRunner().invoke(build_app("transcribe"), ["transcribe", *given], catch_exceptions=False)
    assert "'doc' is not one of" in run("a.wav", "-f", "doc").output
    with pytest.raises(InputError, match="no recordings were given"):
        run()
    with pytest.raises(InputError, match="--live takes no files"):
        run("--live", "a.wav")
    with pytest.raises(InputError, match="--sample-rate 8000 needs --live: leave it out"):
        run("a.wav", "--sample-rate", "8000")
    with pytest.raises(InputError, match="--live always computes timestamps"):
        run("--live", "--no-timestamps")
    with pytest.raises(InputError, match="--format srt needs a whole recording"):
        run("--live", "-f", "srt", "-m", str(listener))


def test_a_model_that_cannot_transcribe_is_an_error(writer: Path, tmp_path: Path) -> None:
    call = ["transcribe", "-m", str(writer), str(tmp_path / "a.wav")]
    with pytest.raises(InputError, match="this Decoder cannot transcribe speech: it supports generate"):
        CliRunner().invoke(build_app("transcribe"), call, catch_exceptions=False)


def test_the_default_model_warns_that_it_is_a_demonstration(tmp_path: Path) -> None:
    result = CliRunner().invoke(build_app("transcribe"), ["transcribe", str(tmp_path / "missing.wav")])
    assert "the listener that comes with Glassformer is a small demonstration model" in result.stderr
    assert "glassformer data fetch whisper-tiny.en" in result.stderr


def run_evaluate(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(build_app("evaluate"), ["evaluate", *arguments], catch_exceptions=False)
    return result.exit_code, result.stdout, result.stderr


def test_a_dataset_by_name_or_a_folder(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path_factory.getbasetemp() / "data"))
    how = Preprocess(resize=(8, 8), resample=2, crop=None, scale=1 / 255, mean=(0.5,), std=(0.5,))
    model = MLP(mlp_config((1, 8, 8), 10, Size(width=8, depth=1)))
    folder = save_images(model, tmp_path / "m", [str(i) for i in range(10)], how)
    expected = evaluate(load_folder(folder), open_data("uci-digits") / "test", limit=50)
    code, out, error = run_evaluate("uci-digits", "-m", str(folder), "--limit", "50", "--json")
    assert (code, error) == (0, "")
    assert json.loads(out) == expected
    code, out, _ = run_evaluate(str(open_data("uci-digits") / "test"), "-m", str(folder), "--limit", "50")
    assert out.splitlines()[-1] == f"images             {expected['images']}"
    with pytest.raises(InputError, match="there is no dataset or file 'nowhere'"):
        run_evaluate("nowhere", "-m", str(folder))


def test_evaluating_on_the_embedded_part_of_a_dataset_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The word error rate of the listener is 35 % on the 16 embedded recordings and 46 % on all 61."""
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path))
    code, out, error = run_evaluate("asterisk-en", "-m", "listener", "--limit", "1")
    assert code == 0
    assert "recordings         1" in out
    assert "asterisk-en was not fetched, so only its embedded part is used (four minutes, as FLAC): " in error
    assert error.endswith("glassformer data fetch asterisk-en\n")
    assert embedded_part("uci-digits") is None
    assert embedded_part("a file") is None
    (tmp_path / "asterisk-en").mkdir()
    assert embedded_part("asterisk-en") is None
