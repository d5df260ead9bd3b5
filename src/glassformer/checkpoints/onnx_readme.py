"""The page beside an exported .onnx file: inputs and their preprocessing, the output, and a program to run it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor, nn

from glassformer.checkpoints.files import read_object
from glassformer.checkpoints.origin import Origin, origin_of, reads_pairs
from glassformer.checkpoints.preprocess import FILTERS, Preprocess, read_preprocess
from glassformer.checkpoints.temperature import FOLDED
from glassformer.errors import GlassError
from glassformer.models import Encoder
from glassformer.models.protocols import context_length

TOKENIZER = "tokenizer.json"
SYMBOLS = "symbols.json"  # of a speech recogniser: the symbols of the logits, and the log-mel frames
SIZES = dict.fromkeys(("tokens", "real", "segments", "source", "target"), "batch × tokens")
MEANING = {
    "tokens": "token ids by `tokenizer.json`",
    "source": "token ids of the source text by `tokenizer.json`",
    "target": "token ids so far",
    "real": "False at padding",
    "segments": "which of two texts a token belongs to, 0 or 1",
    "image": "pixels after preprocessing",
    "frames": "log-mel frames",
}


def companion_name(path: Path, name: str) -> str:
    """Return the name of a companion of an .onnx file: several models can be exported to one folder."""
    return f"{path.stem}.{name}"


def onnx_readme(
    path: Path, model: nn.Module, example: Mapping[str, Tensor], output: str, temperature: float | None = None
) -> str:
    """Return the page as Markdown."""
    origin = origin_of(model)
    assert origin is not None
    named = lambda text: text.replace(TOKENIZER, companion_name(path, TOKENIZER)).replace(
        SYMBOLS, companion_name(path, SYMBOLS)
    )
    problem = _problem(model, origin)
    fixed = origin.file(SYMBOLS) is None  # Whisper's windows of 30 s
    rows = [
        f"| `{name}` | {str(x.dtype).removeprefix('torch.')} | {_shape(name, x, fixed=fixed)} | {MEANING[name]} |"
        for name, x in example.items()
    ]
    parts = [
        f"# {path.name}",
        f"Output `output`: {output}, float32. Exported by Glassformer.",
        named("## Inputs\n| name | type | shape | meaning |\n|---|---|---|---|\n" + "\n".join(rows)),
        named("## Preprocessing\n" + _preprocessing(model, origin, example)),
    ]
    if output == "class logits":
        calibrated = "They are not calibrated." if temperature is None else FOLDED.format(temperature)
        parts.append(f"## Probabilities\n{PROBABILITIES[problem][0]}{f' {calibrated}' * (problem != 'regression')}")
    labels = origin.raw.get("id2label")
    if isinstance(labels, dict) and output == "class logits":
        listed = "\n".join(f"| {i} | {label} |" for i, label in labels.items())
        parts.append(f"## Labels\n| index | label |\n|---|---|\n{listed}")
    program = _program(path, model, origin, example)
    if program:
        scores = PROBABILITIES[problem][1] if output == "class logits" else ""
        parts.append(f"## Run it\n```python\n{named(program)}{scores}```")
    return "\n\n".join(parts) + "\n"


def _shape(name: str, x: Tensor, *, fixed: bool) -> str:
    if name == "frames" and not fixed:
        return f"batch × frames × {x.shape[2]}; frames a multiple of `stack` in `symbols.json`"
    return SIZES.get(name) or "batch × " + " × ".join(map(str, x.shape[1:]))


def _problem(model: nn.Module, origin: Origin) -> str:
    """Return what the class logits are, as `classify` reads them."""
    single = getattr(model, "classes", 0) == 1
    default = "multi_label_classification" if single else "single_label_classification"
    stated = origin.raw.get("problem_type")
    return stated if stated in PROBABILITIES else default


def _max_length(model: nn.Module, origin: Origin) -> int | None:
    """Return the number of tokens that an encoder's texts are truncated to, special tokens included; or None."""
    if not isinstance(model, Encoder):
        return None
    path = origin.file("sentence_bert_config.json")
    stated = read_object(path).get("max_seq_length") if path is not None else None
    limits = [n for n in (stated, context_length(model)) if isinstance(n, int)]
    return min(limits, default=None)


