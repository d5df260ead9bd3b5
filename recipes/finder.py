"""finder: a sentence encoder, pre-trained on masked tokens and fine-tuned on paraphrases with a contrastive loss.

glassformer data fetch tatoeba-en-fr
OMP_NUM_THREADS=1 python recipes/finder.py [--out FOLDER] [--resume]
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
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
from texts import Learner, card_fields, minutes, ship, table, teach
from torch import nn

from glassformer.checkpoints import load_folder
from glassformer.data import Lines, Pairs, bpe
from glassformer.data.python import reader_of
from glassformer.data.sources import open_data
from glassformer.models import Encoder
from glassformer.pipelines import embed
from glassformer.pipelines.evaluate import SPECIALS
from glassformer.train import TrainArgs
from glassformer.train.objectives.contrastive import Contrastive, Triple
from glassformer.train.objectives.mlm import MaskedLM, save_encoder, transformer

VOCABULARY, MASKED, CONTRAST = 4000, 1000, 800
SIZE = {"width": 128, "depth": 3, "count": 4, "hidden": 384}
RANK = "mean_reciprocal_rank"
CARD = """# finder

Embeds English words and sentences: an encoder with {parameters} parameters (3 layers of width 128, 4 heads, rotary
positions, a byte-level BPE vocabulary of 4,000; mean pooling, unit-length embeddings).

## Evaluation
**Mean reciprocal rank (MRR): {mrr}** for finding a paraphrase among {texts} held-out sentences by cosine similarity
(weights as shipped, float16). TF-IDF reaches {mrr_tfidf} and word counts {mrr_counts}.

{table}

English sentences of Tatoeba that share a French translation count as paraphrases, ignoring case and punctuation, and
chains of paraphrases form clusters. The test set is a fifth of the clusters and a twentieth of the sentences without a
paraphrase, chosen by hash: {texts} sentences, of which {queries} are queries. Neither stage of training used any of
them. The {hard} hard queries share less than half of their words with each of their paraphrases. The inverse document
frequencies of TF-IDF are those of the training sentences.

These figures are computed by `recipes/finder.py`. `glassformer evaluate -m finder tatoeba-en-fr` computes something
else: the rank of the French translation of each English sentence, and this model knows no French.

## Training data
The English side of the English–French sentence pairs of Tatoeba, selected by www.manythings.org/anki in 2020:
contributors of tatoeba.org, CC BY 2.0 FR; every line of the data names its authors. The French side only determines
which English sentences are paraphrases (`glassformer data fetch tatoeba-en-fr`).

## Training
`python recipes/finder.py`, two stages, AdamW, seed {seed}:
1. Masked language modelling (15 % of the tokens, of which 80 % are masked, 10 % replaced and 10 % kept): {masked_steps}
   steps of 2,048 tokens. {masked_accuracy} of the masked tokens of held-out sentences are then predicted correctly.
2. Contrastive fine-tuning on {pairs} pairs of paraphrases from the training clusters, in both directions, each with a
   hard negative (the sentence that is most similar by TF-IDF without being a paraphrase): {steps} steps of 64.

Both stages took {minutes} minutes of processor time on {machine}.
The test sentences were used only for the evaluation above.

