"""How good answers are: BLEU, chrF, word error rate, bits and perplexity per byte, reciprocal of ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from glassformer.errors import InputError
from glassformer.tasks.word_errors import error_rate

References = Sequence[str | Sequence[str]]  # for each answer one right one, or several


def bleu(said: Sequence[str], meant: References) -> float:
    """100 · e^{min(0, 1 − r/c)} · (p₁ p₂ p₃ p₄)^¼: n-grams that a reference has too, by sacrebleu (13a, mixed case).

    Papineni et al. 2002; Post, "A Call for Clarity in Reporting BLEU Scores", 2018.
    """
    from sacrebleu.metrics.bleu import BLEU

    return float(BLEU().corpus_score(list(said), _columns(said, meant)).score)


def bleu_signature(said: Sequence[str], meant: References) -> str:
    """How it was counted, in sacrebleu's words: what has the same signature can be compared."""
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU()
    metric.corpus_score(list(said), _columns(said, meant))
    return str(metric.get_signature())


def chrf(said: Sequence[str], meant: References) -> float:
    """100 · F₂ of n-grams of letters, n = 1 … 6, by sacrebleu: the best reference counts (Popović 2015)."""
    from sacrebleu.metrics.chrf import CHRF

    return float(CHRF().corpus_score(list(said), _columns(said, meant)).score)


def word_error_rate(said: Sequence[str], meant: Sequence[str]) -> float:
    """(changed + added + left out) / words that were meant, over all sentences together."""
    _require_pairs(said, meant)
    if not any(sentence.split() for sentence in meant):
        raise InputError("0 words were said", "give sentences that have some")
    return error_rate((a.split(), b.split()) for a, b in zip(said, meant, strict=True))


def bits_per_byte(nats: float, size: int) -> float:
    """Σ −log₂ p / bytes: how many bits a byte of the text costs the model that knows the text before it."""
    if size < 1:
        raise InputError(f"a text of {size} bytes", "give at least one")
    return nats / math.log(2) / size


def perplexity(nats: float, count: int) -> float:
    """e^{nats/count}: among how many equally likely ones it had to choose each time."""
    if count < 1:
        raise InputError(f"{count} predictions", "give at least one")
    return math.exp(nats / count)


def reciprocal_rank(scores: Sequence[float], right: Sequence[bool]) -> float:
    """1/rank of the best right one, sorted by score, best first; wrong ones go before right ones that tie."""
    _require_pairs(scores, right)
    value, good = np.asarray(scores, dtype=np.float64), np.asarray(right, dtype=bool)
    if not good.any():
        raise InputError("none of the candidates is right", "give at least one that is")
    return 1 / (1 + int((value[~good] >= value[good].max()).sum()))


def _require_pairs(said: Sequence[Any], meant: Sequence[Any]) -> None:
    if len(said) != len(meant) or not len(said):
        raise InputError(f"{len(said)} answers for {len(meant)} right ones", "give one for each, at least one")


def _columns(said: Sequence[str], meant: References) -> Any:
    """sacrebleu wants the first references of all, then the second ones, None where there is none."""
    _require_pairs(said, meant)
    lists = [[one] if isinstance(one, str) else list(one) for one in meant]
    if not all(lists):
        raise InputError("an answer has 0 references", "give at least one for each")
    return [[one[i] if i < len(one) else None for one in lists] for i in range(max(map(len, lists)))]
