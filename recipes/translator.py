"""translator: English to French by an encoder-decoder Transformer.

glassformer data fetch tatoeba-en-fr
OMP_NUM_THREADS=1 python recipes/translator.py [--out FOLDER] [--resume] [--describe]
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import phrases
import torch
from shared import SEED, arguments, learn
from texts import Learner, card_fields, minutes, ship, teach
from torch import nn

from glassformer.checkpoints import load_folder
from glassformer.data import Pairs, bpe
from glassformer.data.sources import open_data
from glassformer.data.sources.split import plain
from glassformer.models import Seq2Seq, Seq2SeqConfig
from glassformer.pipelines import translate
from glassformer.pipelines.evaluate import score_answers, translate_pairs
from glassformer.pipelines.translate import as_sentence
from glassformer.train import Batch, TrainArgs
from glassformer.train.objectives.translation import Translation, save_translator, transformer

VOCABULARY, TOKENS = 4000, 1200
LANGUAGES = ("en", "fr")
WIDTH, HEADS = 160, 5
OUTPUTS = ("attention.WO.weight", "cross.WO.weight", "ffn.W2.weight")
FIRST_STEPS = 2600
STEPS = (1300, 1900)  # the run of the second stage is resumed once with more steps, which restarts the schedule
PART = 600  # test sentences that are translated, spread over the test split
EVERYDAY = Path(__file__).parent / "everyday.tsv"
FINAL = re.compile(r"\s*[.!?…]+$")
SENTENCE = re.compile(r"[.!?]$")
# Copies of a row per epoch by its number of English words: people type short phrases more often than Tatoeba has them.
SHORT = {1: 12, 2: 3, 3: 2}
WORDS = 12  # copies of an extracted single word
RENAMED = 0.3  # share of the sentences with a person's name in which it is replaced
RENUMBERED = 0.7  # share of the sentences with a number in digits in which it is replaced
PRONOUNS = ({"he", "she", "it", "we", "they", "you", "I"}, {"il", "elle", "nous", "ils", "elles", "vous", "tu", "je"})


class Augmented(Translation):
    """Translation with random casing and punctuation of the source, and sentences joined in pairs."""

    def batch(self, rows: Sequence[int], seed: int) -> Batch | None:
        both = self.faults.each(rows, self.train.pair)
        return self._batch(augment(both, random.Random(seed))) if both else None

    def fingerprint(self) -> dict[str, Any]:
        return super().fingerprint() | {"augmented": True}


def augment(pairs: Sequence[phrases.Pair], rng: random.Random) -> list[phrases.Pair]:
    """Join the pairs of one batch in ten two by two, then vary each pair."""
    if len(pairs) > 1 and rng.random() < 0.1:
        pairs = [join(one, other, rng) for one, other in zip(pairs[::2], pairs[1::2], strict=False)]
    return [vary(source, target, rng) for source, target in pairs]


def join(one: phrases.Pair, other: phrases.Pair, rng: random.Random) -> phrases.Pair:
    """Two sentences after one another, or two clauses with `and` or `but` where the second begins with a pronoun."""
    firsts = [text.split()[0] for text in other]
    pronouns = firsts[0] in {word.capitalize() for word in PRONOUNS[0]} and firsts[1].lower() in PRONOUNS[1]
    statements = all(text.endswith(".") for text in (*one, *other))
    if pronouns and statements:
        ours, theirs = rng.choice(((" and ", " et "), (", and ", ", et "), (", but ", ", mais "), (" but ", " mais ")))
        source = other[0] if firsts[0] == "I" else other[0][0].lower() + other[0][1:]
        return one[0][:-1] + ours + source, one[1][:-1] + theirs + other[1][0].lower() + other[1][1:]
    if all(SENTENCE.search(text) for text in one):
        return f"{one[0]} {other[0]}", f"{one[1]} {other[1]}"
    return one


def vary(source: str, target: str, rng: random.Random) -> phrases.Pair:
    """Rename people, change numbers, the final mark, case and apostrophes; then mostly write a sentence again.

    `translate` writes every source as a sentence, so that is what the model has to learn most.
    """
    source, target = phrases.rename(source, target, rng) if rng.random() < RENAMED else (source, target)
    source, target = phrases.renumber(source, target, rng) if rng.random() < RENUMBERED else (source, target)
    if rng.random() < 0.25:
        source, target = FINAL.sub("", source), FINAL.sub("", target)
    case = rng.random()
    if case < 0.15:
        source = source.lower()
    elif case < 0.17:
        source = source.upper()
    if rng.random() < 0.05:
        source = source.replace("'", "’")
    if source and target and rng.random() < 0.9:
        source, added = as_sentence(source)
        target = target[0].upper() + target[1:]
        target = f"{FINAL.sub('', target)}." if added else target
    return source or ".", target or "."


def training_pairs(data: Path, runs: Path) -> Pairs:
    """The training split with phrases extracted from it; short pairs are repeated."""
    path = runs / "train.tsv"
    if not path.is_file():
        train, valid, test = (Pairs.open(data / f"{part}.tsv") for part in ("train", "valid", "test"))
        pairs = [train.pair(i) for i in range(len(train))]
        held_out = [some.source(i) for some in (valid, test) for i in range(len(some))]
        extracted = phrases.extract(pairs, held_out)
        rows = [pair for pair in pairs for _ in range(SHORT.get(len(pair[0].split()), 1))]
        rows += [pair for pair in extracted for _ in range(WORDS if len(pair[0].split()) == 1 else 3)]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{source}\t{target}\n" for source, target in rows), encoding="utf-8")
        print(f"{len(pairs):,} pairs, {len(extracted):,} extracted phrases, {len(rows):,} rows per epoch", flush=True)
    return Pairs.open(path)


def short_pairs(data: Path, runs: Path) -> Pairs:
    """Short training pairs and extracted phrases, with one longer sentence in eight, for the third stage.

    In batches of about equally many tokens short pairs make up few optimizer steps; here they make up most of them.
    """
    path = runs / "short.tsv"
    if not path.is_file():
        pairs = training_pairs(data, runs)
        rows = [pairs.pair(i) for i in range(len(pairs))]
        kept = [pair for i, pair in enumerate(rows) if len(pair[0].split()) <= 3 or i % 8 == 0]
        path.write_text("".join(f"{source}\t{target}\n" for source, target in kept), encoding="utf-8")
    return Pairs.open(path)


def tokenizer_for(pairs: Pairs) -> Any:
    return bpe.train((text for i in range(len(pairs)) for text in pairs.pair(i)), VOCABULARY, end="</s>")


@dataclass(frozen=True)
class Growth:
    """The model of a stage: for each layer, the layer of the stage before that it starts from."""

    encoder: tuple[int, ...]
    decoder: tuple[int, ...]
    hidden: int

    def config(self) -> Seq2SeqConfig:
        made = transformer(VOCABULARY, WIDTH, len(self.encoder), HEADS, self.hidden)
        return replace(made, target=replace(made.target, depth=len(self.decoder)))


SMALL = Growth((0, 1, 2), (0, 1, 2), 320)
MEDIUM = Growth((0, 0, 1, 1, 2), (0, 1, 2, 2), 640)
LARGE = Growth((0, 1, 2, 2, 3, 4, 4), (0, 1, 2, 3, 3), 1280)


@torch.no_grad()
def grow(model: nn.Module, growth: Growth, seed: int = SEED) -> Seq2Seq:
    """Return a deeper model with wider feed-forward layers that computes the same function.

    An added layer is a copy of its predecessor whose output projections are 0; added hidden units have output weights
    0. Chen et al., "Net2Net", 2016.
    """
    grown, old = Seq2Seq(growth.config(), seed=seed), model.state_dict()
    own = grown.state_dict()
    for name, weight in own.items():
        stack, layer, rest = [*name.split(".", 2), "", ""][:3]
        if not layer.isdigit():
            weight.copy_(old[name])
            continue
        order = growth.encoder if stack == "encoder" else growth.decoder
        at = int(layer)
        source = old[f"{stack}.{order[at]}.{rest}"]
        added = at > 0 and order[at] == order[at - 1]
        if rest in OUTPUTS and added:
            weight.zero_()
        elif rest == "ffn.W1.weight":
            weight[: len(source)] = source
        elif rest == "ffn.W2.weight":
            weight.zero_()
            weight[:, : source.shape[1]] = source
        else:
            weight.copy_(source)
    grown.load_state_dict(own)
    return grown


def plan(steps: int, **changes: Any) -> TrainArgs:
    given = {
        "steps": steps,
        "lr": 2e-3,
        "warmup": steps // 13,
        "betas": (0.9, 0.98),
        "weight_decay": 0.01,
        "min_lr_ratio": 0.02,
        "ema": 0.998,
        "eval_every": steps // 4,
        "save_every": 100,
        "seed": SEED,
        "keep": "last",
    }
    return TrainArgs(**given | changes)


SECOND: dict[str, Any] = {
    "lr": 1.2e-3,
    "schedule": "wsd",
    "warmup": 100,
    "min_lr_ratio": 0.0,
    "eval_every": 200,
    "precision": "auto",
    "keep": "best",
}

THIRD_STEPS, THIRD_TOKENS = 150, 300
THIRD: dict[str, Any] = SECOND | {"lr": 4e-4, "warmup": 20, "ema": 0.99, "eval_every": 0, "keep": "last"}


FOURTH_STEPS = 3700
FOURTH: dict[str, Any] = SECOND | {"lr": 1e-3, "ema": 0.998, "eval_every": 500}

FIFTH_STEPS, FIFTH_TOKENS = 1400, 2000
FIFTH: dict[str, Any] = FOURTH | {"lr": 8e-4, "eval_every": 250}

SIXTH_STEPS = 1250


STAGES = ("first", "second", "third", "fourth", "fifth")  # all but the last, whose model is shipped


# ---- measurement -----------------------------------------------------------------------------------------------------


def measure(model: nn.Module, train: Pairs, test: Pairs) -> dict[str, Any]:
    """BLEU and chrF on the test split and on its parts near to and far from training sentences; everyday phrases."""
    found = translate_pairs(model, test, limit=PART)
    near = phrases.one_word_away([one.source for one in found], (train.source(i) for i in range(len(train))))
    score = lambda some: score_answers([one.answer for one in some], [one.references for one in some]) if some else None
    return {
        **score_answers([one.answer for one in found], [one.references for one in found]),
        "one_word_from_a_training_sentence": score([one for one in found if one.source in near]),
        "rest": score([one for one in found if one.source not in near]),
        "everyday": everyday(model, train, test),
    }


def everyday(model: nn.Module, train: Pairs, test: Pairs) -> dict[str, Any]:
    """Phrases whose translation is an accepted one, whatever its case and punctuation."""
    found = translate_pairs(model, Pairs.open(EVERYDAY))
    pairs = [train.pair(i) for i in range(len(train))]
    known = {plain(source) for source, _ in pairs}
    words = {plain(source) for source, _ in phrases.extract(pairs, [test.source(i) for i in range(len(test))])}
    right = [one for one in found if plain(one.answer) in {plain(text) for text in one.references}]
    extracted = [one for one in found if plain(one.source) in words - known]
    unseen = [one for one in found if plain(one.source) not in words | known]
    return {
        "phrases": len(found),
        "right": len(right),
        "not_in_training": len(unseen),
        "not_in_training_right": len([one for one in unseen if one in right]),
        "extracted": len(extracted),
        "extracted_right": len([one for one in extracted if one in right]),
        "wrong": [[one.source, one.answer] for one in found if one not in right],
    }


# ---- training --------------------------------------------------------------------------------------------------------


def translator(out: Path, runs: Path, resume: bool) -> None:
    data = open_data("tatoeba-en-fr")
    train, valid, test = (Pairs.open(data / f"{part}.tsv") for part in ("train", "valid", "test"))
    tokenizer = tokenizer_for(train)
    settings: dict[str, Any] = {"batch_tokens": TOKENS, "label_smoothing": 0.1, "max_tokens": 48, "seed": SEED}
    save = lambda model, folder: save_translator(
        model, folder, tokenizer, languages=LANGUAGES, half=True, normalize_source=True
    )
    first = Learner(
        name="small",
        what="3 + 3 layers",
        build=lambda: Seq2Seq(SMALL.config(), seed=SEED),
        objective=Translation(train, valid, tokenizer, **settings),
        plan=plan(FIRST_STEPS),
        save=save,
        measure=lambda model: {},
    )
    teach(first, runs / first.name, resume, measured=False)
    second = Learner(
        name="grown",
        what="5 + 4 layers",
        build=lambda: grow(load_folder(runs / first.name / "model").float(), MEDIUM),
        objective=Augmented(training_pairs(data, runs), valid, tokenizer, **settings),
        plan=plan(STEPS[-1], **SECOND),
        save=save,
        measure=lambda model: {},
    )
    resumed = runs / second.name / "resumed"
    if not (resume and resumed.is_file()):
        for steps in STEPS[:-1]:
            learn(second.name, second.build(), second.objective, plan(steps, **SECOND), runs / second.name, resume)
        resumed.touch()
    teach(second, runs / second.name, True, measured=False)
    third = Learner(
        name="short",
        what="5 + 4 layers",
        build=lambda: load_folder(runs / second.name / "model").float(),
        objective=Augmented(short_pairs(data, runs), valid, tokenizer, **settings | {"batch_tokens": THIRD_TOKENS}),
        plan=plan(THIRD_STEPS, **THIRD),
        save=save,
        measure=lambda model: {},
    )
    teach(third, runs / third.name, resume, measured=False)
    fourth = Learner(
        name="longer",
        what="5 + 4 layers",
        build=lambda: load_folder(runs / third.name / "model").float(),
        objective=Augmented(training_pairs(data, runs), valid, tokenizer, **settings | {"seed": SEED + 1}),
        plan=plan(FOURTH_STEPS, **FOURTH),
        save=save,
        measure=lambda model: {},
    )
    teach(fourth, runs / fourth.name, resume, measured=False)
    changes = {"seed": SEED + 2, "batch_tokens": FIFTH_TOKENS}
    fifth = Learner(
        name="larger",
        what="7 + 5 layers",
        build=lambda: grow(load_folder(runs / fourth.name / "model").float(), LARGE),
        objective=Augmented(training_pairs(data, runs), valid, tokenizer, **settings | changes),
        plan=plan(FIFTH_STEPS, **FIFTH),
        save=save,
        measure=lambda model: {},
    )
    teach(fifth, runs / fifth.name, resume, measured=False)
    sixth = Learner(
        name="translator",
        what="encoder-decoder Transformer",
        build=lambda: load_folder(runs / fifth.name / "model").float(),
        objective=Augmented(training_pairs(data, runs), valid, tokenizer, **settings | changes | {"seed": SEED + 3}),
        plan=plan(SIXTH_STEPS, **FIFTH),
        save=save,
        measure=lambda model: measure(model, train, test),
    )
    measured = ship(sixth, runs, out, resume)
    for name, one in zip(STAGES, (first, second, third, fourth, fifth), strict=True):
        measured[f"{name}_stage"] = json.loads((runs / one.name / "trained.json").read_text(encoding="utf-8"))
    write(out, measured)


def describe(out: Path) -> None:
    """Measure the model that is in `out` already; how it was trained is read from its measured.json."""
    data = open_data("tatoeba-en-fr")
    train, test = (Pairs.open(data / f"{part}.tsv") for part in ("train", "test"))
    measured = json.loads((out / "measured.json").read_text(encoding="utf-8"))
    write(out, measured | {"held_out": measure(load_folder(out), train, test)})


def write(out: Path, measured: dict[str, Any]) -> None:
    (out / "measured.json").write_text(json.dumps(measured, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (out / "card.md").write_text(CARD.format(**fields(measured, load_folder(out))), encoding="utf-8")
    print(f"translator: BLEU {measured['held_out']['bleu']:.1f} in {out}", flush=True)


def fields(measured: dict[str, Any], model: nn.Module) -> dict[str, Any]:
    held = measured["held_out"]
    said = held["everyday"]
    bleu_of = lambda part: "–" if part is None else f"{part['bleu']:.1f}"
    count_of = lambda part: "0" if part is None else f"{part['sentences']:,}"
    near, rest = held["one_word_from_a_training_sentence"], held["rest"]
    stages = [measured[f"{which}_stage"] for which in STAGES] + [measured["trained"]]
    return {
        **card_fields(measured),
        "bleu": f"{held['bleu']:.1f}",
        "chrf": f"{held['chrf']:.1f}",
        "bleu1": f"{held['bleu_first_reference']:.1f}",
        "sentences": f"{held['sentences']:,}",
        "references": f"{held['references']:,}",
        "signature": held["signature"],
        "near": bleu_of(near),
        "near_count": count_of(near),
        "rest": bleu_of(rest),
        "rest_count": count_of(rest),
        "phrases": said["phrases"],
        "right": said["right"],
        "unseen": said["not_in_training"],
        "unseen_right": said["not_in_training_right"],
        "extracted": said["extracted"],
        "extracted_right": said["extracted_right"],
        "wrong": "\n".join(f"- {source} → {answer}" for source, answer in said["wrong"]) or "none",
        "examples": "\n".join(f"- {text} → {translate(model, text)}" for text in EXAMPLES),
        "first_steps": f"{stages[0]['steps']:,}",
        "second_steps": f"{stages[1]['steps']:,}",
        "third_steps": f"{stages[2]['steps']:,}",
        "fourth_steps": f"{stages[3]['steps']:,}",
        "fifth_steps": f"{stages[4]['steps']:,}",
        "steps": f"{stages[5]['steps']:,}",
        "epochs": f"{measured['trained']['epochs']:.1f}",
        "minutes": " + ".join(minutes({"trained": one}) for one in stages),
    }


EXAMPLES = ("hello", "thank you", "Yes", "paris is the capital of france", "I am tired, but I am happy.")
CARD = """# translator

