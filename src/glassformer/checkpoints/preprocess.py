"""image → (scale · crop(resize(image)) − μ) / σ: image preprocessing of a published model, from its own file."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from glassformer.checkpoints.files import read_object
from glassformer.checkpoints.handwriting import normalize_handwriting
from glassformer.checkpoints.origin import Origin
from glassformer.errors import CheckpointError, ConfigError, InputError

FILE, NESTED = "preprocessor_config.json", "processor_config.json"
LARGEST = 65536  # pixels per side
FILTERS = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "box": 4, "hamming": 5}
HALF, CLIP_MEAN, CLIP_STD = [0.5] * 3, [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]

# defaults of the image processor class that a file names
ALWAYS: dict[str, Any] = {"do_resize": True, "do_rescale": True, "do_normalize": True, "rescale_factor": 1 / 255}
SQUARE: dict[str, Any] = {"resample": 2, "image_mean": HALF, "image_std": HALF, "size": 224, "default_to_square": True}
SHORTEST: dict[str, Any] = {"resample": 3, "image_mean": CLIP_MEAN, "image_std": CLIP_STD, "size": 224}
SHORTEST |= {"crop_size": 224, "do_center_crop": True}
CLASSES: dict[str, dict[str, Any]] = {
    "ViT": SQUARE,
    "DeiT": SQUARE | {"resample": 3, "size": 256, "crop_size": 224, "do_center_crop": True},
    "CLIP": SHORTEST,
    "Bit": SHORTEST,
}
FAMILY_CLASSES = {"vit": "ViT", "ijepa": "ViT", "deit": "DeiT", "clip": "CLIP", "clip_vision": "CLIP"}
FAMILY_CLASSES |= {"dinov2": "Bit", "dinov2_with_registers": "Bit"}


@dataclass(frozen=True, kw_only=True)
class Preprocess:
    """The preprocessing steps, applied in this order; None skips a step.

    `resize` is (rows, columns) or the length of the shorter side; `crop` is (rows, columns). An image smaller than the
    crop is padded with black. Where a crop cannot be centred exactly, Hugging Face starts a pixel earlier
    (`odd="floor"`), torchvision at the even pixel (`odd="even"`).
    """

    resize: tuple[int, int] | int | None
    resample: int
    crop: tuple[int, int] | None
    scale: float | None
    mean: tuple[float, ...] | None
    std: tuple[float, ...] | None
    odd: Literal["floor", "even"] = "floor"
    handwriting: bool = False
    """Whether `normalize_handwriting` is applied before all other steps (`do_normalize_handwriting` in the file)."""

    def __post_init__(self) -> None:
        if len(self.mean or ()) != len(self.std or ()) or not all(self.std or ()):
            fact = f"image_mean is {self.mean} and image_std {self.std}"
            raise ConfigError(fact, "give the same number of values of each, and no std of 0")

    def __call__(self, image: Image.Image) -> Float[Tensor, "c H W"]:
        image = opaque(image, "L" if self.mean is not None and len(self.mean) == 1 else "RGB")
        if self.handwriting:
            image = normalize_handwriting(image)
        if self.resize is not None:
            rows, columns = self.resize if isinstance(self.resize, tuple) else shortest(image, self.resize)
            image = image.resize((columns, rows), resample=self.resample)
        if self.crop is not None:
            image = self._cropped(image, *self.crop)
        x = torch.from_numpy(np.array(image, dtype=np.float64)).reshape(image.height, image.width, -1)
        x = x if self.scale is None else x * self.scale
        if self.mean is not None and self.std is not None:
            x = (x - torch.tensor(self.mean, dtype=x.dtype)) / torch.tensor(self.std, dtype=x.dtype)
        return x.movedim(-1, 0).float().contiguous()

    def batch(self, images: Iterable[Image.Image]) -> Float[Tensor, "b c H W"]:
        made = [self(image) for image in images]
        shapes = sorted({tuple(one.shape[1:]) for one in made})
        if len(shapes) != 1:
            fact = f"images become {', '.join(f'{h}×{w}' for h, w in shapes) or 'nothing'}"
            raise InputError(fact, "give at least one image, and images of different sizes one by one")
        return torch.stack(made)

    def _cropped(self, image: Image.Image, rows: int, columns: int) -> Image.Image:
        left, top = (self._start(n, k) for n, k in ((image.width, columns), (image.height, rows)))
        return image.crop((left, top, left + columns, top + rows))  # black outside the image

    def _start(self, n: int, k: int) -> int:
        if self.odd == "floor":
            return (n - k) // 2
        return round((n - k) / 2) if n >= k else -((k - n) // 2)


def shortest(image: Image.Image, side: int) -> tuple[int, int]:
    """Return (rows, columns) that make the shorter side `side`; the longer side is rounded down."""
    short, long = sorted(image.size)
    longer = int(side * long / short)
    if longer > LARGEST:
        raise InputError(
            f"an image of {image.width}×{image.height} would be resized to {longer} pixels", "crop it first"
        )
    return (longer, side) if image.height > image.width else (side, longer)


def opaque(image: Image.Image, mode: str) -> Image.Image:
    """Composite transparent pixels onto white and convert to `mode`."""
    if "A" in image.getbands() or image.info.get("transparency") is not None:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert(mode)


def open_image(path: str | Path | IO[bytes]) -> Image.Image:
    """Open an image file and apply its EXIF orientation. 16 bits per channel are scaled to 8."""
    name = path if isinstance(path, str | Path) else "an image"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path) as image:
                upright = ImageOps.exif_transpose(image)
    except FileNotFoundError:
        raise InputError(f"there is no file {name}", "give an image file") from None
    except Exception as error:  # Pillow's readers raise arbitrary errors on damaged files
        known = "not an image" if isinstance(error, UnidentifiedImageError) else getattr(error, "strerror", None)
        reason = known or error
        raise InputError(f"{name} cannot be read ({str(reason)[:80]})", "give an image as PNG, JPEG, …") from None
    return _eight_bits(upright, name)


def image_of(value: Any) -> Image.Image:
    """Return a Pillow image of a Pillow image, an array (rows, columns[, channels]) or a tensor (channels, rows,
    columns), with integers from 0 to 255 (or 65,535 for 16 bits) or floats from 0 to 1."""
    if isinstance(value, Image.Image):
        return _eight_bits(value, "an image")
    if isinstance(value, Tensor):
        value = value.movedim(0, -1).numpy(force=True) if value.dim() == 3 else value.numpy(force=True)
    if not isinstance(value, np.ndarray) or value.ndim not in (2, 3):
        fact = f"a {type(value).__name__} is not an image"
        raise InputError(fact, "give a file, a Pillow image, an array or a tensor (channels, rows, columns)")
    x = value[..., 0] if value.ndim == 3 and value.shape[-1] == 1 else value
    if x.dtype.kind == "f":
        if not np.isfinite(x).all():
            raise InputError("an image has values that are not finite", "give floats from 0 to 1")
        if x.size and (x.min() < 0 or x.max() > 1):
            raise InputError("an image has float values outside 0 to 1", "give it without normalisation")
        x = np.rint(255 * x)
    elif x.dtype == np.uint16:
        x = np.rint(x / 257)
    elif x.dtype.kind not in "biu" or (x.size and not 0 <= int(x.min()) <= int(x.max()) <= 255):
        raise InputError(f"the image has dtype {x.dtype}", "give integers from 0 to 255 or floats from 0 to 1")
    return Image.fromarray(x.astype(np.uint8) * (255 if x.dtype == bool else 1))


def _eight_bits(image: Image.Image, name: object) -> Image.Image:
    """Scale 16 bits (0 to 65,535) or floats (0 to 1) to 8 bits; Pillow itself would clip them to white."""
    if not image.mode.startswith(("I", "F")):
        return image
    x = np.asarray(image)
    top = 1.0 if image.mode == "F" else 65535.0
    if x.size and not (float(x.min()) >= 0 and float(x.max()) <= top):
        fact = f"{name} has values from {float(x.min()):.4g} to {float(x.max()):.4g}"
        raise InputError(fact, f"save it with values from 0 to {top:.0f}")
    return Image.fromarray(np.rint(x.astype(np.float64) * (255 / top)).astype(np.uint8))


# ---- from files ------------------------------------------------------------------------------------------------------


def read_preprocess(origin: Origin) -> Preprocess:
    """Read the preprocessing of a model from preprocessor_config.json or timm's pretrained_cfg."""
    if origin.family.startswith("timm"):
        return of_timm(origin.raw)
    path, nested = origin.file(FILE), origin.file(NESTED)
    if path is None and nested is None:
        raise CheckpointError(f"{origin.folder} has no {FILE}", "download it from where the weights were published")
    raw = read_object(path) if path is not None else read_object(nested or origin.folder).get("image_processor", {})
    return of_hugging_face(raw, FAMILY_CLASSES.get(origin.family, ""))


