"""finder: vectors of words and sentences from a small encoder: masked words first, then paraphrases by contrast.

An LSTM and a CNN of its size learn by contrast beside it.

    glassformer data fetch tatoeba-en-fr
    OMP_NUM_THREADS=1 python recipes/finder.py [--out FOLDER] [--resume]
"""

from __future__ import annotations

import json
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from paraphrases import (
    Retrieval,
    bags,
    held_out,
    lookalikes,
    paraphrases,
    retrieval,
)
from shared import SEED, arguments
from texts import Learner, minutes, table, teach, told, with_unit_tables
from torch import nn

from glassformer.checkpoints import load
from glassformer.data import Pairs, bpe
from glassformer.data.sources import open_data
from glassformer.models import ConvNet1d, ConvNet1dConfig, Encoder, Recurrent, RecurrentConfig
from glassformer.models.sequence_io import Tokens
from glassformer.pipelines import embed
from glassformer.pipelines.evaluate import PAD, SPECIALS, pad_rows
from glassformer.runtime import card as circumstances
from glassformer.train import TrainArgs
from glassformer.train.objectives.contrastive import Contrastive, Triple, vectors
from glassformer.train.objectives.mlm import MaskedLM, SentenceList, encoded, save_encoder, transformer

VOCABULARY, MASKED, CONTRAST = 4000, 1000, 800
SIZE = {"width": 128, "depth": 3, "count": 4, "hidden": 384}
RANK = "mean_reciprocal_rank"
READS = {"classes": SIZE["width"], "pool": "mean", "dropout": 0.1}  # a peer's last layer gives the vector
CARD = """# finder

Vectors of English words and sentences: an encoder of {parameters} parameters, 3 layers of 128, 4 heads, rotary
positions, byte-level byte-pair encoding of 4,000 tokens; the mean over tokens, of length 1.

**Mean reciprocal rank {mrr}** in finding a paraphrase among {texts} held-out sentences (weights as shipped, float16),
where TF-IDF has {mrr_tfidf} and counts of words {mrr_counts}.

## The test
English sentences of Tatoeba that share a French translation are paraphrases (capitals and marks do not count). Chains
of them are clusters; a fifth of the clusters, and a twentieth of the sentences that have no paraphrase, are the test,
chosen by hash: {texts} sentences, of which {queries} are queries. Neither stage of training saw any of them. The
query's paraphrase is to be the nearest of all others by cosine. Hard are the {hard} queries that share less than half
of their words with each of their paraphrases. The inverse document frequencies of TF-IDF are those of the training
sentences.

{table}

## Against others of its size
Contrast alone, from scratch, without the masked words: the same pairs in the same order, the same steps and schedule.

{peers}

## Training data
The English side of Tatoeba's English and French sentences as www.manythings.org/anki selected them in 2020:
contributors of tatoeba.org, CC BY 2.0 FR; each line of the data names its authors. The French side only tells which
English sentences mean the same. `glassformer data fetch tatoeba-en-fr`.

## Training
`python recipes/finder.py`. First masked words (15 %, of which 80 % masked, 10 % replaced, 10 % kept): {masked_steps}
steps of 2,048 tokens; {masked_accuracy} of the masked tokens of held-out sentences are then guessed. Such vectors do
not reach TF-IDF, as the table shows. Then contrast: {pairs} pairs of paraphrases from the training clusters, both ways,
each with the sentence that looks most alike by TF-IDF and is no paraphrase, 64 at a time, {steps} steps. Seed {seed}.
{minutes} minutes of processor time for both on {machine}. Nothing was chosen by the test.

## Limitations
It knows short everyday English. A long text is more than it has ever seen, names are nearly alike to it, and what it
calls alike is what translators into French wrote alike.
"""


