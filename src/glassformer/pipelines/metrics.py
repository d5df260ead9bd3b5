"""Metrics: BLEU, chrF, word error rate, bits and perplexity per byte, reciprocal rank."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from glassformer.errors import InputError

References = Sequence[str | Sequence[str]]  # one or several references for each answer


def bleu(said: Sequence[str], meant: References) -> float:
    """100 · e^{min(0, 1 − r/c)} · (p₁ p₂ p₃ p₄)^¼: BLEU, the precision of n-grams, by sacrebleu (13a, mixed case).

    Papineni et al. 2002; Post, "A Call for Clarity in Reporting BLEU Scores", 2018.
    """
    from sacrebleu.metrics.bleu import BLEU

    return float(BLEU().corpus_score(list(said), _columns(said, meant)).score)


def bleu_signature(said: Sequence[str], meant: References) -> str:
    """Return sacrebleu's signature; scores with the same signature are comparable."""
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU()
    metric.corpus_score(list(said), _columns(said, meant))
    return str(metric.get_signature())


def chrf(said: Sequence[str], meant: References) -> float:
    """100 · F₂ of character n-grams, n = 1 … 6, by sacrebleu; the best reference counts (Popović 2015)."""
    from sacrebleu.metrics.chrf import CHRF

    return float(CHRF().corpus_score(list(said), _columns(said, meant)).score)


def word_error_rate(said: Sequence[str], meant: Sequence[str]) -> float:
    """(substitutions + insertions + deletions) / reference words, over all sentences together."""
    _require_pairs(said, meant)
    if not any(sentence.split() for sentence in meant):
        raise InputError("0 words were said", "give sentences that have some")
    return error_rate((a.split(), b.split()) for a, b in zip(said, meant, strict=True))


def edit_distance(said: Sequence[str], meant: Sequence[str]) -> int:
    """Return the minimum number of substitutions, insertions and deletions between two sequences (Levenshtein 1966)."""
    row = list(range(len(meant) + 1))
    for i, a in enumerate(said, 1):
        last, row[0] = row[0], i
        for j, b in enumerate(meant, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (a != b))
    return row[-1]


def error_rate(pairs: Iterable[tuple[Sequence[str], Sequence[str]]]) -> float:
    """Error rate over all (said, meant) pairs, of words or of characters."""
    wrong, whole = 0, 0
    for said, meant in pairs:
        wrong, whole = wrong + edit_distance(said, meant), whole + len(meant)
    return wrong / max(1, whole)


def bits_per_byte(nats: float, size: int) -> float:
    """Σ −log₂ p / bytes: the cost in bits of a byte of text under the model."""
    if size < 1:
        raise InputError(f"a text of {size} bytes", "give at least one")
    return nats / math.log(2) / size


def perplexity(nats: float, count: int) -> float:
    """e^{nats/count}: the effective number of equally likely choices per prediction."""
    if count < 1:
        raise InputError(f"{count} predictions", "give at least one")
    return math.exp(nats / count)


def reciprocal_rank(scores: Sequence[float], right: Sequence[bool]) -> float:
    """1/rank of the best correct item, sorted by score, best first; ties rank wrong items before correct ones."""
    _require_pairs(scores, right)
    value, good = np.asarray(scores, dtype=np.float64), np.asarray(right, dtype=bool)
    if not good.any():
        raise InputError("none of the candidates is right", "give at least one that is")
    return 1 / (1 + int((value[~good] >= value[good].max()).sum()))


def _require_pairs(said: Sequence[Any], meant: Sequence[Any]) -> None:
    if len(said) != len(meant) or not len(said):
        raise InputError(f"{len(said)} answers for {len(meant)} right ones", "give one for each, at least one")


def _columns(said: Sequence[str], meant: References) -> Any:
    """Transpose the references for sacrebleu: the first of each answer, then the second, None where there is none."""
    _require_pairs(said, meant)
    lists = [[one] if isinstance(one, str) else list(one) for one in meant]
    if not all(lists):
        raise InputError("an answer has 0 references", "give at least one for each")
    return [[one[i] if i < len(one) else None for one in lists] for i in range(max(map(len, lists)))]