def _preprocessing(model: nn.Module, origin: Origin, example: Mapping[str, Tensor]) -> str:
    lines = []
    if "image" in example:
        try:
            lines += [f"{i}. {line}" for i, line in enumerate(_image_steps(read_preprocess(origin)), 1)]
        except GlassError as error:
            lines.append(f"Not known: {error}.")
    if example.keys() & {"tokens", "source"}:
        if origin.tokenizer is None:
            lines.append("Texts become token ids by the tokenizer of the model's folder.")
        else:
            lines.append("Texts become token ids, special tokens included, by `tokenizer.json` (library `tokenizers`).")
        if "tokens" in example and (most := _max_length(model, origin)) is not None:
            lines.append(f"Texts of more than {most} tokens, special tokens included, are truncated to {most}.")
    if isinstance(model, Encoder) and model.config.classes:
        if model.config.per_token:
            lines.append(
                r"Texts are split into words and punctuation marks by the regular expression `\w+|[^\w\s]`, which are "
                "joined by single spaces before they become tokens. The output has a row for every token; the row of a "
                "word is that of its first token. All other rows have no meaning."
            )
        elif reads_pairs(model):
            lines.append("The model was trained on pairs of texts: the two texts are encoded together, as below.")
        elif model.config.text.segments > 1:
            lines.append("The file has no input of segments: it classifies single texts, not pairs.")
    if "frames" in example and origin.file(SYMBOLS) is not None:
        lines.append(
            "Recordings of 16 kHz become log-mel frames with the parameters `mel` of `symbols.json`, as the program "
            "below computes them. Column 0 of the output is the blank of CTC, column i + 1 character i of `symbols`. "
            "The program takes the best column of every row; `glassformer transcribe` searches for words and streams."
        )
    elif "frames" in example:
        lines.append("Recordings become log-mel frames as `preprocessor_config.json` in the model's folder says.")
    return "\n".join(lines)


def _image_steps(p: Preprocess) -> list[str]:
    """Describe the steps of `Preprocess.__call__`, in its order."""
    gray = p.mean is not None and len(p.mean) == 1
    filters = {number: name for name, number in FILTERS.items()}
    steps = [f"Put transparent pixels on white and convert to {'grayscale' if gray else 'RGB'}."]
    if p.handwriting:
        steps.append(
            "Normalise handwriting as MNIST was made: white on black, scaled to 20 × 20 pixels, centred by mass in "
            "28 × 28 (`glassformer.checkpoints.handwriting`)."
        )
    if isinstance(p.resize, tuple):
        steps.append(f"Resize to {p.resize[0]} × {p.resize[1]} (rows × columns), {filters[p.resample]} (Pillow).")
    elif p.resize is not None:
        steps.append(f"Resize the shorter side to {p.resize} pixels, {filters[p.resample]} (Pillow).")
    if p.crop is not None:
        steps.append(f"Crop {p.crop[0]} × {p.crop[1]} pixels from the centre.")
    if p.scale is not None:
        steps.append(f"Multiply by {p.scale:.10g}.")
    if p.mean is not None and p.std is not None:
        steps.append(f"Subtract the mean {list(p.mean)} and divide by the standard deviation {list(p.std)}.")
    return [*steps, "Order the axes as channels × rows × columns."]


