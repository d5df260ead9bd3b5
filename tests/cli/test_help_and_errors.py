"""Help texts, option names, suggestions, --config, exit codes."""

from __future__ import annotations

import importlib.util
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path
from types import ModuleType

import pytest

import glassformer as gf
from fixtures.command_line import Glassformer
from glassformer import __version__
from glassformer.cli import COMMANDS
from glassformer.cli import main as cli
from glassformer.cli.suggest import SYNONYMS, suggest
from glassformer.errors import ShapeError
from glassformer.train import TrainArgs


def test_without_a_command_the_help_is_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr(sys, "argv", ["glassformer"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    assert "\n  solve " in capsys.readouterr().out


def run_main(monkeypatch: pytest.MonkeyPatch, command: Callable[[], None]) -> int:
    """`glassformer probe`, where probe is the given function; its exit code."""
    module = ModuleType("glassformer.cli.probe_it")
    vars(module)["probe_it"] = command
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(cli, "COMMANDS", ("probe-it",))
    monkeypatch.setattr(sys, "argv", ["glassformer", "probe-it"])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    return int(caught.value.code or 0)


def test_a_users_mistake_is_one_line_and_exit_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def mistaken() -> None:
        print("so far")
        raise ShapeError("width 128 does not split into 3 heads", "choose heads that divide it (1, 2, 4, …)")

    assert run_main(monkeypatch, mistaken) == 2
    out, err = capsys.readouterr()
    assert out == "so far\n"
    assert err == "glassformer: width 128 does not split into 3 heads: choose heads that divide it (1, 2, 4, …)\n"


def test_what_goes_well_ends_with_0(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main(monkeypatch, lambda: print("done")) == 0
    assert capsys.readouterr() == ("done\n", "")


def test_a_mistake_of_ours_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise KeyError("ours")

    with pytest.raises(KeyError, match="ours"):
        run_main(monkeypatch, broken)


def test_every_command_has_a_module_and_a_line_of_help() -> None:
    app = cli.build_app()
    groups = {group.name: group.typer_instance for group in app.registered_groups}
    assert [command.name for command in app.registered_commands] == [name for name in COMMANDS if name not in groups]
    assert groups.keys() < set(COMMANDS)
    commands = [*app.registered_commands, *(one for group in groups.values() for one in group.registered_commands)]
    assert all(command.callback and command.callback.__doc__ for command in commands)


def test_version() -> None:
    """In a process of its own, as users start it."""
    code = "from glassformer.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code, "--version"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"glassformer {__version__}\n", "")


def test_help_fits_80_columns(glassformer: Glassformer, monkeypatch: pytest.MonkeyPatch) -> None:
    """No line is longer, and no name or text is cut off."""
    monkeypatch.setenv("COLUMNS", "80")
    for command in ("", *COMMANDS):
        out = glassformer(*filter(None, [command]), "--help").out
        assert not re.search(r"\w[,:]?\.\.\.$", out, re.M), command
        assert max(map(len, out.splitlines())) <= 80, command


def test_help_lists_every_command(glassformer: Glassformer) -> None:
    result = glassformer("--help")
    assert result.code == 0
    assert result.err == ""
    assert "The see-through Transformer" in result.out
    assert all(command in result.out for command in COMMANDS)


@pytest.mark.parametrize("command", [("train",), ("check",), ("data", "fetch")])
def test_help_shows_whole_options_at_80_columns(
    command: tuple[str, ...], glassformer: Glassformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = glassformer(*command, "--help").out
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown
    words = set(re.split(r"[\s,/]+", shown))
    assert {name for p in ALL_COMMANDS[" ".join(command)].params for name in p.opts if name.startswith("-")} <= words


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "clasify", "x", "-o", "m"], "the task 'clasify' is unknown: did you mean classify?"),
        (["train", "classify", "x", "-o", "m", "--lr", "fast"], "--lr is 'fast': choose a positive number, or auto"),
        (["transmogrify"], "no such command 'transmogrify'. Did you mean 'transcribe'? (see glassformer --help)"),
        (["solve", "--neatly"], "no such option --neatly (see glassformer solve --help)"),
        (["train", "classify"], "missing option '--output' / '-o' (see glassformer train --help)"),
    ],
)
def test_an_unknown_command_or_option_is_one_line_and_exit_2(
    arguments: list[str], message: str, glassformer: Glassformer
) -> None:
    assert glassformer(*arguments) == (2, "", f"glassformer: {message}\n")


