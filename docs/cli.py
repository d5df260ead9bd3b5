"""Writes docs/cli.md, the reference of the command line, from the commands themselves.

python docs/cli.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from glassformer.cli.main import commands

PAGE = Path(__file__).with_name("cli.md")
OPENING = """# The command line

```
glassformer solve four-tokens
glassformer generate "Once upon a time" --max-new-tokens 40 --temperature 0.8
glassformer train classify photos/ -o mine --epochs 5
glassformer look writer "The whale" -o report.html
```
The commands have the names, options and defaults of the functions in [the Python API](api.md), and
`glassformer COMMAND --help` prints what is below. A mistake is one line on standard error and exit code 2; for an
unknown option that line suggests the right one.

Where a model runs, `--config FILE.yaml` reads options from a file, one `option: value` on each line, and options on the
command line take precedence. This page is written by `python docs/cli.py`.
"""


def cell(text: object) -> str:
    return str(text).replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def default(parameter: Any) -> str:
    value = parameter.default
    if value in (None, "", (), []):
        return ""
    if isinstance(value, bool):
        return "on" if value else ""
    return f"`{cell(value)}`"


def rows(command: Any) -> list[str]:
    found = []
    for parameter in command.params:
        if parameter.name == "help":
            continue
        is_option = parameter.param_type_name == "option"
        names = [*parameter.opts, *parameter.secondary_opts] if is_option else [str(parameter.name).upper()]
        found.append(f"| {', '.join(f'`{name}`' for name in names)} | {default(parameter)} | {cell(parameter.help)} |")
    return found


def reference() -> str:
    parts = [OPENING]
    for name, command in commands().items():
        table = rows(command)
        head = ["", "| argument or option | default | |", "|---|---|---|", *table] if table else []
        parts.append("\n".join([f"## {name}", " ".join(command.help.split()), *head]) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
