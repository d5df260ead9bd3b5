"""loss = −Σ log p(class | image): image classification."""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from glassformer.checkpoints import Preprocess, read_preprocess, save
from glassformer.checkpoints.native import replace_file
from glassformer.checkpoints.origin import Origin, origin_of, with_origin
from glassformer.checkpoints.preprocess import FILE
from glassformer.data import augment_images as change
from glassformer.data import remarks
from glassformer.data.faults import Fault, Faults
from glassformer.data.fingerprint import of_images
from glassformer.data.images import Images
from glassformer.data.order import batches
from glassformer.data.rows import Source
from glassformer.data.stream import Window
from glassformer.errors import ConfigError, InputError
from glassformer.models.protocols import Classifier, ImageModel, PatchModel, inputs_of, require
from glassformer.train.args import DEFAULT_STEPS, TrainArgs
from glassformer.train.examined import Examined, Misprediction, examine_classes
from glassformer.train.objective import Batch, TaskObjective
from glassformer.train.objectives import image_models
from glassformer.train.splits import base_model, split
from glassformer.train.transfer import retarget

BILINEAR = 2  # Pillow's constant; images are resized the same way in training and inference
ARCHITECTURES = ("hybrid", "vit", "cnn", "mlp", "rnn")
STRIDE = 4  # pixels between adjacent tokens of a hybrid
MAX_SIDE = 96  # pixels: larger images are scaled down to this unless --image-size is given
MAX_TOKENS = 4096
ERASED_FROM = 16  # pixels; in smaller images a rectangle hides too much
EPOCHS, TUNING_EPOCHS = 34.0, 10.0  # from scratch and when fine-tuning, unless DEFAULT_STEPS steps are fewer


@dataclass(frozen=True, kw_only=True)
class ImageAugmentation:
    """Image augmentations; 0 disables each of them.

    `crop`: random shift by up to this many pixels. `flip`: horizontal flip of half of the images. `affine`: rotation,
    translation, scaling and shear by up to this many times 10° and 10 %. `rand`: RandAugment of this strength with
    `rand_count` operations per image. `erase`: fraction of images with an erased rectangle. `mixup`: α of mixup.
    """

    crop: int = 0
    flip: bool = False
    affine: float = 0.0
    rand: float = 0.0
    rand_count: int = 1
    erase: float = 0.0
    mixup: float = 0.0
    needs: ClassVar[dict[str, str]] = {
        "rand": "rand_count",
        "rand_count": "rand",
    }  # its effect depends on

    def __post_init__(self) -> None:
        for name in ("crop", "affine", "rand", "rand_count", "erase", "mixup"):
            if getattr(self, name) < 0:
                raise ConfigError(f"augmentation {name} is {getattr(self, name)}", "choose 0 (none) or more")

    def __call__(self, X: Tensor, random: torch.Generator) -> Tensor:
        """Augment images with values from 0 to 1. Mixup is applied later, since it also changes the targets."""
        if self.affine:
            k = self.affine
            X = change.affine(X, random, degrees=10 * k, shift=0.1 * k, scale=0.1 * k, shear=0.1 * k)
        if self.crop:
            X = change.crop(X, random, margin=self.crop)
        if self.flip:
            X = change.flip(X, random)
        if self.rand:
            X = change.rand_augment(X, random, count=self.rand_count, strength=self.rand)
        return change.erase(X, random, share=self.erase) if self.erase else X


