"""finder: vectors of words and sentences from a small encoder: masked words first, then paraphrases by contrast.

glassformer data fetch tatoeba-en-fr
OMP_NUM_THREADS=1 python recipes/finder.py [--out FOLDER] [--resume]
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from pictures import SEED, arguments, machine
from texts import Learner, minutes, table, teach, told
from torch import nn

from glassformer.checkpoints import load
from glassformer.models import Encoder
from glassformer.tasks import embed
from glassformer.tasks.data import Pairs, bpe
from glassformer.tasks.learn.masked import SPECIALS, Listed, MaskedLesson, save_finder, transformer
from glassformer.tasks.learn.paraphrases import (
    Retrieval,
    bags,
    held_out,
    lookalikes,
    paraphrases,
    retrieval,
)
from glassformer.tasks.learn.vectors import ContrastLesson, Triple
from glassformer.tasks.sources import open_data
from glassformer.tasks.training import Optimise, Plan

VOCABULARY, MASKED, CONTRAST = 4000, 1000, 800
SIZE = {"width": 128, "depth": 3, "count": 4, "hidden": 384}
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

## Data
The English side of Tatoeba's English and French sentences as www.manythings.org/anki selected them in 2020:
contributors of tatoeba.org, CC BY 2.0 FR; each line of the data names its authors. The French side only tells which
English sentences mean the same. `glassformer data fetch tatoeba-en-fr`.

## How it was trained
`python recipes/finder.py`. First masked words (15 %, of which 80 % masked, 10 % replaced, 10 % kept): {masked_steps}
steps of 2,048 tokens; {masked_accuracy} of the masked tokens of held-out sentences are then guessed. Such vectors do
not reach TF-IDF, as the table shows. Then contrast: {pairs} pairs of paraphrases from the training clusters, both ways,
each with the sentence that looks most alike by TF-IDF and is no paraphrase, 64 at a time, {steps} steps. Seed {seed}.
{minutes} minutes of processor time for both on {machine}. Nothing was chosen by the test.

## Limits
It knows short everyday English. A long text is more than it has ever seen, names are nearly alike to it, and what it
calls alike is what translators into French wrote alike.
"""


class Prepared:
    """The sentences, parted, and what both stages learn from."""

    def __init__(self, data: Path) -> None:
        files = [Pairs.open(data / f"{part}.tsv") for part in ("train", "valid", "test")]
        found = paraphrases(file.pair(i) for file in files for i in range(len(file)))
        test = held_out(found, 0.2, 0.05)
        rows = [i for i, held in enumerate(test) if not held]
        self.test: Retrieval = retrieval(found, [i for i, held in enumerate(test) if held])
        self.known = [found.texts[i] for i in rows]
        self.tokenizer = bpe.train(self.known, VOCABULARY, SPECIALS, begin="<s>", end="</s>")
        alike = lookalikes(found, [i for i in rows if found.same[i]], rows)
        pairs = [(i, j) for i, j in found.pairs() if not test[i]]
        watched = lambda i: found.cluster[i] % 40 == 0  # clusters that are looked at on the way, and not learned from
        self.watched = [(found.texts[i], found.texts[j]) for i, j in pairs if watched(i)]
        self.triples: list[Triple] = [
            (found.texts[i], found.texts[j], found.texts[alike[i]] if i in alike else None)
            for a, b in pairs
            for i, j in ((a, b), (b, a))
            if not watched(a)
        ]

    def judge(self, model: nn.Module) -> dict[str, Any]:
        vectors = embed(model, self.test.texts, batch=128).numpy()
        return {"all": self.test.score(vectors), "hard": self.test.score(vectors, self.test.hard())}

    def bag(self) -> dict[str, Any]:
        kinds = {"counts": bags(self.test.texts), "tfidf": bags(self.test.texts, self.known)}
        hard = self.test.hard()
        return {name: {"all": self.test.score(B), "hard": self.test.score(B, hard)} for name, B in kinds.items()}


def learners(data: Path, runs: Path) -> list[Learner]:
    """Masked words, then contrast, which goes on from the weights of the first."""
    made = Prepared(data)
    some, rest = made.known[::100], [text for i, text in enumerate(made.known) if i % 100]
    masked = MaskedLesson(Listed(rest), Listed(some), made.tokenizer, tokens=2048, held_rows=len(some), seed=SEED)
    contrast = ContrastLesson(made.triples, made.watched, made.tokenizer, size=64, seed=SEED)

    def go_on(seed: int) -> Encoder:
        model = Encoder(transformer(VOCABULARY, **SIZE, dropout=0.1), seed=seed)
        model.load_state_dict(load(runs / "words" / "model").state_dict())
        return model

    def one(name: str, what: str, build: Any, lesson: Any, steps: int, rate: float) -> Learner:
        optimise = Optimise(rate=rate, warmup=steps // 20, betas=(0.9, 0.98), floor=0.02)
        return Learner(
            name=name,
            what=what,
            build=partial(build, seed=SEED),
            lesson=lesson,
            plan=Plan(steps=steps, optimise=optimise, measure_every=steps // 4, save_every=100, seed=SEED),
            save=lambda model, folder: save_finder(model, folder, made.tokenizer, half=True),
            measure=lambda model: {**made.judge(model), "masked": masked.measure(model), "bags": made.bag(), **sizes},
        )

    sizes = {
        "texts": len(made.test.texts),
        "queries": len(made.test.queries),
        "hard_queries": len(made.test.hard()),
        "triples": len(made.triples),
    }
    first = partial(Encoder, transformer(VOCABULARY, **SIZE))
    return [
        one("words", "masked words alone", first, masked, MASKED, 2e-3),
        one("finder", "masked words, then contrast", go_on, contrast, CONTRAST, 5e-4),
    ]


def finder(out: Path, runs: Path, resume: bool) -> None:
    stages = learners(open_data("tatoeba-en-fr"), runs)
    words, last = (teach(stage, runs / stage.name, resume) for stage in stages)
    stages[-1].save(load(runs / "finder" / "model"), out)
    measured = {"model": "finder", "seed": SEED, "machine": machine(), **last}
    measured["stages"] = {"words": words}
    (out / "measured.json").write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    (out / "card.md").write_text(CARD.format(**said(measured)), encoding="utf-8")
    print(f"finder: {measured['held_out']['all']['mean_reciprocal_rank']:.3f} in {out}", flush=True)


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
        (name, *(number(one, part, what) for part in ("all", "hard") for what in ("mean_reciprocal_rank", "nearest")))
        for name, one in kinds.items()
    ]
    both = {"trained": {"processor_seconds": sum(s["trained"]["processor_seconds"] for s in (measured, words))}}
    return {
        **told(measured),
        "minutes": minutes(both),
        "mrr": number(own, "all", "mean_reciprocal_rank"),
        "mrr_tfidf": number(own["bags"]["tfidf"], "all", "mean_reciprocal_rank"),
        "mrr_counts": number(own["bags"]["counts"], "all", "mean_reciprocal_rank"),
        "texts": f"{own['texts']:,}",
        "queries": f"{own['queries']:,}",
        "hard": f"{own['hard_queries']:,}",
        "pairs": f"{own['triples'] // 2:,}",
        "masked_steps": f"{MASKED:,}",
        "masked_accuracy": f"{100 * words['held_out']['masked']['accuracy']:.0f} %",
        "table": table("|mean reciprocal rank|nearest is right|hard: rank|hard: nearest", rows),
    }


if __name__ == "__main__":
    given = arguments("finder", str(__doc__).splitlines()[0])
    finder(given.out, given.runs, given.resume)
