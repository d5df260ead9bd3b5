from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from types import ModuleType

import pytest

from glassformer import __version__
from glassformer.cli import COMMANDS
from glassformer.cli import main as cli
from glassformer.errors import ShapeError


def run(monkeypatch: pytest.MonkeyPatch, command: Callable[[], None]) -> int:
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

    assert run(monkeypatch, mistaken) == 2
    out, err = capsys.readouterr()
    assert out == "so far\n"
    assert err == "glassformer: width 128 does not split into 3 heads: choose heads that divide it (1, 2, 4, …)\n"


def test_what_goes_well_ends_with_0(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, lambda: print("done")) == 0
    assert capsys.readouterr() == ("done\n", "")


def test_a_mistake_of_ours_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise KeyError("ours")

    with pytest.raises(KeyError, match="ours"):
        run(monkeypatch, broken)


def test_every_command_has_a_module_and_a_line_of_help() -> None:
    app = cli.build()
    groups = {group.name: group.typer_instance for group in app.registered_groups}
    assert [command.name for command in app.registered_commands] == [name for name in COMMANDS if name not in groups]
    assert groups.keys() < set(COMMANDS)
    commands = [*app.registered_commands, *(one for group in groups.values() for one in group.registered_commands)]
    assert all(command.callback and command.callback.__doc__ for command in commands)


def glassformer(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "from glassformer.cli.main import main; main()"
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60)


def test_version() -> None:
    result = glassformer("--version")
    assert (result.returncode, result.stdout, result.stderr) == (0, f"glassformer {__version__}\n", "")


def test_help_lists_every_command() -> None:
    result = glassformer("--help")
    assert result.returncode == 0
    assert result.stderr == ""
    assert "The see-through Transformer" in result.stdout
    assert all(command in result.stdout for command in COMMANDS)


def test_help_needs_less_than_half_a_second() -> None:
    """Of the processor, not of the clock: a busy machine changes nothing."""
    code = "import os; from glassformer.cli.main import build; build()(['--help'], standalone_mode=False); "
    measured = f"{code}print('spent', sum(os.times()[:2]))"
    runs = [subprocess.run([sys.executable, "-c", measured], capture_output=True, text=True) for _ in range(2)]
    assert min(float(run.stdout.split()[-1]) for run in runs) < 0.5


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["transmogrify"], "no such command 'transmogrify'. Did you mean 'transcribe'? (see glassformer --help)"),
        (["solve", "--neatly"], "no such option --neatly (see glassformer solve --help)"),
        (["train", "classify"], "missing option '--output' / '-o' (see glassformer train --help)"),
    ],
)
def test_a_command_or_option_that_is_not_there_is_one_line_and_exit_2(
    arguments: list[str], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["glassformer", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 2
    assert capsys.readouterr() == ("", f"glassformer: {told}\n")


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
