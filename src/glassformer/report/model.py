"""A model run on one input, as plain data and small arrays, for the Model room of the workbench.

A `Look` holds one traced run. Its maps are uint8 arrays, max-pooled to the size at which they are drawn, so that 1,000
tokens and 144 heads stay small; rows of A include the scores and coordinates they are computed from.
"""

from __future__ import annotations

import io
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer import lens
from glassformer.errors import GlassError, InputError
from glassformer.lens import HeadTable
from glassformer.models import protocols
from glassformer.pipelines.classify import distribution_warning, image_logits, labels_of
from glassformer.pipelines.tokenizers import optional_tokenizer, token_name
from glassformer.pipelines.transcribe import transcribe
from glassformer.pipelines.translate import translate
from glassformer.progress import report
from glassformer.report.inputs import Inputs, is_file, prepare_inputs
from glassformer.report.model_report import score_run_heads
from glassformer.report.paper import to_data

THUMB = 48
"""Side of a head's thumbnail."""
BEST = 8
"""Answers that are listed."""
ALIGNED = 0.5
"""Least weight for which a head is called an alignment, or is named after the neighbour that it attends to."""
AUDIO = (".wav", ".flac", ".ogg", ".oga")
Change = Literal["off", "uniform", "self", "first"]
CHANGES: dict[Change, str] = {
    "off": "output set to 0",
    "uniform": "attends evenly to all keys",
    "self": "attends only to itself",
    "first": "attends only to the first token",
}


@dataclass(frozen=True, kw_only=True)
class Given:
    """Input of a model: texts, or the bytes of an image or a recording."""

    texts: tuple[str, ...] = ()
    file: bytes | None = None
    suffix: str = ""

    def require(self, *, pixels: int, seconds: float) -> None:
        """Raise InputError if the image or recording is larger than allowed, before decoding it."""
        if self.file is None:
            return
        if self.suffix in AUDIO:
            import soundfile

            try:
                length = soundfile.info(io.BytesIO(self.file)).duration
            except (RuntimeError, TypeError):
                raise InputError("the recording cannot be read", "give a WAV, FLAC or Ogg file") from None
            if length > seconds:
                raise InputError(f"the recording takes {length:.0f} seconds", f"give at most {seconds:g}")
            return
        from PIL import Image, UnidentifiedImageError

        try:
            with Image.open(io.BytesIO(self.file)) as image:
                width, height = image.size
        except Image.DecompressionBombError:
            raise InputError("the image has too many pixels", f"give at most {pixels:,}") from None
        except (UnidentifiedImageError, OSError, ValueError):
            raise InputError("the image cannot be read", "give a PNG or JPEG file") from None
        if width * height > pixels:
            raise InputError(f"the image has {width * height:,} pixels", f"give at most {pixels:,}")

    @contextmanager
    def arguments(self) -> Iterator[list[str]]:
        """Yield the arguments of `prepare_inputs`; a temporary file exists only within the context."""
        if self.file is None:
            yield list(self.texts)
            return
        with tempfile.NamedTemporaryFile(suffix=self.suffix) as file:
            file.write(self.file)
            file.flush()
            yield [file.name, *self.texts]


def given_from(inputs: Sequence[str | Path]) -> Given:
    """Return the inputs of `gf.look` as data: an image or audio file is read, everything else is text."""
    files = [Path(one) for one in inputs if is_file(str(one))]
    texts = tuple(str(one) for one in inputs if not is_file(str(one)))
    if not files:
        return Given(texts=texts)
    return Given(texts=texts, file=files[0].read_bytes(), suffix=files[0].suffix.lower())