@pytest.mark.parametrize("lines", [1, 100_000])
def test_a_reader_that_leaves_is_no_reason_to_complain(lines: int) -> None:
    """One line is still in the buffer when the command ends; many meet the closed pipe on the way."""
    code = (
        "import sys, types; from glassformer.cli import main as cli; cli.COMMANDS = ('probe',); "
        "sys.modules['glassformer.cli.probe'] = module = types.ModuleType('probe'); "
        f"module.probe = lambda: [print('x' * 80) for _ in range({lines})] and None; cli.main()"
    )
    process = subprocess.Popen([sys.executable, "-c", code, "probe"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=60) == 1


# Every command's options: their names, their help texts, what is suggested for others, and --config.


ALL_COMMANDS = cli.commands()
OPTIONS = {name for command in ALL_COMMANDS.values() for name in cli.long_options(command)}
TEXTS = {
    f"{name} {(p.opts or [p.name])[0]}": p.help
    for name, c in ALL_COMMANDS.items()
    for p in c.params
    if p.name != "help"
}


def whole_sentences(text: str | None) -> bool:
    """Capitalised, ended, of at least two words, and not the rest of a sentence that the option's name begins."""
    found = re.fullmatch(r"[A-Z`][^\n]*[.]", text or "")
    home_made = (
        r"\b(so many|so much|likeliest|unless given|else the|a line|as it comes|may be repeated|sound|pictures?)\b"
    )
    dangling = r"(Of|Or|And|By|Into|Before|After|With|From|For|In|Than|Only|But|How many) "
    return bool(found) and len(str(text).split()) > 1 and not re.match(dangling, str(text)) and not re.search(
        home_made, str(text)
    )  # fmt: skip


def test_help_texts_are_whole_sentences() -> None:
    texts = TEXTS | {name: command.help.partition("\n")[0] for name, command in ALL_COMMANDS.items()}
    assert {where: text for where, text in texts.items() if not whole_sentences(text)} == {}


@pytest.mark.parametrize(
    "text",
    ["Of labels.", "label smoothing.", "Label smoothing", "Updates.", None, "Only the k likeliest tokens.",
     "At most so many tokens.", "A file; may be repeated."],
)  # fmt: skip
def test_these_are_not_whole_sentences(text: str | None) -> None:
    assert not whole_sentences(text)


def test_no_option_has_a_second_name() -> None:
    """What SYNONYMS translates is never an option itself, but for words that mean something else in a command."""
    elsewhere = {"--image", "--max-length", "--model"}  # of construct, of train, and of all but train
    assert {f"--{name}" for name in SYNONYMS} & OPTIONS == elsewhere
    assert {f"--{name}" for names in SYNONYMS.values() for name in names.split()} <= OPTIONS


@pytest.mark.parametrize(
    "name",
    ["train", "generate", "classify", "translate", "embed", "transcribe", "evaluate", "look", "sweep", "construct",
     "leaks", "serve"],
)  # fmt: skip
def test_a_model_that_runs_takes_a_device_and_a_config(name: str) -> None:
    assert {"--device", "--config"} <= set(cli.long_options(ALL_COMMANDS[name]))


@pytest.mark.parametrize("name", ["bench", "parity"])
def test_commands_that_run_on_the_cpu_take_a_config_and_say_where_they_run(name: str) -> None:
    """`bench` measures the kernels of the processor, and `parity` needs float64."""
    options = cli.long_options(ALL_COMMANDS[name])
    assert "--config" in options
    assert "on the CPU" in ALL_COMMANDS[name].help
    assert suggest("--device", options, {}) == suggest("--cuda", options, {}) == "this command always runs on the CPU"


@pytest.mark.parametrize(
    ("option", "advice"),
    [
        ("--learning-rate", "use --lr"),
        ("--learning_rate", "use --lr"),
        ("--epocs", "did you mean --epochs?"),
        ("--num-epochs", "use --epochs"),
        ("-bs", "use --batch-size"),
        ("--wd", "use --weight-decay"),
        ("--max-tokens", "--max-new-tokens is an option of generate and translate"),
        ("--top-k", "it is an option of generate"),
        ("--model", "it is an option of translate"),
        ("--pretrained", ""),
        ("--learnin-rate", "use --lr"),
        ("--limit", ""),
        ("-b", "did you mean --batch-size?"),
        ("-x", ""),
        ("--seed", "it is an option of other commands, such as solve and check"),
        ("--xyzzy", ""),
    ],
)
def test_suggestions(option: str, advice: str) -> None:
    options = ["--lr", "--epochs", "--batch-size", "--weight-decay"]
    elsewhere = {"generate": ["--max-new-tokens", "--top-k"], "translate": ["--max-new-tokens", "--model"]}
    elsewhere |= {command: ["--seed"] for command in ("look", "lab", "practice", "solve", "check")}
    assert suggest(option, options, elsewhere) == advice


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["generate", "a", "--max-new", "3"], "no such option --max-new: use --max-new-tokens"),
        (["generate", "a", "--beams", "3"], "no such option --beams: use --num-beams"),
        (["embed", "a", "-bs", "3"], "no such option -bs: use --batch-size"),
        (["classify", "a.png", "--gpu=0"], "no such option --gpu: use --device"),
        (["look", "a", "b", "--xyzzy"], "no such option --xyzzy"),
        (["train", "classify", "photos", "--model", "vit"], "no such option --model: use --from"),
        (["train", "classify", "photos", "--wandb"], "no such option --wandb: use --report-to"),
        (["train", "classify", "photos", "--val-split=0.1"], "no such option --val-split: use --val"),
        (["generate", "a", "--do-sample"], "no such option --do-sample: use --temperature"),
        (["classify", "a.png", "--stop=x"], "no such option --stop: it is an option of generate"),
    ],
)
def test_an_unknown_option_leads_to_the_right_one(glassformer: Glassformer, arguments: list[str], message: str) -> None:
    assert glassformer(*arguments) == (2, "", f"glassformer: {message} (see glassformer {arguments[0]} --help)\n")


