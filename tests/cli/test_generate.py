from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from glassformer.checkpoints import load
from glassformer.cli.main import build
from glassformer.errors import InputError
from glassformer.pipelines import generate


def run(*arguments: str, text: str = "") -> tuple[int, str, str]:
    result = CliRunner().invoke(build(), ["generate", *arguments], input=text, catch_exceptions=False)
    return result.exit_code, result.stdout, result.stderr


def test_prompts_as_arguments_or_lines(writer: Path) -> None:
    model = load(writer)
    expected = "".join(generate(model, text, max_new_tokens=6) + "\n" for text in ("ab", "cd"))
    assert run("-m", str(writer), "ab", "cd", "--max-new-tokens", "6") == (0, expected, "")
    assert run("-m", str(writer), "--max-new-tokens", "6", text="ab\ncd\n") == (0, expected, "")


def test_every_option_has_its_effect(writer: Path) -> None:
    model = load(writer)
    sampled = generate(model, "ab", max_new_tokens=9, temperature=1.5, top_k=9, top_p=0.9, min_p=0.01, seed=3)
    options = ["-t", "1.5", "--top-k", "9", "--top-p", "0.9", "--min-p", "0.01", "--seed", "3", "--max-new-tokens", "9"]
    assert run("-m", str(writer), "ab", *options)[1] == sampled + "\n"
    beams = generate(model, "ab", max_new_tokens=5, num_beams=3, repetition_penalty=1.4)
    options_of_beam = ["--num-beams", "3", "--max-new-tokens", "5", "--repetition-penalty", "1.4"]
    assert run("-m", str(writer), "ab", *options_of_beam)[1] == beams + "\n"
    stop = sampled[3]
    assert run("-m", str(writer), "ab", *options, "--stop", stop)[1] == sampled[: sampled.index(stop)] + "\n"


def test_a_bad_prompt_is_told_and_the_rest_answered(writer: Path) -> None:
    code, out, error = run("-m", str(writer), "ab", "x" * 50, "cd", "--max-new-tokens", "3")
    assert code == 2
    assert len(out.encode().splitlines()) >= 2
    assert error.startswith("glassformer: prompt 2: a prompt of 50 tokens exceeds the model's context of 40")


def test_what_is_refused(writer: Path) -> None:
    with pytest.raises(InputError, match="--system needs a chat"):
        run("-m", str(writer), "ab", "--no-chat", "--system", "x")
    assert run("-m", str(writer), "ab", "--system", "x")[2].startswith(
        "glassformer: prompt 1: the model's folder has no chat"
    )
