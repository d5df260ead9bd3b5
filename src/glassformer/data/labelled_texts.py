"""Texts with labels: one class, several classes, a number, or a tag for every word."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from glassformer.data.columns import is_number
from glassformer.data.images import class_names
from glassformer.data.rows import Row, RowDataset, Rows, Source, name_of, open_rows
from glassformer.data.stream import UNKNOWN_CLASS, Window
from glassformer.errors import InputError

Problem = Literal["single_label_classification", "multi_label_classification", "regression", "token_classification"]
PROBLEMS: tuple[Problem, ...] = (
    "single_label_classification",
    "multi_label_classification",
    "regression",
    "token_classification",
)
Item = str | tuple[str, str] | list[str]  # a text, a pair of texts, or the words of a sentence
Target = int | float | tuple[int, ...]
YES, NO = ("1", "true", "yes"), ("0", "false", "no", "", "none")


class LabelledTexts(RowDataset):
    """Row i is `item(i)` with `targets[i]`: a class, several classes, a number, or a class for every word.

    `labels` are the names of the classes; `problem` is the kind of target.
    """

    def __init__(self, rows: Rows, problem: Problem, labels: tuple[str, ...], targets: Sequence[Target]) -> None:
        self.rows, self.problem, self.labels, self.targets = rows, problem, labels, targets

    @classmethod
    def open(
        cls,
        source: Source,
        columns: Mapping[str, str] | None = None,
        *,
        problem: Problem | None = None,
        labels: Sequence[str] | None = None,
    ) -> LabelledTexts:
        """Open texts with labels. `problem` is inferred from them unless it is given; `labels` are known classes.

        Lists, several columns of 0 and 1, or labels such as `toxic,rude` beside `toxic` and `rude` are multi-label, and
        a text without a label has none of them; numbers with decimals, or very many different ones, are a regression;
        anything else is one class for each text.
        """
        if problem == "token_classification":
            return cls._open_tags(source, columns, labels)
        found: list[Any] = []

        def check(row: Row) -> str:
            texts = [row["text"], *([row["text_pair"]] if "text_pair" in row else [])]
            if not all(isinstance(text, str) and text.strip() for text in texts):
                return "empty text"
            value = _label(row["label"], problem)
            if isinstance(value, str) and not value and problem != "multi_label_classification":
                return "empty label"
            if isinstance(source, Window) and (reason := _unlike(value, problem, labels)):
                return reason
            found.append(value)
            return ""

        rows = open_rows(source, ("text", "label"), optional=("text_pair",), given=columns, check=check, strict=False)
        if problem is None and joins_classes({value for value in found if isinstance(value, str)}):
            return cls.open(source, columns, problem="multi_label_classification", labels=labels)
        rows.require_half()
        rows.require_some(
            f"{name_of(source)} has no texts with labels", "give a table with the columns text and label"
        )
        kind = problem or _problem(found)
        if kind == "regression":
            return cls(rows, kind, ("value",), _numbers(found, rows))
        several = [value if isinstance(value, tuple) else (value,) for value in found]
        names = class_names({name for some in several for name in some}, labels, source, least=1 if labels else 2)
        number = {name: i for i, name in enumerate(names)}
        if kind == "multi_label_classification":
            return cls(rows, kind, names, [tuple(sorted({number[name] for name in some})) for some in several])
        wrong = next((i for i, some in enumerate(several) if len(some) != 1), None)
        if wrong is not None:
            fact = f"{rows.place(wrong)} has {len(several[wrong])} labels"
            raise InputError(fact, "give one for each text, or --problem-type multi_label_classification")
        return cls(rows, kind, names, [number[some[0]] for some in several])

    @classmethod
    def _open_tags(
        cls, source: Source, columns: Mapping[str, str] | None, labels: Sequence[str] | None
    ) -> LabelledTexts:
        found: list[tuple[str, ...]] = []

        def check(row: Row) -> str:
            words, tags = row["tokens"], row["tags"]
            if not isinstance(words, list) or not isinstance(tags, list) or not words:
                return "no list of tokens and tags"
            if len(words) != len(tags):
                return "different numbers of tokens and tags"
            if not all(isinstance(word, str) and word.strip() for word in words) or "" in tags:
                return "empty token or tag"
            if isinstance(source, Window) and labels and not {*map(str, tags)} <= {*labels}:
                return UNKNOWN_CLASS
            found.append(tuple(str(tag) for tag in tags))
            return ""

        rows = open_rows(source, ("tokens", "tags"), given=columns, check=check)
        rows.require_some(
            f"{name_of(source)} has no sentences with tags", "give CoNLL, or JSON Lines with tokens and tags"
        )
        names = class_names({tag for tags in found for tag in tags}, labels, source, least=1 if labels else 2)
        number = {name: i for i, name in enumerate(names)}
        return cls(rows, "token_classification", names, [tuple(number[tag] for tag in tags) for tags in found])

    def item(self, i: int) -> Item:
        row = self.rows[i]
        if self.problem == "token_classification":
            return [str(word) for word in row["tokens"]]
        text = str(row["text"]).strip()
        return (text, str(row["text_pair"]).strip()) if "text_pair" in row else text

    def text(self, i: int) -> str:
        """Return row i as one text, to show or compare it."""
        item = self.item(i)
        return item if isinstance(item, str) else " ".join(item) if isinstance(item, list) else " | ".join(item)

    @property
    def pairs(self) -> bool:
        """Whether every item is a pair of texts."""
        return "text_pair" in self.rows.columns

    def shown_target(self, i: int) -> str:
        target = self.targets[i]
        if isinstance(target, tuple):
            return " ".join(self.labels[k] for k in target) or "no label"
        return f"{target:g}" if self.problem == "regression" else self.labels[int(target)]

    def part(self, rows: NDArray[np.int64]) -> LabelledTexts:
        return LabelledTexts(self.rows.part(rows), self.problem, self.labels, [self.targets[int(i)] for i in rows])

    def like(self, source: Source) -> LabelledTexts:
        return LabelledTexts.open(source, self.rows.given, problem=self.problem, labels=self.labels)


def _unlike(value: str | tuple[str, ...], problem: Problem | None, labels: Sequence[str] | None) -> str:
    """Return why the label of a row in a stream does not suit the validation data; "" if it does."""
    several = value if isinstance(value, tuple) else (value,)
    if problem == "regression":
        return "" if len(several) == 1 and is_number(several[0]) and np.isfinite(float(several[0])) else "not a number"
    if problem == "single_label_classification" and len(several) != 1:
        return "several labels"
    return UNKNOWN_CLASS if labels and not {*several} <= {*labels} else ""


def _label(value: Any, problem: Problem | None) -> str | tuple[str, ...]:
    """Return a label as text, or several: from a list, columns of 0 and 1, or, if `problem` is multi-label, a text."""
    if isinstance(value, dict):
        return tuple(name for name, flag in value.items() if _flag(flag))
    if isinstance(value, list | tuple):
        return tuple(str(one).strip() for one in value)
    if problem == "multi_label_classification":
        return split_label("" if value is None else str(value))
    return "" if value is None else str(value).strip()


def split_label(text: str) -> tuple[str, ...]:
    """Split `toxic, rude` into its labels, which `,`, `;` or `|` may separate."""
    return tuple(part for part in re.split(r"\s*[,;|]\s*", text.strip()) if part)


def joins_classes(values: Set[str]) -> bool:
    """Return whether a value consists of several others, as `toxic,rude` does of `toxic` and `rude`."""
    return any(len(parts) > 1 and all(part in values for part in parts) for parts in map(split_label, values))


def _flag(value: Any) -> bool:
    text = str(value).strip().lower().removesuffix(".0")
    if text not in YES + NO:
        raise InputError(
            f"a label column contains {str(value)[:40]!r}", "give columns of 0 and 1, or one column of labels"
        )
    return text in YES


def _problem(found: Sequence[str | tuple[str, ...]]) -> Problem:
    if any(isinstance(value, tuple) for value in found):
        return "multi_label_classification"
    distinct = cast("set[str]", set(found))
    numbers = all(map(is_number, distinct))
    if numbers and (any(float(value) % 1 for value in distinct) or len(distinct) > max(20, len(found) // 20)):
        return "regression"
    return "single_label_classification"


def _numbers(found: Sequence[Any], rows: Rows) -> list[float]:
    wrong = next((i for i, value in enumerate(found) if not isinstance(value, str) or not is_number(value)), None)
    if wrong is not None:
        fact = f"{rows.place(wrong)} has the label {str(found[wrong])[:40]!r}, which is not a number"
        raise InputError(fact, "give numbers, or leave out --problem-type regression")
    numbers = [float(value) for value in found]
    if not all(map(np.isfinite, numbers)):
        raise InputError("a label is not finite", "leave such rows out")
    return numbers
