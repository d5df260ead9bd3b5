"""translator: English to French by an encoder-decoder Transformer, and by an LSTM with attention of its size.

glassformer data fetch tatoeba-en-fr
OMP_NUM_THREADS=1 python recipes/translator.py [--out FOLDER] [--resume]
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from shared import SEED, arguments
from texts import Learner, compare, minutes, table, told, with_unit_tables

from glassformer.data import Pairs, bpe
from glassformer.data.sources import open_data
from glassformer.models import RecurrentSeq2Seq, Seq2Seq
from glassformer.pipelines.evaluate import score_translations
from glassformer.train import TrainArgs
from glassformer.train.objectives.translation import Translation, recurrent, save_translator, transformer

VOCABULARY, STEPS, TOKENS = 4000, 2600, 1200
PART = 300  # sentences of the test that are measured once more by themselves: soon done again
CARD = """# translator

English to French by an encoder-decoder Transformer of {parameters} parameters: 3 + 3 layers of 160, 5 heads, rotary
positions, byte-level byte-pair encoding with one vocabulary of 4,000 for both languages. Short everyday sentences.

**BLEU {bleu}, chrF {chrf}** on {sentences} held-out English sentences (weights as shipped, float16; beam of 4).
`{signature}`, against all {references} French translations that the corpus has of them; with only the first as
reference: BLEU {bleu1}, chrF {chrf1}.

## Data
Tatoeba's English and French sentences as www.manythings.org/anki selected them in 2020: contributors of tatoeba.org,
CC BY 2.0 FR; each line of the data names its authors. 170,625 pairs to learn from. The test has no English sentence
that was learned from, whatever its capitals and marks; a French sentence may be in both, for two English sentences can
mean the same. `glassformer data fetch tatoeba-en-fr`.

## How it was trained
`python recipes/translator.py`: {steps} steps of about 1,100 target tokens ({epochs:.1f} times through the set), AdamW
with warm-up and a cosine schedule, label smoothing 0.1, the running average of the weights. Seed {seed}. {minutes}
minutes of processor time on {machine}. Nothing was chosen by the test.

## Against an LSTM
The same pairs in the same order, the same steps, schedule and search. Same tokens, not same time: the LSTM is cheaper
for each. Its embeddings start with deviation 1, from which it learns faster than from those of the Transformer; its
rate was not searched for, and this is no verdict on longer trainings.

{table}

## Limits
It learned from sentences of six words on average: a long or literary one comes out wrong, names and rare words are
often replaced by commoner ones, and "you" may become tu or vous. It has not learned to say that it does not know.
"""


def learners(data: Path) -> list[Learner]:
    train, valid, test = (Pairs.open(data / f"{part}.tsv") for part in ("train", "valid", "test"))
    texts = (text for i in range(len(train)) for text in train.pair(i))
    tokenizer = bpe.train(texts, VOCABULARY, end="</s>")
    objective = Translation(train, valid, tokenizer, batch_tokens=TOKENS, label_smoothing=0.1, max_tokens=48, seed=SEED)
    plan = TrainArgs(
        steps=STEPS,
        lr=2e-3,
        warmup=STEPS // 13,
        betas=(0.9, 0.98),
        weight_decay=0.01,
        min_lr_ratio=0.02,
        ema=0.998,
        eval_every=STEPS // 4,
        save_every=100,
        seed=SEED,
        keep="last",
    )
    both: dict[str, Any] = {
        "objective": objective,
        "plan": plan,
        "save": lambda model, folder: save_translator(model, folder, tokenizer, languages=("en", "fr"), half=True),
        "measure": lambda model: {
            **score_translations(model, test),
            "part": score_translations(model, test, limit=PART),
        },
    }
    ours = partial(Seq2Seq, transformer(VOCABULARY, 160, 3, 5, 320), seed=SEED)
    peer = partial(with_unit_tables, partial(RecurrentSeq2Seq, recurrent(VOCABULARY, 136, 2)), seed=SEED)
    return [
        Learner(name="translator", what="encoder-decoder Transformer, 3 + 3 layers of 160", build=ours, **both),
        Learner(name="lstm", what="LSTM with attention, 2 + 2 layers of 136, encoder both ways", build=peer, **both),
    ]


def translator(out: Path, runs: Path, resume: bool) -> None:
    measured = compare(learners(open_data("tatoeba-en-fr")), runs, out, resume)
    (out / "card.md").write_text(CARD.format(**said(measured)), encoding="utf-8")
    print(f"translator: BLEU {measured['held_out']['bleu']:.1f} in {out}", flush=True)


def said(measured: dict[str, Any]) -> dict[str, Any]:
    """What the card says."""
    own, peer = measured["held_out"], measured["peers"]["lstm"]
    rows = [
        (name, one["what"], f"{one['parameters']:,}", minutes(one), f"{score['bleu']:.1f}", f"{score['chrf']:.1f}")
        for name, one, score in (("**this model**", measured, own), ("LSTM", peer, peer["held_out"]))
    ]
    numbers = {
        "bleu": f"{own['bleu']:.1f}",
        "chrf": f"{own['chrf']:.1f}",
        "bleu1": f"{own['bleu_first_reference']:.1f}",
        "chrf1": f"{own['chrf_first_reference']:.1f}",
        "sentences": f"{own['sentences']:,}",
        "references": f"{own['references']:,}",
        "signature": own["signature"],
        "epochs": measured["trained"]["epochs"],
    }
    return {**told(measured), **numbers, "table": table("|what|parameters|minutes|BLEU|chrF", rows)}


if __name__ == "__main__":
    given = arguments("translator", str(__doc__).splitlines()[0])
    translator(given.out, given.runs, given.resume)