Translates short English sentences and phrases into French: an encoder-decoder Transformer with {parameters} parameters
(7 encoder and 5 decoder layers, width 160, 5 heads, rotary positions, a shared byte-level BPE vocabulary of 4,000).

The training data consists of whole sentences, so every input is normalised to one (`normalize_source` in
glassformer.json): text in capitals is lower-cased, the first letter is capitalised, and a full stop is added where
there is no final punctuation and removed from the translation.

## Evaluation
All figures are for the weights as shipped (float16) with a beam of 4, as `glassformer translate` and
`glassformer evaluate tatoeba-en-fr -m translator --limit {sentences}` use them.

| data | sentences | BLEU |
|---|---|---|
| Tatoeba test split, every fourth sentence | {sentences} | **{bleu}** (chrF {chrf}) |
| … sentences at most one word away from a training sentence | {near_count} | {near} |
| … all other sentences | {rest_count} | {rest} |

BLEU is sacreBLEU's `{signature}`
against all {references} references; against the first reference alone it is {bleu1}.
Many Tatoeba sentences are variations of one another, so the last row is a better estimate for new sentences.

**Everyday phrases** (`recipes/everyday.tsv`, written for this purpose: greetings, single words, phrases without a full
stop or in lower case, questions, two clauses): {right} of {phrases} translations are among the accepted ones, ignoring
case and punctuation. Of the {unseen} phrases that are not in the training data in any spelling, {unseen_right} are
accepted; {extracted} others are there only as phrases extracted from longer sentences, mostly single words, of which
{extracted_right} are accepted. The answers of the list were not used for training. However, extracted words, the
third stage and the normalisation of the input were added, and single words were repeated more often, after failures on
this list had been seen, so the list is not entirely held out.