def of_hugging_face(raw: Mapping[str, Any], usual: str = "") -> Preprocess:
    """Parse a Hugging Face preprocessor config; `usual` is the class if the file names none."""
    name = str(raw.get("image_processor_type") or raw.get("feature_extractor_type") or usual)
    for ending in ("Fast", "Pil", "ImageProcessor", "FeatureExtractor"):
        name = name.removesuffix(ending)
    if name not in CLASSES:
        raise ConfigError(
            f"the image processor {name[:60]!r} in {FILE} is not supported", f"supported: {', '.join(CLASSES)}"
        )
    if raw.get("do_pad"):
        raise ConfigError(f"do_pad is set in {FILE}", "supported: resize, center crop, rescale, normalize")
    present = {name: value for name, value in raw.items() if value is not None}
    given = ALWAYS | CLASSES[name] | present
    mean, std = (_numbers(given, key) if given["do_normalize"] else None for key in ("image_mean", "image_std"))
    square = bool(CLASSES[name].get("default_to_square", False))
    return Preprocess(
        resize=_size(given["size"], "size", square=square) if given["do_resize"] else None,
        resample=_filter(given["resample"]),
        crop=_sides(given["crop_size"], "crop_size") if given.get("do_center_crop") else None,
        scale=_number(given["rescale_factor"], "rescale_factor") if given["do_rescale"] else None,
        mean=mean,
        std=std,
        handwriting=given.get("do_normalize_handwriting") is True,
    )


