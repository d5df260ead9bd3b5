"""Metrics: BLEU, chrF, word error rate, bits and perplexity per byte."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from glassformer.errors import InputError

References = Sequence[str | Sequence[str]]  # one or several references for each answer


def bleu(predictions: Sequence[str], references: References) -> float:
    """100 · e^{min(0, 1 − r/c)} · (p₁ p₂ p₃ p₄)^¼: BLEU, the precision of n-grams, by sacrebleu (13a, mixed case).

    Papineni et al. 2002; Post, "A Call for Clarity in Reporting BLEU Scores", 2018.
    """
    from sacrebleu.metrics.bleu import BLEU

    return float(BLEU().corpus_score(list(predictions), _columns(predictions, references)).score)


def bleu_signature(predictions: Sequence[str], references: References) -> str:
    """Return sacrebleu's signature; scores with the same signature are comparable."""
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU()
    metric.corpus_score(list(predictions), _columns(predictions, references))
    return str(metric.get_signature())


def chrf(predictions: Sequence[str], references: References) -> float:
    """100 · F₂ of character n-grams, n = 1 … 6, by sacrebleu; the best reference counts (Popović 2015)."""
    from sacrebleu.metrics.chrf import CHRF

    return float(CHRF().corpus_score(list(predictions), _columns(predictions, references)).score)


def word_error_rate(predictions: Sequence[str], references: Sequence[str]) -> float:
    """(substitutions + insertions + deletions) / reference words, over all sentences together."""
    _require_pairs(predictions, references)
    if not any(sentence.split() for sentence in references):
        raise InputError("the references have no words", "give at least one word")
    return error_rate((a.split(), b.split()) for a, b in zip(predictions, references, strict=True))


def edit_distance(predictions: Sequence[str], references: Sequence[str]) -> int:
    """Return the minimum number of substitutions, insertions and deletions between two sequences (Levenshtein 1966)."""
    row = list(range(len(references) + 1))
    for i, a in enumerate(predictions, 1):
        last, row[0] = row[0], i
        for j, b in enumerate(references, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (a != b))
    return row[-1]


def error_rate(pairs: Iterable[tuple[Sequence[str], Sequence[str]]]) -> float:
    """Error rate over all (predictions, references) pairs, of words or of characters."""
    wrong, whole = 0, 0
    for predictions, references in pairs:
        wrong, whole = wrong + edit_distance(predictions, references), whole + len(references)
    return wrong / max(1, whole)


def bits_per_byte(nats: float, size: int) -> float:
    """Σ −log₂ p / bytes: the cost in bits of a byte of text under the model."""
    if size < 1:
        raise InputError(f"the text has {size} bytes", "give at least one")
    return nats / math.log(2) / size


def perplexity(nats: float, count: int) -> float:
    """e^{nats/count}: the effective number of equally likely choices per prediction."""
    if count < 1:
        raise InputError(f"there are {count} predictions", "give at least one")
    return math.exp(nats / count)


def _require_pairs(predictions: Sequence[Any], references: Sequence[Any]) -> None:
    if len(predictions) != len(references) or not len(predictions):
        raise InputError(
            f"there are {len(predictions)} predictions for {len(references)} references", "give one for each"
        )


def _columns(predictions: Sequence[str], references: References) -> Any:
    """Transpose the references for sacrebleu: the first of each answer, then the second, None where there is none."""
    _require_pairs(predictions, references)
    lists = [[one] if isinstance(one, str) else list(one) for one in references]
    if not all(lists):
        raise InputError("an answer has 0 references", "give at least one for each")
    return [[one[i] if i < len(one) else None for one in lists] for i in range(max(map(len, lists)))]