{examples}

Not accepted:

{wrong}

## Training data
English–French sentence pairs of Tatoeba, selected by www.manythings.org/anki in 2020: contributors of tatoeba.org,
CC BY 2.0 FR; every line of the data names its authors (`glassformer data fetch tatoeba-en-fr`). 170,625 training pairs,
split by English sentence ignoring case and punctuation. A French sentence may occur in two splits, since two English
sentences can have the same translation.

From the second stage on, phrases extracted from the training pairs (clauses, single words, nouns with determiners;
`recipes/phrases.py`) are added and short pairs are repeated. At random, final punctuation is left out on both sides,
the source is lower-cased or upper-cased, the most common first names are replaced by others or by invented ones, and
pairs are joined into two sentences or two clauses; nine sources in ten are then normalised as above. In the sixth
stage, a number in digits that both texts contain is replaced by another in seven pairs of ten.

## Training
`python recipes/translator.py`, six stages, AdamW, label smoothing 0.1, exponential moving average of the weights,
seed {seed}:
1. {first_steps} steps of a model with 3 + 3 layers on the plain pairs, cosine schedule.
2. The model is grown to 5 + 4 layers and twice the feed-forward width, preserving its function (Net2Net), then
   trained for {second_steps} steps on the augmented data, warmup-stable-decay schedule, resumed once with more steps
   after 1,300. The weights with the best validation loss are kept.