def of_timm(raw: Mapping[str, Any]) -> Preprocess:
    """Resize the shorter side to ⌊size / crop_pct⌋, then center-crop, as timm does in evaluation."""
    given = raw.get("pretrained_cfg")
    if not isinstance(given, dict) or not {"input_size", "mean", "std"} <= given.keys():
        raise CheckpointError(
            "config.json has no pretrained_cfg with input_size, mean, std", "download the published one"
        )
    sizes = given["input_size"]
    rows, columns = _sides(sizes[1:] if isinstance(sizes, list | tuple) else sizes, "input_size")
    if rows != columns or given.get("crop_mode", "center") != "center":
        fact = f"images are cut to {rows}×{columns}, crop_mode {str(given.get('crop_mode'))[:40]!r}"
        raise ConfigError(fact, "only centre crops to squares are supported")
    share = _number(given.get("crop_pct", 0.875), "crop_pct")
    if not 0 < share <= 1:
        raise ConfigError(f"crop_pct is {share}", "it must be above 0, up to 1")
    return Preprocess(
        resize=math.floor(rows / share),
        resample=_filter(given.get("interpolation", "bicubic")),
        crop=(rows, columns),
        scale=1 / 255,
        mean=_numbers(given, "mean"),
        std=_numbers(given, "std"),
        odd="even",
    )


def _size(value: Any, name: str, *, square: bool) -> tuple[int, int] | int:
    """Return (rows, columns), or the length of the shorter side."""
    if isinstance(value, dict) and value.keys() == {"shortest_edge"}:
        return _whole(value["shortest_edge"], name)
    return _whole(value, name) if isinstance(value, int) and not square else _sides(value, name)


def _sides(value: Any, name: str) -> tuple[int, int]:
    if isinstance(value, dict) and value.keys() == {"height", "width"}:
        value = [value["height"], value["width"]]
    both = value if isinstance(value, list | tuple) and len(value) == 2 else [value, value]
    return _whole(both[0], name), _whole(both[1], name)


def _whole(value: Any, name: str) -> int:
    if type(value) is not int or not 1 <= value <= LARGEST:
        raise ConfigError(f"{name} is {str(value)[:60]!r}", f"it must be pixels, 1 to {LARGEST}, or height and width")
    return value


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigError(f"{name} is {str(value)[:60]!r}", "it must be a finite number")
    return float(value)


def _numbers(raw: Mapping[str, Any], name: str) -> tuple[float, ...]:
    value = raw[name]
    if not isinstance(value, list | tuple) or len(value) not in (1, 3):
        raise ConfigError(f"{name} is {str(value)[:60]!r}", "it must be a number for each of 1 or 3 channels")
    return tuple(_number(one, name) for one in value)


def _filter(value: Any) -> int:
    found = FILTERS.get(value) if isinstance(value, str) else value
    if type(found) is not int or found not in FILTERS.values():
        raise ConfigError(f"resample is {str(value)[:60]!r}", f"supported: {', '.join(FILTERS)} (0 to 5)")
    return found
