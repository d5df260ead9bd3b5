"""Texts, pairs of texts and words → logits of a text classifier, in batches; and the metrics of each problem."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from glassformer.checkpoints import origin_of
from glassformer.checkpoints.files import read_object
from glassformer.data.labelled_texts import Item, LabelledTexts, Problem, Target
from glassformer.errors import InputError
from glassformer.models.protocols import context_length, device_of, require
from glassformer.pipelines.tokenizers import JsonTokenizer, tokenizer_of

IGNORED = -100  # target of tokens that have none: padding, special tokens, and all but the first token of a word
LENGTH_FILE = "sentence_bert_config.json"  # where sentence-transformers keep max_seq_length
WORDS = re.compile(r"\w+|[^\w\s]")
BATCH = 32


class Encoded(NamedTuple):
    """Token ids of one input, which of two texts each belongs to, and the position of the first token of each word."""

    tokens: list[int]
    segments: list[int]
    words: list[int | None]
    truncated: bool

    @property
    def truncated_to(self) -> int | None:
        """The number of tokens that were kept of a longer input, None if it was not truncated."""
        return len(self.tokens) if self.truncated else None


def max_length(model: nn.Module) -> int | None:
    """Return the number of tokens that texts are truncated to: max_seq_length of the folder, or None."""
    origin = origin_of(model)
    path = origin.file(LENGTH_FILE) if origin is not None else None
    found = read_object(path).get("max_seq_length") if path is not None else None
    context = context_length(model)
    return min(found, context or found) if type(found) is int and found > 2 else None


class TextEncoding:
    """Encodes items, truncated to `length` tokens; if it is None, an item longer than the context is an error."""

    def __init__(self, words: JsonTokenizer, length: int | None, context: int | None) -> None:
        self.words, self.length, self.context = words, length, context

    @classmethod
    def of(cls, model: nn.Module) -> TextEncoding:
        words = tokenizer_of(model)
        if not isinstance(words, JsonTokenizer):
            raise InputError("the model's folder has no tokenizer.json", "use a model that has one")
        return cls(words, max_length(model), context_length(model))

    def __call__(self, item: Item) -> Encoded:
        tokenizer = self.words.tokenizer if self.length is None else self.words.truncating(self.length)
        first, second = item if isinstance(item, tuple) else (item, None)
        text = " ".join(first) if isinstance(first, list) else first
        found = tokenizer.encode(text) if second is None else tokenizer.encode(text, second)
        if self.context is not None and len(found.ids) > self.context:
            fact = f"a text of {len(found.ids)} tokens exceeds the model's context of {self.context}"
            raise InputError(fact, "shorten it")
        if not found.ids:
            raise InputError("a text has no tokens", "leave empty texts out")
        places = _first_tokens(first, found) if isinstance(first, list) else []
        return Encoded(list(found.ids), list(found.type_ids), places, bool(found.overflowing))


def _first_tokens(words: list[str], found: object) -> list[int | None]:
    """Return the position of the first token of every word; None for words that were cut off or have no token."""
    starts: dict[int, int] = {}
    at = 0
    places: list[int | None] = []
    spans = [(i, a, b) for i, (a, b) in enumerate(found.offsets) if b > a]  # type: ignore[attr-defined]
    for i, a, b in spans:
        for character in range(a, b):
            starts.setdefault(character, i)
    taken: set[int] = set()
    for word in words:
        place = next((starts[k] for k in range(at, at + len(word)) if k in starts and starts[k] not in taken), None)
        if place is not None:
            taken.add(place)
        places.append(place)
        at += len(word) + 1
    return places


def split_words(text: str) -> list[str]:
    """Split a text into words and punctuation marks, as token classification datasets have them."""
    return WORDS.findall(text)


def collate(encoded: Sequence[Encoded]) -> dict[str, Tensor]:
    """Pad a batch: `tokens`, `real` (False at padding) and `segments`."""
    longest = max(len(one.tokens) for one in encoded)
    fill = lambda row, value: [*row, *[value] * (longest - len(row))]
    return {
        "tokens": torch.tensor([fill(one.tokens, 0) for one in encoded]),
        "real": torch.tensor([fill([True] * len(one.tokens), False) for one in encoded]),
        "segments": torch.tensor([fill(one.segments, 0) for one in encoded]),
    }


def batch_logits(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """Logits (b, classes), or (b, t, classes) of a token classifier."""
    real, segments = batch["real"], batch["segments"]
    padding = None if bool(real.all()) else real
    return require(model, "classify").class_logits(batch["tokens"], padding, segments if bool(segments.any()) else None)


@torch.inference_mode()
def predict(model: nn.Module, encoded: Sequence[Encoded], batch: int = BATCH) -> list[Tensor]:
    """Logits of every input (classes,), or of each of its words (words, classes), in batches of similar length."""
    device, order = device_of(model), sorted(range(len(encoded)), key=lambda i: len(encoded[i].tokens))
    found: dict[int, Tensor] = {}
    for start in range(0, len(order), batch):
        rows = order[start : start + batch]
        made = {name: x.to(device) for name, x in collate([encoded[i] for i in rows]).items()}
        logits = batch_logits(model, made).float().cpu()
        for i, one in zip(rows, logits, strict=True):
            places = [place for place in encoded[i].words if place is not None]
            found[i] = one[places].clone() if logits.dim() == 3 else one.clone()
    return [found[i] for i in range(len(encoded))]


# ---- losses and metrics ----------------------------------------------------------------------------------------------


def targets_of(targets: Sequence[Target], problem: Problem, classes: int, encoded: Sequence[Encoded]) -> Tensor:
    """Return the targets of a batch as a tensor: (b,) classes or numbers, (b, classes) of 0 and 1, or (b, t)."""
    if problem == "multi_label_classification":
        hot = torch.zeros(len(targets), classes)
        for row, wanted in zip(hot, targets, strict=True):
            assert isinstance(wanted, tuple)
            row[list(wanted)] = 1
        return hot
    if problem == "token_classification":
        longest = max(len(one.tokens) for one in encoded)
        tags = torch.full((len(targets), longest), IGNORED)
        for row, wanted, one in zip(tags, targets, encoded, strict=True):
            assert isinstance(wanted, tuple)
            for place, tag in zip(one.words, wanted, strict=True):
                if place is not None:
                    row[place] = tag
        return tags
    return torch.tensor(targets, dtype=torch.float32 if problem == "regression" else torch.long)


def classification_loss(logits: Tensor, y: Tensor, problem: Problem, smoothing: float = 0.0) -> Tensor:
    """The sum over the batch of what Hugging Face's heads average: (binary) cross-entropy or squared error."""
    if problem == "regression":
        return (logits[:, 0] - y).square().sum()
    if problem == "multi_label_classification":
        return binary_cross_entropy_with_logits(logits, y, reduction="none").mean(1).sum()
    flat = logits.flatten(0, -2)
    return cross_entropy(flat, y.flatten(), reduction="sum", ignore_index=IGNORED, label_smoothing=smoothing)