## Limitations
The model is limited to short, everyday English. It was not trained on longer texts, hardly distinguishes names, and
its notion of similarity is based on shared French translations.
"""


class Prepared:
    """The sentences, split, and the training data of both stages."""

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
        """Whether a sentence belongs to a cluster that is used for validation."""
        return self.found.cluster[i] % 40 == 0

    @cached_property
    def watched(self) -> list[tuple[str, str]]:
        return [(self.found.texts[i], self.found.texts[j]) for i, j in self.pairs if self.is_watched(i)]

    @cached_property
    def triples(self) -> list[Triple]:
        """Anchor, paraphrase and lookalike; computed lazily, since evaluation does not need it."""
        texts = self.found.texts
        alike = lookalikes(self.found, [i for i in self.rows if self.found.same[i]], self.rows)
        return [
            (texts[i], texts[j], texts[alike[i]] if i in alike else None)
            for a, b in self.pairs
            for i, j in ((a, b), (b, a))
            if not self.is_watched(a)
        ]

    def judge(self, model: nn.Module) -> dict[str, Any]:
        return self.scored(embed(model, self.test.texts, batch_size=128).numpy())

    def scored(self, X: NDArray[np.float32]) -> dict[str, Any]:
        return {"all": self.test.score(X), "hard": self.test.score(X, self.test.hard())}

    def bag(self) -> dict[str, Any]:
        kinds = {"counts": bags(self.test.texts), "tfidf": bags(self.test.texts, self.known)}
        hard = self.test.hard()
        return {name: {"all": self.test.score(B), "hard": self.test.score(B, hard)} for name, B in kinds.items()}


def stages(data: Path, runs: Path) -> tuple[Learner, Learner]:
    """Masked language modelling, then contrastive fine-tuning of the weights of the first stage."""
    made = Prepared(data)
    some, rest = made.known[::100], [text for i, text in enumerate(made.known) if i % 100]
    masked = MaskedLM(
        Lines.open(reader_of(rest)), Lines.open(reader_of(some)), made.tokenizer,
        batch_tokens=2048, val_rows=len(some), seed=SEED,
    )
    contrast = Contrastive(made.triples, made.watched, made.tokenizer, batch_size=64, seed=SEED)

    def pretrained() -> Encoder:
        model = Encoder(transformer(VOCABULARY, **SIZE, dropout=0.1), seed=SEED)
        model.load_state_dict(load_folder(runs / "words" / "model").state_dict())
        return model

    sizes = {
        "texts": len(made.test.texts),
        "queries": len(made.test.queries),
        "hard_queries": len(made.test.hard()),
        "triples": len(made.triples),
    }

    def one(name: str, what: str, build: Callable[[], nn.Module], objective: Any, steps: int, rate: float) -> Learner:
        return Learner(
            name=name,
            what=what,
            build=build,
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
            measure=lambda model: {
                **made.judge(model),
                "masked": masked.evaluate(model),
                "bags": made.bag(),
                **sizes,
            },
        )

    scratch = lambda: Encoder(transformer(VOCABULARY, **SIZE), seed=SEED)
    return (
        one("words", "masked words alone", scratch, masked, MASKED, 2e-3),
        one("finder", "masked words, then contrast", pretrained, contrast, CONTRAST, 5e-4),
    )


def finder(out: Path, runs: Path, resume: bool) -> None:
    words, last = stages(open_data("tatoeba-en-fr"), runs)
    first = teach(words, runs / words.name, resume)
    measured = ship(last, runs, out, resume) | {"stages": {words.name: first}}
    (out / "measured.json").write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    (out / "card.md").write_text(CARD.format(**fields(measured)), encoding="utf-8")
    print(f"finder: {measured['held_out']['all'][RANK]:.3f} in {out}", flush=True)


def fields(measured: dict[str, Any]) -> dict[str, Any]:
    own, words = measured["held_out"], measured["stages"]["words"]
    kinds = {
        "**this model**": own,
        "after stage 1, masked language modelling": words["held_out"],
        "TF-IDF": own["bags"]["tfidf"],
        "word counts": own["bags"]["counts"],
    }
    number = lambda one, part, name: f"{one[part][name]:.3f}"
    rows = [
        (name, *(number(one, part, what) for part in ("all", "hard") for what in (RANK, "nearest")))
        for name, one in kinds.items()
    ]
    both = {"trained": {"processor_seconds": sum(s["trained"]["processor_seconds"] for s in (measured, words))}}
    return {
        **card_fields(measured),
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
        "table": table("|MRR|accuracy@1|hard queries: MRR|hard queries: accuracy@1", rows),
    }


if __name__ == "__main__":
    given = arguments("finder", str(__doc__).splitlines()[0])
    finder(given.out, given.runs, given.resume)
