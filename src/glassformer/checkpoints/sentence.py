"""vector = normalise(φ(W pool(X))): sentence-transformers modules after an encoder, from modules.json."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from glassformer.checkpoints.fields import Fields
from glassformer.checkpoints.files import inside, read_json, read_object
from glassformer.checkpoints.rules import linear
from glassformer.checkpoints.weights import Weights, open_weights
from glassformer.errors import ConfigError
from glassformer.models.encoder import DenseConfig, EncoderConfig, Pooling
from glassformer.nn.feedforward import Activation

PREFIX = "sentence."  # prefix for the names of a Dense module's weights
RULES = linear("dense", f"{PREFIX}linear")

POOLINGS: dict[str, Pooling] = {"cls": "first", "mean": "mean", "max": "max"}
ACTIVATIONS: dict[str, Activation | None] = {"Tanh": "tanh", "Identity": None, "ReLU": "relu", "GELU": "gelu"}


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """The folder of an encoder and the modules that follow it."""

    encoder: Path
    pooling: Pooling | None = None
    dense: DenseConfig | None = None
    dense_folder: Path | None = None
    normalise: bool = False

    def amend(self, config: Any) -> Any:
        """Return the encoder's config extended by the modules that follow it."""
        if self.pooling is None:
            return config
        if not isinstance(config, EncoderConfig):
            raise ConfigError(
                f"modules.json adds pooling to a {type(config).__name__}", "only text encoders are supported"
            )
        return replace(config, pooling=self.pooling, dense=self.dense, normalise=self.normalise)

    def join(self, weights: Weights) -> Weights:
        """Return the encoder's weights together with those of the Dense module."""
        return weights if self.dense_folder is None else weights | open_weights(self.dense_folder).renamed(PREFIX)


def read_sentence(folder: Path) -> Sentence:
    """Read modules.json; a folder without it is a plain encoder."""
    if not (folder / "modules.json").is_file():
        return Sentence(encoder=folder)
    found = Sentence(encoder=folder)
    modules = read_json(folder / "modules.json")
    if not isinstance(modules, list) or not all(isinstance(module, dict) for module in modules):
        raise ConfigError("modules.json does not list modules", "download it again")
    for module in modules:
        kind = str(module.get("type", "")).rpartition(".")[2]
        place = inside(folder, module.get("path", ""))
        match kind:
            case "Transformer" if found.pooling is None:
                found = replace(found, encoder=place)
            case "Pooling" if found.pooling is None:
                found = replace(found, pooling=_pooling(read_object(place / "config.json")))
            case "Dense" if found.dense is None and not found.normalise:
                found = replace(found, dense=_dense(read_object(place / "config.json")), dense_folder=place)
            case "Normalize":
                found = replace(found, normalise=True)
            case _:
                known = "Transformer, Pooling, one Dense, Normalize, in this order"
                raise ConfigError(f"modules.json has the module {str(module.get('type'))[:60]}", f"supported: {known}")
    return found


def _pooling(raw: dict[str, Any]) -> Pooling:
    """Read the pooling mode: old files have a flag for each mode, new ones name it."""
    modes = {
        "pooling_mode_cls_token": "cls",
        "pooling_mode_mean_tokens": "mean",
        "pooling_mode_max_tokens": "max",
    }
    named = raw.get("pooling_mode")
    chosen = [modes.get(k, k) for k, v in raw.items() if k.startswith("pooling_mode_") and v is True]
    chosen = [str(named)] if named is not None else chosen
    if len(chosen) != 1 or chosen[0] not in POOLINGS:
        raise ConfigError(f"the pooling mode is {', '.join(chosen) or 'nothing'}", "supported: cls, mean, max")
    return POOLINGS[chosen[0]]


def _dense(raw: dict[str, Any]) -> DenseConfig:
    width = Fields(raw, {"dense": (2**31,)}, lambda _: NotImplemented).size("out_features")
    name = str(raw.get("activation_function", "Tanh")).rpartition(".")[2]
    if name not in ACTIVATIONS:
        raise ConfigError(f"the Dense module has the activation {name[:40]}", f"supported: {', '.join(ACTIVATIONS)}")
    return DenseConfig(width=width, activation=ACTIVATIONS[name], bias=raw.get("bias", True) is not False)