class Look:
    """One traced input: the layers, what each head does, and the model's answer."""

    def __init__(self, name: str, model: nn.Module, given: Given, *, most_tokens: int = 1024) -> None:
        self.name, self.model, self.given = name, model, given
        self._largest: dict[tuple[str, int], float] = {}
        self._last: tuple[tuple[str, int], NDArray[np.float32]] | None = None
        report("Running the model")
        with torch.inference_mode(), given.arguments() as arguments:
            self.prepared: Inputs = prepare_inputs(model, arguments[:1] if self._compares else arguments)
            longest = max(x.shape[1] for x in self.prepared.tensors if x.dim() == 2) if self._is_text else 0
            if longest > most_tokens:
                raise InputError(f"the text has {longest:,} tokens", f"give at most {most_tokens:,}")
            watched = [f"{path}.{symbol}" for path in lens.attention_layers(model) for symbol in "QKVSAH"]
            if not watched:
                raise InputError(f"a {type(model).__name__} has no attention to show", "choose another model")
            with lens.trace(model, *watched) as self.run:
                self.out: Tensor = model(*self.prepared.tensors)

    @property
    def _compares(self) -> bool:
        """Whether the model embeds single texts, in which case a second text only serves for comparison."""
        return protocols.inputs_of(self.model) == ("text",) and "embed" in protocols.verbs(self.model)

    @property
    def _is_text(self) -> bool:
        return not self.prepared.tensors[0].is_floating_point()

    @cached_property
    def layers(self) -> dict[str, Any]:
        """Attention layers that were executed, by path."""
        return {path: layer for path, layer in lens.attention_layers(self.model).items() if f"{path}.A" in self.run}

    def summary(self) -> dict[str, Any]:
        """Return architecture, input, layers, heads sorted by what they do, and the answer."""
        image = self.prepared.image
        return {
            "model": self.name,
            "architecture": type(self.model).__name__,
            "parameters": sum(weight.numel() for weight in self.model.parameters()),
            "facts": protocols.sizes_of(self.model),
            "inputs": list(protocols.inputs_of(self.model)),
            "verbs": list(protocols.verbs(self.model)),
            "texts": list(self.given.texts) or [""],
            "title": self.prepared.title if self.given.file is None else f"your {protocols.inputs_of(self.model)[0]}",
            "notes": [*self.prepared.notes, *self._warnings()],
            "grid": list(self.prepared.grid) if self.prepared.grid else None,
            "prefix": self._prefix() if self.prepared.grid else 0,
            "image": None if image is None else (image[..., :3] * 255).round().astype(int).tolist(),
            "labels": self.prepared.labels,
            "layers": [self._layer(path) for path in self.layers],
            "heads": self.heads(),
            "answer": self.answer(),
            "changes": dict(CHANGES),
        }

    def _warnings(self) -> list[str]:
        """Warnings if an image is out of distribution, or a text longer than the model's context."""
        context, longest = protocols.context_length(self.model), max(map(len, self.prepared.labels.values()), default=0)
        if protocols.inputs_of(self.model)[:1] == ("text",) and context is not None and longest > context:
            return [f"The text has {longest} tokens; the model was trained on at most {context}."]
        if protocols.inputs_of(self.model) != ("image",) or "classify" not in protocols.verbs(self.model):
            return []
        with torch.inference_mode():
            _, distance, threshold = image_logits(self.model, *self.prepared.tensors)
        text = distribution_warning(distance, threshold)
        return [f"The image is {text}."] if text else []

    def _prefix(self) -> int:
        rows, columns = self.prepared.grid or (0, 0)
        return len(self.prepared.labels.get("encoder", [])) - rows * columns

    def _layer(self, path: str) -> dict[str, Any]:
        weights = self.run.passes(f"{path}.A")[-1]
        _, heads, queries, keys = weights.shape
        own, others = self.prepared.labels_of(path)
        return {
            "path": path,
            "heads": heads,
            "queries": queries,
            "keys": keys,
            "beta": float(self.layers[path].beta),
            "causal": bool(getattr(weights, "causal", False)),
            "query_labels": own or [self._frame(i) for i in range(queries)],
            "key_labels": others or [self._frame(i) for i in range(keys)],
            "grid": list(self.prepared.grids[path]) if path in self.prepared.grids else None,
        }

    def _frame(self, i: int) -> str:
        return f"{i * self.prepared.seconds:.2f} s" if self.prepared.seconds else str(i + 1)

    def heads(self) -> list[dict[str, Any]]:
        """Return every head and its behaviour, sorted.

        First come heads that align two sequences, then the behaviours, clearest first, then heads without a label, and
        last those that attend to everything almost evenly.
        """
        found: dict[tuple[str, int], tuple[str, float]] = {}
        report("Sorting the heads")
        try:
            for row in self._scored():
                found[row.path.removesuffix(".A"), row.head] = (row.label, row.score.excess if row.score else 0.0)
        except GlassError:
            pass  # the input is too short to score heads
        made: list[dict[str, Any]] = []
        for path in self.layers:
            covers = self._coverage(path) if ".cross" in path else []
            neighbours = self._neighbours(path) if path in self.prepared.grids else []
            for head in range(self.run.passes(f"{path}.A")[-1].shape[1]):
                label, excess = found.get((path, head), ("", 0.0))
                if covers and not label:
                    label, excess = "alignment" if covers[head] >= ALIGNED else "", covers[head]
                if neighbours and not label:
                    label, excess = neighbours[head]
                made.append({"path": path, "head": head, "label": label, "score": round(excess, 3)})
        clearest: dict[str, float] = {}
        for each in made:
            clearest[each["label"]] = max(clearest.get(each["label"], 0.0), each["score"])

        def order(each: dict[str, Any]) -> tuple[bool, bool, bool, float, str, float]:
            label = each["label"]
            even = label in ("diffuse", "global")
            return label != "alignment", even, not label, -clearest[label], label, -each["score"]

        return sorted(made, key=order)

    def _coverage(self, path: str) -> list[float]:
        """Return the largest weight that a word gets from any query, averaged over words, per head of cross-attention.

        It is 1 if every word has a query that attends only to it.
        """
        labels = self._layer(path)["key_labels"]
        words = [i for i, label in enumerate(labels) if _word(label)[0] != "<" and any(map(str.isalnum, label))]
        A = self.run.part(f"{path}.A")[0].float()
        return [float(x) for x in A[:, :, words or slice(None)].amax(1).mean(-1)]

    def _neighbours(self, path: str) -> list[tuple[str, float]]:
        """Return the neighbour with the most weight on average over cells ("above left", or "self"), and this weight.

        One pair per head of a layer on a grid of cells with a ring around it; an empty name if no neighbour is clear.
        """
        rows, columns = self.prepared.grids[path]
        A = self.run.part(f"{path}.A")[0].float().unflatten(-1, (rows + 2, columns + 2)).unflatten(1, (rows, columns))
        cell, line = torch.arange(columns), torch.arange(rows)[:, None]
        made = []
        for head in A:
            mean = {
                " ".join(filter(None, (vertical, side))) or "self": float(head[line, cell, line + i, cell + j].mean())
                for i, vertical in enumerate(("above", "", "below"))
                for j, side in enumerate(("left", "", "right"))
            }
            best = max(mean, key=lambda name: mean[name])
            made.append((best, mean[best]) if mean[best] >= ALIGNED else ("", 0.0))
        return made

    def _scored(self) -> HeadTable:
        return score_run_heads(self.model, self.run, self.prepared)

    # -- arrays --------------------------------------------------------------------------------------------------------

    def _weights(self, path: str, head: int) -> NDArray[np.float32]:
        self._known(path, head)
        last = self._last  # its map, its row and its largest weight are requested together
        if last is None or last[0] != (path, head):
            self._last = last = (path, head), self.run.part(f"{path}.A", heads=[head])[0, 0].detach().float().numpy()
        return last[1]

    def largest(self, path: str, head: int) -> float:
        """Return the largest weight of a head: the end of its map's colour scale."""
        if (path, head) not in self._largest:
            self._largest[path, head] = float(self._weights(path, head).max())
        return self._largest[path, head]

    def _known(self, path: str, head: int, query: int = 0) -> None:
        if path not in self.layers:
            raise InputError(f"there is no layer {path[:60]!r}", f"choose one of {', '.join(self.layers)}")
        _, heads, queries, _ = self.run.passes(f"{path}.A")[-1].shape
        if not (0 <= head < heads and 0 <= query < queries):
            raise InputError(
                f"{path} has no head {head} or no query {query}",
                f"it has {heads} heads and {queries} queries, counted from 0",
            )

    def thumbnails(self) -> NDArray[np.uint8]:
        """Return maps (heads, side, side) of all heads in layer order, with brightness √(weight/largest)."""
        made = []
        for path in self.layers:
            A = self.run.part(f"{path}.A")[0].detach().float()
            size = min(A.shape[1], THUMB), min(A.shape[2], THUMB)
            made += [_shade(head.numpy()) for head in torch.nn.functional.adaptive_max_pool2d(A, size)]
        side = max(max(each.shape) for each in made)
        out = np.zeros((len(made), side, side), np.uint8)
        for i, each in enumerate(made):
            out[i] = _stretch(each, side)
        return out

    def map(self, path: str, head: int, side: int) -> NDArray[np.uint8]:
        """Return A of one head, max-pooled to at most `side` rows and columns, with brightness √(weight/largest)."""
        return _shade(pool(self._weights(path, head), side), self.largest(path, head))

    def region(self, path: str, head: int, top: int, left: int, height: int, width: int) -> NDArray[np.uint8]:
        """Return a region of A at full resolution, on the same brightness scale as the whole map."""
        self._known(path, head)
        _, _, queries, keys = self.run.passes(f"{path}.A")[-1].shape
        if not (0 <= top < queries and 0 <= left < keys):
            raise InputError(f"a region at {top}, {left} is outside a map of {queries}×{keys}", "choose one inside")
        rows = slice(top, min(top + height, queries))
        part = self.run.part(f"{path}.A", heads=[head], rows=rows)[0, 0, :, left : left + width]
        return _shade(part.float().numpy(), self.largest(path, head))

    # -- one row -------------------------------------------------------------------------------------------------------

    def row(self, path: str, head: int, query: int, most: int = 12) -> dict[str, Any]:
        """Return one query: the keys of largest weight with scores and values, q·k by coordinate, and the output h.

        `k` and `q` hold the coordinates in which q·k is largest, `v` and `h` those in which h is.
        """
        self._known(path, head, query)
        weights = self.run.part(f"{path}.A", heads=[head], rows=[query])[0, 0, 0].double()
        scores, q, K, V = (part.double() for part in self._vectors(path, head, query))
        beta = float(self.layers[path].beta)
        seen = int(scores.isfinite().sum())  # masked keys sort last and are not listed
        order = weights.argsort(descending=True)[: min(most, seen)].tolist()
        products = K[order] * q
        chosen = products.abs().amax(0).argsort(descending=True)[:4].tolist()
        labels = self._layer(path)["key_labels"]
        h = weights @ V
        shown = h.abs().argsort(descending=True)[:2].sort().values
        return {
            "path": path,
            "head": head,
            "query": query,
            "label": self._layer(path)["query_labels"][query],
            "beta": beta,
            "coordinates": chosen,
            "width": q.shape[0],
            "q": [q[c].item() for c in chosen],
            "value_coordinates": shown.tolist(),
            "value_width": V.shape[1],
            "h": h[shown].tolist(),
            "keys": [
                {
                    "index": s,
                    "label": labels[s],
                    "weight": weights[s].item(),
                    "score": scores[s].item(),
                    "product": products[n].sum().item(),
                    "bias": scores[s].item() - beta * products[n].sum().item(),
                    "by_coordinate": [products[n, c].item() for c in chosen],
                    "k": [K[s, c].item() for c in chosen],
                    "v": V[s, shown].tolist(),
                }
                for n, s in enumerate(order)
            ],
            "largest": self.largest(path, head),
            "others": {"count": seen - len(order), "weight": 1 - weights[order].sum().item()},
            "all": [round(weight, 6) for weight in weights.tolist()],
        }

    def _vectors(self, path: str, head: int, query: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the scores and the query of one row, and the keys and values of its head."""
        scores = self.run.part(f"{path}.S", heads=[head], rows=[query])[0, 0, 0]
        keys, values = self.run[f"{path}.K"][0], self.run[f"{path}.V"][0]
        group = head * keys.shape[0] // self.layers[path].config.heads
        return scores, self.run[f"{path}.Q"][0, head, query], keys[group], values[group]

    def on_paper(self, path: str, head: int, query: int, keys: int = 5, coordinates: int = 2) -> dict[str, Any]:
        """Return the row as an exercise whose solution is the head's own weights, labelled with the model's tokens."""
        self._known(path, head, query)
        made = lens.paper_row(self.run, path, head, query, keys, coordinates)
        layer = self._layer(path)
        names = [_word(layer["key_labels"][s]) for s in made.keys] + (["the others"] if made.others else [])
        word = _word(layer["query_labels"][query])
        data = to_data(made.exercise)
        for symbol in "QKV":
            data[symbol] = [[_finite(number) for number in line] for line in data[symbol]]
        data["title"] = f"What does “{word}” look at in {self.name}?"
        data["text"] = (
            f"Head {head + 1} of {_layer_name(path)} in {self.name}: the {len(made.keys)} heaviest keys"
            + (f", {made.others} others as one" if made.others else "")
            + f"; coordinates {', '.join(str(c + 1) for c in made.coordinates)}, and the rest of each score as another."
        )
        return {"exercise": {**data, "labels": [*names, word]}, "weights": list(made.weights)}

    # -- answers -------------------------------------------------------------------------------------------------------

    def answer(self) -> dict[str, Any]:
        """Return the model's answer: classes, next tokens, a translation, a transcript, or similar texts."""
        return self._unedited[0]

    @cached_property
    def _unedited(self) -> tuple[dict[str, Any], dict[str, float]]:
        return self._answer()

    def _answer(self, edited: Callable[[], Any] | None = None) -> tuple[dict[str, Any], dict[str, float]]:
        """Return the answer and the probability (or cosine) of every candidate; `edited` edits heads."""
        model: Any = self.model
        verbs = protocols.verbs(model)
        report("Running the model with the change" if edited else "Computing the answer")
        with torch.inference_mode(), edited() if edited else torch.no_grad():
            if "transcribe" in verbs:
                text = self._transcript() if edited or not self.prepared.answer else self.prepared.answer
                return {"kind": "text", "heading": "Transcript", "text": text, "options": []}, {}
            out = model(*self.prepared.tensors) if edited else self.out
            text = str(translate(model, self.given.texts[0])) if "translate" in verbs else ""
            if "classify" in verbs and not self._is_text:
                logits = image_logits(model, *self.prepared.tensors)[0]
                kind, heading = "options", "Predicted classes"
                shares = _named(logits, labels_of(model).__getitem__)
            elif "generate" in verbs:
                words = optional_tokenizer(model)
                logits = model.token_logits(out) if isinstance(model, protocols.TokenPredictor) else out
                kind, heading = "options", "Predicted next token"
                shares = _named(logits[0, -1], lambda token: token_name(words, token))
            else:
                kind, heading, shares = "vector", "Similarity to other sentences", self._cosines()
        if text:
            kind, heading = "text", "Translation"
        best = sorted(shares, key=lambda name: -shares[name])[:BEST]
        options = [{"name": name, "p": shares[name]} for name in best]
        return {"kind": kind, "heading": heading, "text": text, "options": options}, shares

    def _transcript(self) -> str:
        from glassformer.data.audio import read_sound

        model: Any = self.model
        with self.given.arguments() as arguments:
            return transcribe(self.model, read_sound(arguments[0], model.config.mel.rate)).text

    def _cosines(self) -> dict[str, float]:
        """Return the cosine similarity of the text to the other texts and a few fixed sentences."""
        from glassformer.pipelines.embed import embed

        vectors = embed(self.model, [self.given.texts[0], *self.given.texts[1:], *NEAR])
        vectors = torch.as_tensor(np.asarray(vectors))
        cosines = torch.nn.functional.cosine_similarity(vectors[:1], vectors[1:])
        return dict(zip([*self.given.texts[1:], *NEAR], cosines.tolist(), strict=True))

    def changed(self, heads: Sequence[tuple[str, int]], change: Change) -> dict[str, Any]:
        """Return the answer before and after heads are ablated or their attention pattern is replaced."""
        for path, head in heads:
            self._known(path, head)
        if change not in CHANGES:
            raise InputError(f"there is no change {change!r}", f"choose one of {', '.join(CHANGES)}")
        if change == "self" and any(".cross" in path for path, _ in heads):
            raise InputError("a cross-attention head has no key for its own position", "choose another change")

        @contextmanager
        def edited() -> Iterator[None]:
            from contextlib import ExitStack

            with ExitStack() as stack:
                for path in dict.fromkeys(path for path, _ in heads):
                    chosen = [head for each, head in heads if each == path]
                    symbol, function = ("H", torch.zeros_like) if change == "off" else ("A", _PATTERNS[change])
                    edit = lens.at_heads(function, *chosen)
                    stack.enter_context(lens.edit(self.model, f"{path}.{symbol}", edit))
                yield

        (before, then), (after, now) = self._unedited, self._answer(edited)
        names = dict.fromkeys(each["name"] for each in (*before["options"], *after["options"]))
        rows = [{"name": name, "before": then[name], "after": now[name]} for name in names]
        return {"change": change, "before": before, "after": after, "rows": rows}


NEAR = ("He is reading a book.", "The weather is nice today.", "I am very tired.", "Where is the station?")


def _layer_name(path: str) -> str:
    """`decoder.3.attention` as "decoder layer 4": counted from 1, as heads are."""
    stack, number, kind = [*path.split("."), "", ""][:3]
    if not number.isdigit():
        return path
    return f"{stack} layer {int(number) + 1}" + (" (cross-attention)" if kind == "cross" else "")


def _named(logits: Tensor, name: Callable[[int], str]) -> dict[str, float]:
    """Return probabilities by name; those of tokens with the same name are summed."""
    made: dict[str, float] = {}
    for i, share in enumerate(logits.double().softmax(-1).tolist()):
        made[name(i)] = made.get(name(i), 0.0) + share
    return made


def _finite(number: int | str) -> int | str:
    """Write a fraction as a decimal if that is exact: -2.905 rather than -581/200."""
    parts = re.fullmatch(r"(-?\d+)/(\d+)", str(number))
    if parts is None or 10**12 % int(parts[2]):
        return number
    return f"{int(parts[1]) / int(parts[2]):.12f}".rstrip("0")


def _word(label: str) -> str:
    """Format a token as a short label with visible spaces and line breaks."""
    return (label.replace("\n", "↵").strip() or "␣")[:40]


def _uniform(A: Tensor) -> Tensor:
    seen = (A > 0).to(A)
    return seen / seen.sum(-1, keepdim=True).clamp_min(1)


def _self(A: Tensor) -> Tensor:
    """Attend only to the query's own position; queries are the last key positions, as in a decoder with a cache."""
    queries, keys = A.shape[-2:]
    own = torch.arange(keys - queries, keys, device=A.device)
    return torch.nn.functional.one_hot(own.clamp_min(0), keys).to(A).expand_as(A).clone()


def _first(A: Tensor) -> Tensor:
    made = torch.zeros_like(A)
    made[..., 0] = 1
    return made


_PATTERNS: dict[str, Callable[[Tensor], Tensor]] = {"uniform": _uniform, "self": _self, "first": _first}


def pool(A: NDArray[np.float32], side: int) -> NDArray[np.float32]:
    """Max-pool weights over blocks of ⌈size/side⌉ rows and columns, so that a single bright cell is never lost."""
    for axis in (0, 1):
        block = -(-A.shape[axis] // side)
        if block > 1:
            missing = -A.shape[axis] % block
            A = np.pad(A, [(0, missing), (0, 0)] if axis == 0 else [(0, 0), (0, missing)])
            A = np.maximum.reduce([A[i::block] if axis == 0 else A[:, i::block] for i in range(block)])
    return A


def _stretch(image: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    rows, columns = ((np.arange(side) * size) // side for size in image.shape)
    return image[np.ix_(rows, columns)]


def _shade(A: NDArray[np.float32], most: float | None = None) -> NDArray[np.uint8]:
    top = float(A.max()) if most is None else most
    return np.round(255 * np.sqrt(np.clip(A / (top or 1.0), 0, 1))).astype(np.uint8)


def to_npy(array: NDArray[Any]) -> bytes:
    """Serialise an array to bytes in the .npy format, as read by `np.load`."""
    file = io.BytesIO()
    np.save(file, np.ascontiguousarray(array))
    return file.getvalue()