class Prepared:
    """The sentences, parted, and what both stages learn from."""

    def __init__(self, data: Path) -> None:
        files = [Pairs.open(data / f"{part}.tsv") for part in ("train", "valid", "test")]
        self.found = paraphrases(file.pair(i) for file in files for i in range(len(file)))
        test = held_out(self.found, 0.2, 0.05)
        self.rows = [i for i, held in enumerate(test) if not held]
        self.test: Retrieval = retrieval(self.found, [i for i, held in enumerate(test) if held])
        self.known = [self.found.texts[i] for i in self.rows]
        self.pairs = [(i, j) for i, j in self.found.pairs() if not test[i]]

    @cached_property
    def tokenizer(self) -> Any:
        return bpe.train(self.known, VOCABULARY, SPECIALS, begin="<s>", end="</s>")

    def is_watched(self, i: int) -> bool:
        """Of a cluster that is looked at on the way, and not learned from."""
        return self.found.cluster[i] % 40 == 0

    @cached_property
    def watched(self) -> list[tuple[str, str]]:
        return [(self.found.texts[i], self.found.texts[j]) for i, j in self.pairs if self.is_watched(i)]

    @cached_property
    def triples(self) -> list[Triple]:
        """What to learn from; whoever only judges does not wait for it."""
        texts = self.found.texts
        alike = lookalikes(self.found, [i for i in self.rows if self.found.same[i]], self.rows)
        return [
            (texts[i], texts[j], texts[alike[i]] if i in alike else None)
            for a, b in self.pairs
            for i, j in ((a, b), (b, a))
            if not self.is_watched(a)
        ]

    def judge(self, model: nn.Module) -> dict[str, Any]:
        return self.scored(embed(model, self.test.texts, batch=128).numpy())

    @torch.inference_mode()
    def judge_peer(self, model: nn.Module) -> dict[str, Any]:
        """`embed` is for encoders."""
        texts, found = self.test.texts, []
        for start in range(0, len(texts), 128):
            tokens = pad_rows(encoded(self.tokenizer, texts[start : start + 128]), PAD)
            found.append(vectors(model.eval(), tokens, tokens != PAD))
        return self.scored(torch.cat(found).numpy())

    def scored(self, X: NDArray[np.float32]) -> dict[str, Any]:
        return {"all": self.test.score(X), "hard": self.test.score(X, self.test.hard())}

    def bag(self) -> dict[str, Any]:
        kinds = {"counts": bags(self.test.texts), "tfidf": bags(self.test.texts, self.known)}
        hard = self.test.hard()
        return {name: {"all": self.test.score(B), "hard": self.test.score(B, hard)} for name, B in kinds.items()}


def learners(data: Path, runs: Path) -> list[Learner]:
    """Masked words, then contrast, which goes on from the weights of the first."""
    made = Prepared(data)
    some, rest = made.known[::100], [text for i, text in enumerate(made.known) if i % 100]
    masked = MaskedLM(
        SentenceList(rest), SentenceList(some), made.tokenizer, batch_tokens=2048, val_rows=len(some), seed=SEED
    )
    contrast = Contrastive(made.triples, made.watched, made.tokenizer, batch_size=64, seed=SEED)

    def go_on(seed: int) -> Encoder:
        model = Encoder(transformer(VOCABULARY, **SIZE, dropout=0.1), seed=seed)
        model.load_state_dict(load(runs / "words" / "model").state_dict())
        return model

    def one(name: str, what: str, build: Any, objective: Any, steps: int, rate: float, measure: Any) -> Learner:
        return Learner(
            name=name,
            what=what,
            build=partial(build, seed=SEED),
            objective=objective,
            plan=TrainArgs(
                steps=steps,
                lr=rate,
                warmup=steps // 20,
                betas=(0.9, 0.98),
                min_lr_ratio=0.02,
                eval_every=steps // 4,
                save_every=100,
                seed=SEED,
                weight_decay=0.01,
                keep="last",
            ),
            save=lambda model, folder: save_encoder(model, folder, made.tokenizer, half=True),
            measure=measure,
        )

    sizes = {
        "texts": len(made.test.texts),
        "queries": len(made.test.queries),
        "hard_queries": len(made.test.hard()),
        "triples": len(made.triples),
    }
    judge = lambda model: {**made.judge(model), "masked": masked.evaluate(model), "bags": made.bag(), **sizes}
    first = partial(Encoder, transformer(VOCABULARY, **SIZE))
    scratch = partial(Encoder, transformer(VOCABULARY, **SIZE, dropout=0.1))
    reads = Tokens(vocabulary=VOCABULARY)
    lstm = RecurrentConfig(reads=reads, width=150, layers=3, bidirectional=True, **READS)
    cnn = ConvNet1dConfig(reads=reads, width=128, blocks=5, cycle=3, causal=False, **READS)
    beside = partial(one, objective=contrast, steps=CONTRAST, rate=1e-3)
    return [
        one("words", "masked words alone", first, masked, MASKED, 2e-3, judge),
        one("finder", "masked words, then contrast", go_on, contrast, CONTRAST, 5e-4, judge),
        beside("transformer", "this network", scratch, measure=made.judge),
        beside(
            "lstm",
            f"LSTM, both ways, {lstm.layers} layers of {lstm.width}",
            partial(with_unit_tables, partial(Recurrent, lstm)),
            measure=made.judge_peer,
        ),
        beside("cnn", f"{cnn.blocks} blocks of {cnn.width}", partial(ConvNet1d, cnn), measure=made.judge_peer),
    ]


