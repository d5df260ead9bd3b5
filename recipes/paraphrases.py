"""Paraphrases from sentence pairs (two sentences with the same translation), and how well a model retrieves them.

The baselines are bags of words: cosine similarity of word counts, and of TF-IDF vectors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy import sparse

from glassformer.data.sources.split import fraction, plain
from glassformer.errors import InputError

Matrix = np.ndarray[Any, np.dtype[np.float32]]


@dataclass(frozen=True)
class Paraphrases:
    """`texts`, the numbers of those that mean the same as each (`same`), and the cluster that each is in.

    A cluster is what chains of paraphrases connect: parts of it are never parted into training and test.
    """

    texts: list[str]
    same: list[set[int]]
    cluster: list[int]

    def pairs(self) -> list[tuple[int, int]]:
        return [(i, j) for i, others in enumerate(self.same) for j in sorted(others) if i < j]


def paraphrases(pairs: Iterable[tuple[str, str]]) -> Paraphrases:
    """Group sources that share a target, ignoring case and punctuation: `Hi!` and `Hi.` are one sentence."""
    number: dict[str, int] = {}
    texts: list[str] = []
    of_target: dict[str, set[int]] = {}
    for source, target in pairs:
        key = plain(source)
        if key not in number:
            number[key] = len(texts)
            texts.append(source)
        of_target.setdefault(plain(target), set()).add(number[key])
    same: list[set[int]] = [set() for _ in texts]
    root = list(range(len(texts)))

    def find(i: int) -> int:
        while root[i] != i:
            root[i] = root[root[i]]
            i = root[i]
        return i

    for group in of_target.values():
        for i, j in combinations(sorted(group), 2):
            same[i].add(j)
            same[j].add(i)
            root[find(j)] = find(i)
    return Paraphrases(texts, same, [find(i) for i in range(len(texts))])


def held_out(found: Paraphrases, part: float, alone: float) -> list[bool]:
    """Select the test sentences: `part` of the clusters, `alone` of the sentences without a paraphrase.

    By hash of the cluster's first sentence, so that it does not depend on anything else.
    """
    chance = [part if found.same[i] else alone for i in range(len(found.texts))]
    return [fraction(f"paraphrase {plain(found.texts[c])}") < chance[i] for i, c in enumerate(found.cluster)]


@dataclass(frozen=True)
class Retrieval:
    """Find, among all texts but itself, one that means the same as each query. `same` and `cluster` as above.

    Those of the query's cluster that do not share a translation with it count neither as right nor as wrong.
    """

    texts: list[str]
    same: list[set[int]]
    cluster: list[int]

    @property
    def queries(self) -> list[int]:
        return [i for i, others in enumerate(self.same) if others]

    def hard(self) -> list[int]:
        """Return the queries that share less than half of their words with each paraphrase: |a ∩ b| < |a ∪ b|/2."""
        words = [set(tokens(text)) for text in self.texts]
        alike = lambda i, j: 2 * len(words[i] & words[j]) >= len(words[i] | words[j])
        return [i for i in self.queries if not any(alike(i, j) for j in self.same[i])]

    def score(self, vectors: Matrix | sparse.csr_matrix, queries: Sequence[int] | None = None) -> dict[str, float]:
        """Return the mean reciprocal rank and the accuracy of the nearest neighbour, by cosine similarity."""
        asked = self.queries if queries is None else list(queries)
        if not asked:
            raise InputError("0 queries", "give texts that have paraphrases among them")
        cluster = np.array(self.cluster)
        ranks = []
        for start in range(0, len(asked), 256):
            some = asked[start : start + 256]
            S: Any = vectors[some] @ vectors.T
            rows = S.toarray() if sparse.issparse(S) else S
            for i, row in zip(some, rows, strict=True):
                right = np.zeros(len(row), dtype=bool)
                right[list(self.same[i])] = True
                wrong = ~right & (cluster != cluster[i])  # neither itself nor the rest of its cluster
                ranks.append(1 / (1 + int((row[wrong] >= row[right].max()).sum())))  # ties rank wrong ones first
        return {"mean_reciprocal_rank": float(np.mean(ranks)), "nearest": float(np.mean(np.array(ranks) == 1))}


def retrieval(found: Paraphrases, rows: Sequence[int]) -> Retrieval:
    """Return the retrieval test over some of the texts."""
    place = {row: i for i, row in enumerate(rows)}
    same = [{place[other] for other in found.same[row] if other in place} for row in rows]
    return Retrieval([found.texts[row] for row in rows], same, [found.cluster[row] for row in rows])


def tokens(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def bags(texts: Sequence[str], known: Sequence[str] | None = None) -> sparse.csr_matrix:
    """Return word counts as vectors of length 1, weighted by log(n/df) over `known` texts if given (TF-IDF)."""
    number: dict[str, int] = {}
    rows, columns = [], []
    for i, text in enumerate(texts):
        for word in tokens(text):
            rows.append(i)
            columns.append(number.setdefault(word, len(number)))
    shape = (len(texts), max(1, len(number)))
    counts = sparse.csr_matrix((np.ones(len(rows), dtype=np.float32), (rows, columns)), shape=shape)
    counts.sum_duplicates()
    if known is not None:
        seen = np.zeros(shape[1])
        for text in known:
            for word in set(tokens(text)):
                if word in number:
                    seen[number[word]] += 1
        weight = np.log((1 + len(known)) / (1 + seen)).astype(np.float32)
        counts = counts @ sparse.diags(weight)
    length = np.sqrt(np.asarray(counts.multiply(counts).sum(1))).ravel()
    return sparse.csr_matrix(sparse.diags(1 / np.maximum(length, 1e-9)).astype(np.float32) @ counts)


def lookalikes(found: Paraphrases, rows: Sequence[int], among: Sequence[int]) -> dict[int, int]:
    """Return, for each row, the most similar text of `among` by TF-IDF that is in another cluster."""
    texts = [found.texts[i] for i in among]
    B = bags(texts, texts)
    place = {row: i for i, row in enumerate(among)}
    cluster = np.array([found.cluster[i] for i in among])
    best: dict[int, int] = {}
    asked = [row for row in rows if row in place]
    for start in range(0, len(asked), 512):
        some = asked[start : start + 512]
        S = (B[[place[row] for row in some]] @ B.T).tocsr()
        for k, row in enumerate(some):
            part = slice(S.indptr[k], S.indptr[k + 1])
            columns, values = S.indices[part], S.data[part]
            other = cluster[columns] != found.cluster[row]
            if other.any():
                best[row] = among[int(columns[other][values[other].argmax()])]
    return best