def score_texts(model: nn.Module, data: LabelledTexts, rows: Sequence[int], encoding: TextEncoding) -> dict[str, float]:
    """Compute the metrics of a text classifier on rows of labelled texts; the first one is to be maximised, except for
    regression, whose mean squared error is to be minimised."""
    encoded = [encoding(data.item(i)) for i in rows]
    logits, problem = predict(model, encoded), data.problem
    if problem == "token_classification":
        return _score_tags(logits, [data.targets[i] for i in rows], encoded, data.labels)
    y = targets_of([data.targets[i] for i in rows], problem, len(data.labels), encoded)
    whole = torch.stack(logits)
    loss = float(classification_loss(whole, y, problem)) / len(y)
    if problem == "regression":
        x, total = whole[:, 0], float((y - y.mean()).square().sum())
        r2 = 1 - float((x - y).square().sum()) / total if total else 0.0
        return {"mse": loss, "mae": float((x - y).abs().mean()), "r2": r2}
    if problem == "multi_label_classification":
        x = whole > 0
        right = float((x == y.bool()).all(1).float().mean())
        return {"f1_micro": _f1(x, y.bool()), "f1_macro": _macro(x, y.bool()), "accuracy": right, "loss": loss}
    x = whole.argmax(-1)
    hot = lambda labels: torch.nn.functional.one_hot(labels, len(data.labels)).bool()
    return {"accuracy": float((x == y).float().mean()), "f1_macro": _macro(hot(x), hot(y)), "loss": loss}


def _f1(x: Tensor, y: Tensor) -> float:
    """F1 = 2 |x ∧ y| / (|x| + |y|)."""
    total = float(x.sum() + y.sum())
    return 2 * float((x & y).sum()) / total if total else 0.0


def _macro(x: Tensor, y: Tensor) -> float:
    """Mean F1 of the classes that occur in the data or in the answers, as in scikit-learn."""
    present = [k for k in range(y.shape[1]) if bool(y[:, k].any() | x[:, k].any())]
    return sum(_f1(x[:, k], y[:, k]) for k in present) / max(1, len(present))


def _score_tags(
    logits: Sequence[Tensor], targets: Sequence[Target], encoded: Sequence[Encoded], labels: Sequence[str]
) -> dict[str, float]:
    """F1 of whole entities if the tags are B-…, I-… and O, as in CoNLL; accuracy and loss of words."""
    right = count = 0
    loss = 0.0
    ours: set[tuple[int, int, int, str]] = set()
    theirs: set[tuple[int, int, int, str]] = set()
    for i, (rows, target, one) in enumerate(zip(logits, targets, encoded, strict=True)):
        assert isinstance(target, tuple)
        y = torch.tensor([tag for tag, place in zip(target, one.words, strict=True) if place is not None])
        if not len(y):
            continue
        x = rows.argmax(-1)
        right, count = right + int((x == y).sum()), count + len(y)
        loss += float(cross_entropy(rows, y, reduction="sum"))
        ours |= {(i, *span) for span in entities([labels[k] for k in x.tolist()])}
        theirs |= {(i, *span) for span in entities([labels[k] for k in y.tolist()])}
    if not count:
        raise InputError("no word has a token", "give sentences that the tokenizer knows")
    numbers = {"accuracy": right / count, "loss": loss / count}
    if any(re.match(r"[BI]-", label) for label in labels):
        numbers = {"f1": 2 * len(ours & theirs) / max(1, len(ours) + len(theirs)), **numbers}
    return numbers


def entities(tags: Sequence[str]) -> list[tuple[int, int, str]]:
    """Return (first, last, kind) of every entity in B-, I- and O tags; an I- after another kind begins an entity."""
    found: list[tuple[int, int, str]] = []
    for i, tag in enumerate(tags):
        mark, _, kind = tag.partition("-")
        if not kind or mark not in "BI":
            continue
        if mark == "I" and found and found[-1][1] == i - 1 and found[-1][2] == kind:
            found[-1] = (found[-1][0], i, kind)
        else:
            found.append((i, i, kind))
    return found
