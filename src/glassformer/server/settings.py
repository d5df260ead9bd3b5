"""Settings and limits of a server."""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from glassformer.errors import InputError

MEGABYTE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of one request; exceeding one is answered with a 4xx that states the limit."""

    body: int = 16 * MEGABYTE
    """Bytes of a request."""
    exercise: int = 200_000
    """Bytes of an exercise or of a learner's working."""
    document: int = 3_000_000
    """Bytes of a learner's document in base64, with its exercise."""
    tokens: int = 1024
    """Tokens of a text."""
    pixels: int = 16_000_000
    """Pixels of an image."""
    audio_seconds: float = 30.0
    """Length of a recording."""
    upload_seconds: float = 10.0
    """Time a client may take to send its request."""
    decimals_seconds: float = 5.0
    """Time for decimal values."""
    exact_seconds: float = 20.0
    """Time for exact values, grading and practice sheets."""
    load_seconds: float = 300.0
    """Time for loading a model."""
    model_seconds: float = 60.0
    """Time for one run of a model."""
    lab_seconds: float = 600.0
    """Time for one experiment of the Lab."""
    waiting: int = 256
    """Requests that may wait for a worker."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Address, models and limits of a server. Any address other than loopback requires a token."""

    host: str = "127.0.0.1"
    port: int = 8765
    models: Sequence[Path] = ()
    """Model folders that can be opened besides the shipped models."""
    device: str = "cpu"
    """Device that the models run on: auto, cpu, cuda or mps."""
    precision: str = "fp32"
    """Precision of the models' matrix products: fp32, bf16, int8 or auto."""
    results: Path | None = None
    """Results file of `glassformer compare` for the Compare room. Defaults to the one that comes with Glassformer."""
    workers: int = 2
    """Worker processes for exact arithmetic; one more serves decimal values."""
    token: str | None = None
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise InputError(f"--port is {self.port}", "choose 0 (any free port) to 65535")
        if not is_loopback(self.host) and self.token is None:
            object.__setattr__(self, "token", secrets.token_urlsafe(24))


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