def _program(path: Path, model: nn.Module, origin: Origin, example: Mapping[str, Tensor]) -> str:
    """Return a program for a classifier, a text encoder or a recogniser; it needs onnxruntime but not Glassformer."""
    start = f'import numpy as np\nimport onnxruntime\n{{}}\nsession = onnxruntime.InferenceSession("{path.name}")\n'
    if example.keys() == {"image"}:
        try:
            p = read_preprocess(origin)
        except GlassError:
            return ""
        if p.handwriting or p.crop is not None or not isinstance(p.resize, tuple) or p.mean is None or p.std is None:
            return ""
        mode = "L" if len(p.mean) == 1 else "RGB"
        return start.format("from PIL import Image\n") + (
            'image = Image.open("picture.png").convert("RGBA")\n'
            'white = Image.new("RGBA", image.size, "white")\n'
            f'image = Image.alpha_composite(white, image).convert("{mode}")\n'
            f"image = image.resize(({p.resize[1]}, {p.resize[0]}), resample={p.resample})\n"
            f"x = np.asarray(image, dtype=np.float64).reshape({p.resize[0]}, {p.resize[1]}, -1) * {p.scale or 1.0!r}\n"
            f"x = ((x - {list(p.mean)}) / {list(p.std)}).transpose(2, 0, 1)[None].astype(np.float32)\n"
            'output = session.run(None, {"image": x})[0]\n'
        )
    if example.keys() == {"frames"} and origin.file(SYMBOLS) is not None:
        return start.format("import json\nimport wave\n") + SPEECH
    if example.keys() in ({"tokens", "real"}, {"tokens", "real", "segments"}) and origin.tokenizer is not None:
        second = ', "Another sentence."' * reads_pairs(model)
        segments = ', "segments": np.array([found.type_ids])' * ("segments" in example)
        most, per_token = _max_length(model, origin), bool(getattr(model, "per_token", False))
        imports = "import re\n" * per_token + "from tokenizers import Tokenizer\n"
        return start.format(imports) + (
            'tokenizer = Tokenizer.from_file("tokenizer.json")\n'
            "tokenizer.no_padding()\n"
            + (f"tokenizer.enable_truncation({most})\n" if most is not None else "tokenizer.no_truncation()\n")
            + (WORDS if per_token else f'found = tokenizer.encode("A sentence."{second})\n')
            + "tokens = np.array([found.ids])\n"
            + f'feed = {{"tokens": tokens, "real": np.ones_like(tokens, dtype=bool){segments}}}\n'
            + "output = session.run(None, feed)[0]\n"
            + (FIRST_TOKENS if per_token else "")
        )
    return ""


# what the class logits mean, and lines of the program that compute it
PROBABILITIES = {
    "single_label_classification": (
        "p = softmax(output) over the classes, which sum to 1.",
        "p = np.exp(output - output.max(-1, keepdims=True))\np /= p.sum(-1, keepdims=True)\n",
    ),
    "multi_label_classification": (
        "p = sigmoid(output) of every label by itself; labels with p > 0.5 apply.",
        "p = 1 / (1 + np.exp(-output))\n",
    ),
    "regression": ("The output is the predicted number itself.", ""),
}

WORDS = r"""words = re.findall(r"\w+|[^\w\s]", "A sentence.")
found = tokenizer.encode(" ".join(words))
"""

FIRST_TOKENS = """rows, at = {}, 0  # first token: index of its word
for k, word in enumerate(words):
    own = (i for i, (a, b) in enumerate(found.offsets) if max(a, at) < min(b, at + len(word)) and i not in rows)
    if (first := next(own, None)) is not None:  # truncated words have none
        rows[first] = k
    at += len(word) + 1
words, output = [words[k] for k in rows.values()], output[0, list(rows)]
"""


SPEECH = """with open("symbols.json", encoding="utf-8") as file:
    about = json.load(file)
m = about["mel"]
with wave.open("recording.wav") as file:  # 16 kHz, one channel, 16 bits
    x = np.frombuffer(file.readframes(file.getnframes()), "<i2") / 32768
x = np.pad(x, (m["window"] - m["hop"], -len(x) % (m["hop"] * about["stack"])))
frames = np.lib.stride_tricks.sliding_window_view(x, m["window"])[:: m["hop"]]
hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(m["window"]) / m["window"])
power = np.abs(np.fft.rfft(frames * hann)) ** 2
mel_of = lambda f: 3 * f / 200 if f < 1000 else 15 + 27 * np.log(f / 1000) / np.log(6.4)
mels = np.linspace(mel_of(m["low"]), mel_of(m["high"]), m["bands"] + 2)
corners = np.where(mels < 15, 200 * mels / 3, 1000 * np.exp((mels - 15) * np.log(6.4) / 27))
bins = np.arange(m["window"] // 2 + 1) * m["rate"] / m["window"]
rise = (bins - corners[:-2, None]) / np.diff(corners)[:-1, None]
fall = (corners[2:, None] - bins) / np.diff(corners)[1:, None]
W = np.minimum(rise, fall).clip(0) * (2 / (corners[2:] - corners[:-2]))[:, None]
x = (np.log10(np.maximum(power @ W.T, m["floor"])) + 4) / 4
output = session.run(None, {"frames": x[None].astype(np.float32)})[0]
best = output[0].argmax(-1).tolist()
text = "".join(about["symbols"][i - 1] for i, before in zip(best, [0, *best]) if i not in (0, before))
"""
