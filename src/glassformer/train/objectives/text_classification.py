"""loss = −Σ log p(class | text): texts, pairs of texts or words with classes or numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.checkpoints import origin_of, save_published
from glassformer.checkpoints.native import replace_file
from glassformer.data import Faults, bpe, order, remarks
from glassformer.data.columns import are_names
from glassformer.data.fingerprint import of_rows, of_tokenizer
from glassformer.data.labelled_texts import LabelledTexts, Problem, split_label
from glassformer.data.rows import Source, open_reader
from glassformer.data.stream import Window
from glassformer.errors import ConfigError
from glassformer.models import Encoder
from glassformer.models.protocols import TextEncoder, context_length, inputs_of
from glassformer.pipelines.evaluate import SPECIALS
from glassformer.pipelines.text_classification import (
    IGNORED,
    LENGTH_FILE,
    Encoded,
    TextEncoding,
    batch_logits,
    classification_loss,
    collate,
    predict,
    score_texts,
    targets_of,
)
from glassformer.pipelines.tokenizers import JsonTokenizer, tokenizer_of
from glassformer.train.args import TrainArgs
from glassformer.train.examined import SHOWN, Examined, Misprediction, examine_classes, examine_labels
from glassformer.train.objective import Batch, TaskObjective
from glassformer.train.objectives import mlm
from glassformer.train.objectives.text_folder import save_text_model
from glassformer.train.splits import base_model, split
from glassformer.train.standardised import fold_head, folded, moments, standardise_head
from glassformer.train.transfer import with_text_head

SHOWN_TEXT = 400  # characters of a text in the report
AROUND = 12  # words of a sentence shown on either side of a word
LONGEST = 256  # tokens of a text unless --max-length is given
HEADS = {"bert": "Bert", "roberta": "Roberta", "xlm-roberta": "XLMRoberta", "camembert": "Camembert"}  # model_type


class TextClassification(TaskObjective):
    """Classification of texts in batches of `batch_size` rows; texts are truncated to the length of the encoding.

    The loss of a regression is the squared error in units of the variance of the training targets.
    """

    batch_unit = "texts"

    def __init__(
        self,
        train: LabelledTexts,
        val: LabelledTexts,
        encoding: TextEncoding,
        *,
        batch_size: int = 32,
        label_smoothing: float = 0.0,
        val_rows: int = 2000,
        seed: int = 0,
    ) -> None:
        self.train, self.val, self.encoding = train, val, encoding
        self.batch_size, self.label_smoothing, self.seed = batch_size, label_smoothing, seed
        self.val_rows = min(val_rows, len(val))
        numbers = [y for y in train.targets if isinstance(y, float)]
        self.moments = moments(numbers) if self.problem == "regression" else None
        self.faults = Faults()

    @property
    def better(self) -> Literal["higher", "lower"]:
        return "lower" if self.problem == "regression" else "higher"

    @property
    def problem(self) -> Problem:
        return self.train.problem

    def summary(self) -> str:
        kind = self.problem.replace("_", " ")
        return f"{kind}: {len(self.train):,} texts, {len(self.val):,} for validation"

    def save(self, model: nn.Module, folder: str | Path) -> Path:
        train = self.train
        return save_text_classifier(folded(model), folder, train.labels, self.problem, self.encoding, pairs=train.pairs)

    def finish(self, model: nn.Module) -> None:
        fold_head(model)

    def fingerprint(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("batch_size", "label_smoothing", "val_rows", "seed")}
        row = lambda data: lambda i: (data.item(i), data.targets[i])
        data = {name: of_rows(len(some), row(some)) for name, some in (("data", self.train), ("val", self.val))}
        own |= {"labels": list(self.train.labels), "problem": self.problem, "max_length": self.encoding.length}
        own |= {} if self.moments is None else {"standardised": list(self.moments)}
        return data | own | {"tokenizer": of_tokenizer(self.encoding.words.tokenizer)}

    def epoch(self, number: int) -> Sequence[Sequence[int]]:
        return order.batches(len(self.train), self.batch_size, self.seed, number)

    def batch(self, rows: Sequence[int], seed: int) -> Batch | None:
        read = lambda row: (self.encoding(self.train.item(row)), self.train.targets[row])
        found = self.faults.each(rows, read)
        if not found:
            return None
        encoded: list[Encoded] = [one for one, _ in found]
        y = targets_of([target for _, target in found], self.problem, len(self.train.labels), encoded)
        return {**collate(encoded), "y": y}

    def count(self, batch: Batch) -> float:
        y = batch["y"]
        return float((y != IGNORED).sum()) if self.problem == "token_classification" else float(len(y))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        loss = classification_loss(batch_logits(model, dict(batch)), batch["y"], self.problem, self.label_smoothing)
        return loss if self.moments is None else loss / self.moments[1] ** 2

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        found = score_texts(model, self.val, order.spread(len(self.val), self.val_rows), self.encoding)
        if self.moments is not None:  # in the unit of the training loss
            found["loss"] = found["mse"] / self.moments[1] ** 2
        return found

    def examine(self, model: nn.Module) -> Examined | None:
        rows = order.spread(len(self.val), self.val_rows)
        encoded = [self.encoding(self.val.item(i)) for i in rows]
        logits, targets, labels = predict(model, encoded), [self.val.targets[i] for i in rows], self.val.labels
        if self.problem == "token_classification":
            return self._examine_tags(logits, rows, encoded)
        X, y = torch.stack(logits), targets_of(targets, self.problem, len(labels), encoded)

        def show(i: int, truth: str, answer: str, score: float) -> Misprediction:
            text = self.val.text(rows[i])[:SHOWN_TEXT]
            return Misprediction(place=self.val.rows.place(rows[i]), truth=truth, answer=answer, score=score, text=text)

        if self.problem == "single_label_classification":
            return examine_classes(X, y, labels, show)
        if self.problem == "regression":
            errors = (X[:, 0] - y).abs()
            worst = errors.argsort(descending=True)[:SHOWN].tolist()
            numbers = ((i, f"{float(y[i]):.4g}", f"{float(X[i, 0]):.4g}", float(errors[i])) for i in worst)
            mistakes = tuple(show(*one) for one in numbers)
            return Examined(rows=len(y), score="absolute error", mistakes=mistakes, mistaken=len(y))
        return examine_labels(X, y, labels, show)

    def _examine_tags(self, logits: Sequence[Tensor], rows: Sequence[int], encoded: Sequence[Encoded]) -> Examined:
        """Examine words, each shown in its sentence."""
        words: list[tuple[int, int]] = []  # row and position of every word that has a tag
        for row, one in zip(rows, encoded, strict=True):
            words += [(row, k) for k, place in enumerate(one.words) if place is not None]
        y = torch.tensor([self.val.targets[row][k] for row, k in words])  # type: ignore[index]

        def show(i: int, truth: str, answer: str, score: float) -> Misprediction:
            row, k = words[i]
            sentence = list(self.val.item(row))
            text = " ".join([*sentence[max(0, k - AROUND) : k], f"[{sentence[k]}]", *sentence[k + 1 : k + 1 + AROUND]])
            return Misprediction(place=self.val.rows.place(row), truth=truth, answer=answer, score=score, text=text)

        return replace(examine_classes(torch.cat(list(logits)), y, self.val.labels, show), unit="words")


def build(args: TrainArgs, first: Source, second: Source | None) -> tuple[nn.Module, TextClassification]:
    """Build a text classifier and its objective, from scratch or from an encoder."""
    args.reject("text classification", "image_size", "augment", "augmentation")
    problem, columns = _problem(args, first), args.column_names
    known = None
    if isinstance(first, Window) and second is not None:
        known = LabelledTexts.open(second, columns, problem=problem)
    labels = None if known is None else known.labels
    whole = LabelledTexts.open(first, columns, problem=known.problem if known else problem, labels=labels)
    other = None
    if second is not None:
        other = LabelledTexts.open(second, columns, problem=whole.problem, labels=whole.labels)
    train, val, faults = split(whole, other, args.seed, _classes(whole))
    if args.label_smoothing and whole.problem in ("regression", "multi_label_classification"):
        raise ConfigError(f"--label-smoothing has no effect on {whole.problem.replace('_', ' ')}", "leave it out")
    per_token = whole.problem == "token_classification"
    base = base_model(args, "an encoder of text", _encodes_text)
    if base is not None:
        origin = origin_of(base)
        published = origin is not None and origin.raw.get("model_type") in HEADS and bool(origin.family)
        model = with_text_head(base, classes=len(whole.labels), per_token=per_token, pooler=published, seed=args.seed)
        words = tokenizer_of(base)
        if not isinstance(words, JsonTokenizer):
            raise ConfigError(f"--from {args.from_} has no tokenizer.json", "fine-tune a model that has one")
    else:
        args.one_of("transformer")
        texts = (train.text(i) for i in range(len(train)))
        words = JsonTokenizer(bpe.train(texts, args.vocab_size or 8000, SPECIALS, begin="<s>", end="</s>"))
        width = args.width or 128
        size = (words.tokenizer.get_vocab_size(), width, args.depth or 2, args.heads or 4, 2 * width)
        bare = Encoder(mlm.transformer(*size, dropout=0.1), seed=args.seed)
        model = bare.with_text_head(len(whole.labels), per_token=per_token, pooler=False, seed=args.seed)
    context = context_length(model)
    length = min(args.max_length or LONGEST, context or args.max_length or LONGEST)
    if args.max_length is not None and context is not None and args.max_length > context:
        raise ConfigError(f"--max-length is {args.max_length}", f"the model's context is {context} tokens")
    objective = TextClassification(
        train,
        val,
        TextEncoding(words, length, context),
        batch_size=args.batch_size or 32,
        label_smoothing=args.label_smoothing or 0.0,
        seed=args.seed,
    )
    if objective.moments is not None:
        standardise_head(model, *objective.moments)
    objective.faults.remember(faults)
    objective.described = "texts", len(train)
    objective.understood = _understood(train, val, objective.encoding)
    objective.default_lr = 1e-3 if base is None or args.lora_rank is not None else 1e-4
    objective.default_epochs = 3.0 if base is not None and objective.moments is None else 8.0
    return model, objective


def _encodes_text(model: nn.Module) -> bool:
    return isinstance(model, TextEncoder) and inputs_of(model) == ("text",)


def _problem(args: TrainArgs, source: Source) -> Problem | None:
    """Return the requested problem type, or token classification if the data has words with tags."""
    if args.problem_type is not None:
        return args.problem_type  # type: ignore[return-value]
    reader, _, _ = open_reader(source, ("text", "label", "tokens", "tags"), args.column_names)
    named = args.column_names
    tags = {"tokens", "tags"} <= named.keys() or all(are_names(reader.names, (role,)) for role in ("tokens", "tags"))
    return "token_classification" if tags and "text" not in named else None


def _understood(train: LabelledTexts, val: LabelledTexts, encoding: TextEncoding) -> tuple[str, ...]:
    some = order.spread(len(train), 500)
    cut = sum(encoding(train.item(i)).truncated for i in some)
    share = f"{cut / len(some):.0%} of the texts are longer"
    if train.problem == "regression":
        numbers = np.array(train.targets, dtype=np.float64)
        counts = [f"values: {numbers.min():g} to {numbers.max():g}, mean {numbers.mean():.4g}, std {numbers.std():.4g}"]
    else:
        counts = remarks.class_counts(train.labels, chain(*_classes(train)))
    if train.problem == "token_classification":
        counts = counts[:1]  # most words have the tag O, which is no imbalance worth a remark
    counts += _joined_labels(train)
    return (
        train.rows.described(),
        *counts,
        *remarks.examples(train.rows, lambda i: f"{remarks.short(train.text(i))} → {train.shown_target(i)[:60]}"),
        *([f"remark: about {share} than {encoding.length} tokens and are truncated (see --max-length)"] if cut else []),
        *remarks.small_validation(len(val)),
        *remarks.classes_not_validated(train.labels, chain(*_classes(train)), chain(*_classes(val))),
        *remarks.duplicate_texts(train.text, len(train), val.text, len(val), "texts"),
    )


def _classes(texts: LabelledTexts) -> list[tuple[int, ...]]:
    """Return the classes of every text or of its words; for numbers there are none."""
    if texts.problem == "regression":
        return [()] * len(texts)
    return [y if isinstance(y, tuple) else (int(y),) for y in texts.targets]


def _joined_labels(train: LabelledTexts) -> list[str]:
    """Return a remark on labels such as `toxic,rude`, which may be meant as one class or as several."""
    change = "to change that, add --problem-type"
    if train.problem == "multi_label_classification":
        several = next((i for i, y in enumerate(train.targets) if isinstance(y, tuple) and len(y) > 1), None)
        if several is None or not isinstance(label := train.rows[several]["label"], str):
            return []
        none = sum(not y for y in train.targets if isinstance(y, tuple))
        without = f", and {none:,} texts have none" if none else ""
        return [f"remark: {label!r} is read as several labels{without}; {change} single_label_classification"]
    joined = next((name for name in train.labels if len(split_label(name)) > 1), None)
    if train.problem != "single_label_classification" or joined is None:
        return []
    return [f"remark: {joined!r} is read as one class; {change} multi_label_classification"]


def save_text_classifier(
    model: nn.Module,
    folder: str | Path,
    labels: Sequence[str],
    problem: Problem,
    encoding: TextEncoding,
    *,
    pairs: bool = False,
) -> Path:
    """Save a folder that `load` and `classify` accept, in the layout of the published family if the encoder has one.

    `pairs` means that the model was trained on pairs of texts; it is stored as `text_pair` in config.json.
    """
    folder, origin = Path(folder), origin_of(model)
    per_token = problem == "token_classification"
    names: dict[str, Any] = {"id2label": {str(i): name for i, name in enumerate(labels)}}
    names |= {"label2id": {name: i for i, name in enumerate(labels)}}
    names |= {} if per_token else {"problem_type": problem, "text_pair": pairs or None}
    prefix = HEADS.get(str(origin.raw.get("model_type"))) if origin is not None and origin.family else None
    if prefix is not None:
        kind = "TokenClassification" if per_token else "SequenceClassification"
        raw = {**names, "architectures": [f"{prefix}For{kind}"]}
        folder = save_published(model, folder, raw, ("classifier.weight", "classifier.bias") if per_token else ())
    else:
        stated = {name: value for name, value in names.items() if value is not None}
        folder = save_text_model(model, folder, encoding.words.tokenizer, config=stated)
    text = json.dumps({"max_seq_length": encoding.length, "do_lower_case": False}) + "\n"
    replace_file(folder / LENGTH_FILE, lambda path: path.write_text(text, encoding="utf-8"))
    return folder