def test_a_wrong_choice_is_one_line(glassformer: Glassformer) -> None:
    code, out, error = glassformer("generate", "a", "--device", "tpu")
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert "'tpu' is not one of 'auto', 'cpu', 'cuda', 'mps'" in error


def test_a_config_gives_options_and_the_command_line_wins(
    glassformer: Glassformer, writer: Path, tmp_path: Path
) -> None:
    file = tmp_path / "options.yaml"
    file.write_text(f"model: {writer}\nmax_new_tokens: 6\ntemperature: 1\ntop-k: 3\n")
    given = ["ab", "--model", str(writer), "-t", "1", "--top-k", "3", "--max-new-tokens"]
    plain = glassformer("generate", *given, "6")
    assert glassformer("generate", "ab", "--config", str(file)) == plain
    shorter = glassformer("generate", "ab", "--config", str(file), "--max-new-tokens", "2")
    assert shorter == glassformer("generate", *given, "2")
    assert shorter != plain


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_tokens: 3", "'max_tokens' is not an option of generate: use max-new-tokens"),
        ("colour: blue", "'colour' is not an option of generate: remove it"),
        ("- a", "contains no options: write one option: value per line"),
        ("a: [", "cannot be read ("),
        ("max_new_tokens: soon", "'--max-new-tokens': "),
    ],
)
def test_a_config_that_cannot_be_used(glassformer: Glassformer, tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "options.yaml"
    file.write_text(text)
    code, out, error = glassformer("generate", "ab", "--config", str(file))
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert message in error


def test_a_missing_config(glassformer: Glassformer, tmp_path: Path) -> None:
    code, _, error = glassformer("generate", "ab", "--config", str(tmp_path / "no.yaml"))
    assert code == 2
    assert "no.yaml cannot be read (No such file or directory)" in error


def test_a_device_that_is_not_there(glassformer: Glassformer, writer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    code, _, error = glassformer("generate", "ab", "--model", str(writer), "--device", "cuda")
    assert code == 2
    assert "device 'cuda' is not available on this machine: choose auto or " in error


PYTHON_ONLY = {"progress", "callbacks", "faults", "note", "dtype", "check"}  # functions, counters, and types of torch
LOADING = {"device", "precision", "engine", "seed"}  # options of gf.load that commands pass on


@pytest.mark.parametrize(
    "name",
    ["solve", "check", "generate", "classify", "translate", "embed", "transcribe", "evaluate", "train", "look"],
)
def test_options_have_the_names_and_defaults_of_the_function(name: str) -> None:
    """Every keyword of the function is an option with the same default, and so is every option for loading a model."""
    keywords = [p for p in inspect.signature(getattr(gf, name)).parameters.values() if p.kind is p.KEYWORD_ONLY]
    expected = {p.name: p.default for p in keywords if p.name not in PYTHON_ONLY}
    options = {p.name: p.default for p in ALL_COMMANDS[name].params if p.opts[0].startswith("-")}
    if name not in ("solve", "check", "train"):
        loading = {p.name: p.default for p in inspect.signature(gf.load).parameters.values() if p.name in LOADING}
        expected = {**{key: value for key, value in loading.items() if key in options}, **expected}
    if name == "train":
        del options["output"], expected["output"]  # the command always writes a folder
        factories = {one.name: one.default_factory() for one in fields(TrainArgs) if one.default_factory is not MISSING}
        expected |= factories
    empty = (None, (), [], "", {})
    assert expected.keys() <= options.keys()
    for key, value in expected.items():
        assert options[key] == value or (options[key] in empty and value in empty), key


@pytest.mark.golden
def test_the_reference_is_current() -> None:
    """docs/cli.md is written by `python docs/cli.py`."""
    page = Path(__file__).parents[2] / "docs/cli.py"
    spec = importlib.util.spec_from_file_location("cli_reference", page)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if os.environ.get("GLASSFORMER_GOLDEN") == "rewrite":
        module.PAGE.write_text(module.reference(), encoding="utf-8")
    assert module.PAGE.read_text(encoding="utf-8") == module.reference(), "run python docs/cli.py"