3. {third_steps} small steps on phrases of up to three words and one longer sentence in eight.
4. {fourth_steps} steps on the augmented data, warmup-stable-decay schedule. The number of steps was changed while it
   ran, according to the time that was left (to 4,000, 5,800, 4,500 and, at step 3,097, the final number). The weights
   with the best validation loss, which are the last ones, are kept.
5. The model is grown once more, to 7 + 5 layers and twice the feed-forward width, and trained for {fifth_steps} steps
   in batches of about 2,000 tokens instead of 1,200, warmup-stable-decay schedule. The number of steps was reduced from
   1,800 at step 135, long before the decay. The weights with the best validation loss are kept.
6. The same model, for {steps} further steps ({epochs} epochs) with a new schedule of the same kind, in bfloat16. The
   number of steps was reduced from 3,000 at step 812, before the decay. The weights with the best validation loss are
   kept.

The first three stages were run with an earlier augmentation, without names and with less normalisation (the recipe of
commit 17408d5). The fifth and sixth stages started from the float16 weights that the stage before had saved.

Training took {minutes} minutes of processor time on one thread: the first four
stages on AMD EPYC, the fifth on Intel Xeon at 2.80 GHz, the sixth on {machine}.
The sixth stage lowered the validation loss from 1.053 to 1.027 nats per token, which is why its weights are shipped;
BLEU on the test split is about the same as before (52.1). The test split was used only for the evaluation above.

## Limitations
Training sentences have six words on average, so long or literary sentences are translated badly. Rare words and names
are often replaced by more common ones (Anna becomes Ande), some single words and greetings are wrong, and "you" becomes
tu or vous arbitrarily. Numbers are sometimes changed (It costs 25 euros. → Ça coûte 15 eurelles.), and an adjective
with its noun is often wrong (cold water → Lâche l'eau; red car → Rouge de voiture). The model does not indicate when it
is wrong.
"""


if __name__ == "__main__":
    given = arguments("translator", str(__doc__).splitlines()[0], describe=True)
    if given.describe:
        describe(given.out)
    else:
        translator(given.out, given.runs, given.resume)
