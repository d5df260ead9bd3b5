"""`glassformer serve`: the workbench, a local web page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.options import ConfigOption, DeviceOption, PrecisionOption


def serve(
    port: Annotated[int, typer.Option(help="Port; 0 chooses a free one.")] = 8765,
    host: Annotated[
        str, typer.Option(help="Address to listen on. Addresses other than loopback are protected by an access token.")
    ] = "127.0.0.1",
    model: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER", help="Model folder to offer besides the shipped models. May be given several times."
        ),
    ] = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "fp32",
    results: Annotated[
        Path | None,
        typer.Option(
            help="Results file of glassformer compare for the Compare room. Defaults to the shipped measurements."
        ),
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    config: ConfigOption = None,
) -> None:
    """Open the workbench, a local web page. It has exercises, grading and models."""
    from glassformer.server import Settings
    from glassformer.server import serve as start

    def ready(address: str) -> None:
        typer.echo(f"Glassformer workbench: {address}  (Ctrl-C stops it)")
        if browser and _has_display():
            import webbrowser

            webbrowser.open(address)

    settings = Settings(
        host=host, port=port, models=tuple(model or ()), device=device, precision=precision, results=results
    )
    start(settings, ready)


def _has_display() -> bool:
    import os
    import sys

    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