@dataclass(kw_only=True)
class ImageClassification(TaskObjective):
    """Cross-entropy objective on images of one size; evaluated by accuracy and loss on the validation images."""

    batch_unit = "images"

    train: Images
    val: Images
    mean: tuple[float, ...]
    std: tuple[float, ...]
    augment: ImageAugmentation = ImageAugmentation()
    label_smoothing: float = 0.0
    batch_size: int = 128
    seed: int = 0
    better: Literal["higher", "lower"] = "higher"

    def __post_init__(self) -> None:
        if self.train.labels != self.val.labels or self.train.shape != self.val.shape:
            fact = f"training images of {self.train.shape} and validation images of {self.val.shape} do not match"
            raise InputError(fact, "open the second with the labels, size and channels of the first")
        if not 0 <= self.label_smoothing < 1:
            raise ConfigError(f"label_smoothing is {self.label_smoothing}", "choose a number from 0 to 1, such as 0.1")
        if not len(self.mean) == len(self.std) == self.train.shape[0] or not all(self.std):
            fact = f"mean {self.mean} and std {self.std} for images of {self.train.shape[0]} channels"
            raise ConfigError(fact, "give one number per channel, and no std of 0")
        self.faults = Faults()

    def summary(self) -> str:
        _, high, wide = self.train.shape
        classes = f"{high} × {wide} in {len(self.labels)} classes"
        return f"{len(self.train):,} images of {classes}, {len(self.val):,} for validation"

    def save(self, model: nn.Module, folder: str | Path) -> Path:
        return save_images(model, folder, self.labels, self.preprocess)

    @property
    def labels(self) -> tuple[str, ...]:
        return self.train.labels

    def fingerprint(self) -> dict[str, object]:
        own = {"label_smoothing": self.label_smoothing, "augment": asdict(self.augment)}
        own |= {"batch_size": self.batch_size, "seed": self.seed}
        data = {"data": of_images(self.train), "val": of_images(self.val)}
        # rounded, since they are usually computed from the data and the summation order may differ between machines
        return data | own | {name: [f"{x:.6g}" for x in getattr(self, name)] for name in ("mean", "std")}

    @property
    def preprocess(self) -> Preprocess:
        """The preprocessing that prepares an image of any size for the model."""
        _, rows, columns = self.train.shape
        return Preprocess(
            resize=(rows, columns), resample=BILINEAR, crop=None, scale=1 / 255, mean=self.mean, std=self.std
        )

    def epoch(self, number: int) -> Sequence[Sequence[int]]:
        return batches(len(self.train), self.batch_size, self.seed, number)

    def batch(self, rows: Sequence[int], seed: int) -> Batch | None:
        found = self._read(self.train, rows)
        if found is None:
            return None
        X, y, _ = found
        random = torch.Generator().manual_seed(seed)
        X = self.augment(X, random)
        if not self.augment.mixup:
            return {"X": self._normal(X), "y": y}
        mixed = change.mixup(X, random, alpha=self.augment.mixup)
        return {"X": self._normal(mixed.images), "y": change.mixed_targets(y, mixed, len(self.labels))}

    def count(self, batch: Batch) -> float:
        return float(len(batch["X"]))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        logits = require(model, "classify").class_logits(batch["X"])
        return cross_entropy(logits, batch["y"], reduction="sum", label_smoothing=self.label_smoothing)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Return accuracy and mean cross-entropy on the validation images."""
        logits, y, _ = self.predict(model)
        right = int((logits.argmax(-1) == y).sum())
        return {"accuracy": right / len(y), "loss": float(cross_entropy(logits, y))}

    @torch.inference_mode()
    def predict(self, model: nn.Module) -> tuple[Tensor, Tensor, list[int]]:
        """Return the logits (n, classes) of the readable validation images, their classes (n,) and their rows."""
        training, place = model.training, next(model.parameters())
        model.eval()
        logits, classes, rows = [], [], list[int]()
        for start in range(0, len(self.val), 256):
            found = self._read(self.val, range(start, min(start + 256, len(self.val))))
            if found is not None:
                logits.append(require(model, "classify").class_logits(self._normal(found[0]).to(place)).float().cpu())
                classes.append(found[1])
                rows += found[2]
        model.train(training)
        if not classes:
            raise InputError("no validation image can be read", "; ".join(self.faults.summary()))
        return torch.cat(logits), torch.cat(classes), rows

    def examine(self, model: nn.Module) -> Examined:
        logits, y, rows = self.predict(model)

        def show(i: int, truth: str, answer: str, p: float) -> Misprediction:
            row = rows[i]
            picture = png(self.val.image(row))
            return Misprediction(place=self.val.files[row], truth=truth, answer=answer, score=p, picture=picture)

        return examine_classes(logits, y, self.labels, show)

    def _read(self, images: Images, rows: Sequence[int]) -> tuple[Tensor, Tensor, list[int]] | None:
        """Return images (b, c, h, w) from 0 to 1, their classes and rows; unreadable ones are recorded and skipped."""
        shape = images.shape

        def one(row: int) -> tuple[Tensor, int, int]:
            pixels = images.image(row)
            if tuple(pixels.shape) != shape:
                raise Fault(f"image of a different size (not {shape[1]}×{shape[2]})", images.files[row])
            return pixels, images.label(row), row

        found = self.faults.each(rows, one)
        self.faults.check()
        if not found:
            return None
        pixels, classes, kept = zip(*found, strict=True)
        return torch.stack(pixels).float() / 255, torch.tensor(classes), list(kept)

    def _normal(self, X: Tensor) -> Tensor:
        mean, std = (torch.tensor(numbers)[:, None, None] for numbers in (self.mean, self.std))
        return (X - mean) / std


def build(args: TrainArgs, first: Source, second: Source | None) -> tuple[nn.Module, ImageClassification]:
    """Build an image classifier and its objective from one folder per class or a table of files and labels."""
    args.reject("image classification", "vocab_size", "max_length")
    base = base_model(args, "an image classifier", _classifies_images)
    size, channels = _input_of(base, args.image_size)
    columns = args.column_names
    labels = Images.open(second, columns).labels if isinstance(first, Window) and second is not None else None
    images, notes = Images.open(first, columns, size=size, channels=channels, labels=labels), []
    if size is None:  # all images are resized to the size of the first, unless that is large
        _, high, wide = images.shape
        size = _default_size(high, wide)
        if size != (high, wide):
            notes.append(f"images of {high} × {wide} are resized to {size[0]} × {size[1]} (see --image-size)")
        images = Images.open(first, columns, size=size, channels=images.channels, labels=labels)
    _require_few_tokens(args.one_of(*ARCHITECTURES) if base is None else base, images.shape[1:])
    other = None
    if second is not None:
        other = Images.open(second, columns, size=images.shape[1:], channels=images.channels, labels=images.labels)
    images, val, faults = split(images, other, args.seed, [(k,) for k in images.targets.tolist()])
    mean, std = _normalisation(base) or statistics(images)
    usual: dict[str, float] = {"crop": max(1, images.shape[1] // 8), "flip": images.channels == 3}
    if base is None and min(images.shape[1:]) >= ERASED_FROM:
        usual["erase"] = 0.25
    objective = ImageClassification(
        train=images,
        val=val,
        mean=mean,
        std=std,
        augment=args.augmented(ImageAugmentation, **usual) or ImageAugmentation(),
        label_smoothing=0.1 if args.label_smoothing is None else args.label_smoothing,
        batch_size=args.batch_size or 64,
        seed=args.seed,
    )
    objective.faults.remember(faults)
    objective.described = "images", len(images)
    objective.understood, objective.notes = _understood(images, val), tuple(notes)
    most = EPOCHS if base is None else TUNING_EPOCHS
    objective.default_epochs = min(most, DEFAULT_STEPS * objective.batch_size / len(images))
    if base is None:
        if args.one_of(*ARCHITECTURES) == "hybrid":  # batch norms allow a higher rate than layer norms
            objective.default_lr = 2e-3
        return _new_model(args, images.shape, len(images.labels)), objective
    objective.default_lr = 3e-4
    return retarget(base, classes=len(images.labels), image=images.shape[1:], seed=args.seed), objective


def png(pixels: Tensor) -> bytes:
    """Encode uint8 pixels (channels, rows, columns) as a PNG file."""
    from PIL import Image

    whole = pixels.permute(1, 2, 0).numpy()
    file = io.BytesIO()
    Image.fromarray(whole[..., 0] if whole.shape[2] == 1 else whole).save(file, "PNG")
    return file.getvalue()


def _understood(images: Images, val: Images) -> tuple[str, ...]:
    shown = lambda i: f"{images.files[i]} → {images.labels[images.label(i)]}"
    return (
        images.rows.described(),
        *remarks.class_counts(images.labels, images.targets.tolist()),
        *remarks.examples(images.rows, shown),
        *remarks.small_validation(len(val)),
        *remarks.classes_not_validated(images.labels, images.targets.tolist(), val.targets.tolist()),
        *remarks.duplicate_files(images, val, "images"),
    )


def _classifies_images(model: nn.Module) -> bool:
    return isinstance(model, Classifier) and inputs_of(model) == ("image",)


def _new_model(args: TrainArgs, shape: image_models.Shape, classes: int) -> nn.Module:
    arch = args.one_of(*ARCHITECTURES)
    if arch in ("cnn", "rnn"):
        args.reject(f"--arch {arch}", "depth", "heads")
    elif arch == "mlp":
        args.reject("--arch mlp", "heads")
        if (args.depth or 0) > image_models.DEEPEST:
            raise ConfigError(f"--depth is {args.depth}", f"choose at most {image_models.DEEPEST} for --arch mlp")
    depth = args.depth or (2 if arch == "hybrid" else 4)
    size = image_models.Size(width=args.width or 64, depth=depth, heads=args.heads or 4)
    patch = _patch(shape[1], shape[2]) if arch == "vit" else STRIDE
    return image_models.build_image_model(arch, shape, classes, size, patch=patch, seed=args.seed)


def _default_size(rows: int, columns: int) -> tuple[int, int]:
    """Keep small image sizes; scale the longer side of large ones to MAX_SIDE, in multiples of 8 for patches."""
    longer = max(rows, columns)
    if longer <= MAX_SIDE:
        return rows, columns
    in_eights = lambda side: max(8, 8 * round(side * MAX_SIDE / longer / 8))
    return in_eights(rows), in_eights(columns)


def _require_few_tokens(model: nn.Module | str, size: tuple[int, int]) -> None:
    """Reject more than MAX_TOKENS tokens: attention is quadratic in their number, and a step would take minutes."""
    match model:
        case "vit":
            high = wide = _patch(*size)
        case "hybrid":
            high = wide = STRIDE
        case PatchModel():
            high, wide = model.patch_size
        case _:
            return
    tokens = -(-size[0] // high) * -(-size[1] // wide)
    if tokens > MAX_TOKENS:
        fact = f"images of {size[0]} × {size[1]} in patches of {high} × {wide} are {tokens:,} tokens"
        raise ConfigError(f"{fact}, more than {MAX_TOKENS:,}", f"choose a smaller --image-size, such as {MAX_SIDE}")


def _input_of(base: nn.Module | None, side: int | None) -> tuple[tuple[int, int] | None, int | None]:
    """Return the image size and channels of the model to fine-tune; --image-size overrides the size."""
    how = _preprocess_of(base)
    model = base if isinstance(base, ImageModel) else None
    size = (side, side) if side is not None else None if model is None else model.image_size
    if size is None and how is not None and isinstance(how.resize, tuple):  # a model without a grid of tokens
        size = how.resize
    return size, None if model is None else model.channels or None


def _preprocess_of(base: nn.Module | None) -> Preprocess | None:
    """Return the preprocessing of the model to fine-tune, if its folder defines one."""
    origin = None if base is None else origin_of(base)
    return None if origin is None or origin.file(FILE) is None else read_preprocess(origin)


def _normalisation(base: nn.Module | None) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """Return the mean and standard deviation that the model to fine-tune was trained with."""
    how = _preprocess_of(base)
    return None if how is None or how.mean is None or how.std is None else (tuple(how.mean), tuple(how.std))


def _patch(rows: int, columns: int) -> int:
    """Return the largest patch size up to 16 and a quarter of the image that divides it, giving 16 tokens or more."""
    sides = range(1, max(2, min(16, rows // 4, columns // 4) + 1))
    return max(p for p in sides if rows % p == 0 and columns % p == 0)


def statistics(images: Images, most: int = 2000) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return each channel's mean and standard deviation over up to `most` evenly spaced images, values from 0 to 1."""
    step = max(1, len(images) // most)
    read = Faults().each(range(0, len(images), step), images.image)
    pixels = torch.cat([x.flatten(1) for x in read], 1).double() / 255
    std = pixels.std(1).clamp_min(1e-3)  # in case a channel is constant
    return tuple(pixels.mean(1).tolist()), tuple(std.tolist())


def save_images(
    model: nn.Module, folder: str | Path, labels: Sequence[str], preprocess: Preprocess, *, half: bool = False
) -> Path:
    """Save a folder that `load` and `classify` accept: weights (float16 if `half`), class names, preprocessing."""
    folder, count = Path(folder), require(model, "classify").classes
    if count != len(labels):
        raise InputError(f"there are {len(labels)} labels for {count} classes", "give one for each class")
    before = origin_of(model)
    raw = {**(before.raw if before is not None and not before.family else {})}
    raw |= {"id2label": {str(i): name for i, name in enumerate(labels)}}
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(_described(preprocess), indent=1) + "\n"
    replace_file(folder / FILE, lambda path: path.write_text(text, encoding="utf-8"))
    with_origin(model, Origin(folder=folder, raw=raw))
    return save(copy.deepcopy(model).half() if half else model, folder)


def _described(how: Preprocess) -> dict[str, object]:
    """Describe the preprocessing in the format of Hugging Face's preprocessor_config.json, with every step."""
    if how.mean is None or how.std is None or how.scale is None or not isinstance(how.resize, tuple):
        raise ConfigError(f"the preprocessing {how} is incomplete", "give a size, a scale, a mean and a std")
    sides = lambda pair: {"height": pair[0], "width": pair[1]}
    crop = {"do_center_crop": True, "crop_size": sides(how.crop)} if how.crop else {"do_center_crop": False}
    return {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "size": sides(how.resize),
        "resample": how.resample,
        **crop,
        "do_rescale": True,
        "rescale_factor": how.scale,
        "do_normalize": True,
        "image_mean": list(how.mean),
        "image_std": list(how.std),
        **({"do_normalize_handwriting": True} if how.handwriting else {}),
    }