def finder(out: Path, runs: Path, resume: bool) -> None:
    stages = learners(open_data("tatoeba-en-fr"), runs)
    found = {stage.name: teach(stage, runs / stage.name, resume) for stage in stages}
    stages[1].save(load(runs / "finder" / "model"), out)
    measured = {"model": "finder", "seed": SEED, "machine": circumstances(), **found.pop("finder")}
    measured["stages"] = {"words": found.pop("words")}
    measured["peers"] = found
    (out / "measured.json").write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    (out / "card.md").write_text(CARD.format(**said(measured)), encoding="utf-8")
    print(f"finder: {measured['held_out']['all'][RANK]:.3f} in {out}", flush=True)


def said(measured: dict[str, Any]) -> dict[str, Any]:
    """What the card says."""
    own, words = measured["held_out"], measured["stages"]["words"]
    kinds = {
        "**this model**": own,
        "masked words alone": words["held_out"],
        "TF-IDF": own["bags"]["tfidf"],
        "counts of words": own["bags"]["counts"],
    }
    number = lambda one, part, name: f"{one[part][name]:.3f}"
    rows = [
        (name, *(number(one, part, what) for part in ("all", "hard") for what in (RANK, "nearest")))
        for name, one in kinds.items()
    ]
    beside = [
        (
            name,
            one["what"],
            f"{one['parameters']:,}",
            minutes(one),
            *(number(one["held_out"], part, RANK) for part in ("all", "hard")),
        )
        for name, one in measured["peers"].items()
    ]
    both = {"trained": {"processor_seconds": sum(s["trained"]["processor_seconds"] for s in (measured, words))}}
    return {
        **told(measured),
        "minutes": minutes(both),
        "mrr": number(own, "all", RANK),
        "mrr_tfidf": number(own["bags"]["tfidf"], "all", RANK),
        "mrr_counts": number(own["bags"]["counts"], "all", RANK),
        "texts": f"{own['texts']:,}",
        "queries": f"{own['queries']:,}",
        "hard": f"{own['hard_queries']:,}",
        "pairs": f"{own['triples'] // 2:,}",
        "masked_steps": f"{MASKED:,}",
        "masked_accuracy": f"{100 * words['held_out']['masked']['accuracy']:.0f} %",
        "table": table("|mean reciprocal rank|nearest is right|hard: rank|hard: nearest", rows),
        "peers": table("|what|parameters|minutes|mean reciprocal rank|hard", beside),
    }


if __name__ == "__main__":
    given = arguments("finder", str(__doc__).splitlines()[0])
    finder(given.out, given.runs, given.resume)
