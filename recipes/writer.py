"""writer: a language model of Shakespeare's works.

glassformer data fetch shakespeare
OMP_NUM_THREADS=1 python recipes/writer.py [--out FOLDER] [--resume]
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from shared import SEED, arguments
from texts import Learner, card_fields, ship

from glassformer.checkpoints import load_folder
from glassformer.data import Text, blocks, bpe
from glassformer.data.sources import open_data
from glassformer.models import Decoder
from glassformer.pipelines import generate
from glassformer.pipelines.evaluate import score_text, token_bytes
from glassformer.train import TrainArgs
from glassformer.train.objectives.language_modeling import LanguageModeling, save_language_model, transformer

VOCABULARY, LENGTH, BATCH, STEPS = 2048, 256, 4, 1300
PROMPT = "ROMEO.\n"
CARD = """# writer

Continues text in the style of Shakespeare's plays: a decoder-only Transformer with {parameters} parameters (4 layers
of width 160, 5 heads, rotary positions, SwiGLU, a byte-level BPE vocabulary of 2,048, a context of 256 tokens, which
is about 700 characters).

## Evaluation
**{bits} bits per byte, a perplexity of {perplexity} per byte** on The Tempest and Richard II ({bytes} bytes), neither
of which was used for training (weights as shipped, float16). Each block of 256 tokens is predicted without the text
before it.

A continuation of `ROMEO.` (temperature 0.8, top-p 0.95, seed 1):

```
{sample}
```

## Training data
Shakespeare's plays and poems in modern spelling, from Project Gutenberg, public domain (`glassformer data fetch
shakespeare`): 4.6 MB for training, Macbeth and Twelfth Night for validation, The Tempest and Richard II for testing.

## Training
`python recipes/writer.py`: {steps} steps of 1,024 tokens ({epochs} epochs), AdamW, warmup and cosine schedule, seed
{seed}. Training took {minutes} minutes of processor time on {machine}.
The test plays were used only for the evaluation above.

## Limitations
The model imitates the form and sound of a play, and no more: sentences stay coherent for a line or two, scenes do not.
Do not use its output as a quotation or as advice.
"""


def learner(data: Path, cache: Path) -> Learner:
    texts = {part: Text.open(data / f"{part}.txt") for part in ("train", "valid", "test")}
    tokenizer = bpe.train(texts["train"].pieces(), VOCABULARY, specials=("<|endoftext|>",))
    ids = {part: blocks(text, tokenizer, LENGTH, cache) for part, text in texts.items()}
    sizes = token_bytes(tokenizer)
    plan = TrainArgs(
        steps=STEPS,
        lr=3e-3,
        warmup=STEPS // 20,
        betas=(0.9, 0.98),
        weight_decay=0.05,
        min_lr_ratio=0.02,
        eval_every=max(1, STEPS // 4),
        save_every=100,
        seed=SEED,
        keep="last",
    )
    return Learner(
        name="writer",
        what="decoder-only Transformer, 4 layers of 160, 5 heads",
        build=lambda: Decoder(transformer(VOCABULARY, 160, 4, 5, 432, length=LENGTH), seed=SEED),
        objective=LanguageModeling(ids["train"], ids["valid"], tokenizer, batch_size=BATCH, seed=SEED),
        plan=plan,
        save=lambda model, folder: save_language_model(model, folder, tokenizer, half=True),
        measure=lambda model: {**score_text(model, ids["test"], sizes), "bytes": ids["test"].bytes},
    )


def writer(out: Path, runs: Path, resume: bool) -> None:
    measured = ship(learner(open_data("shakespeare"), runs / "tokens"), runs, out, resume)
    most = min(120, LENGTH // 2)
    sample = PROMPT + generate(load_folder(out), PROMPT, temperature=0.8, top_p=0.95, seed=1, max_new_tokens=most)
    measured["sample"] = sample
    (out / "measured.json").write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    (out / "card.md").write_text(CARD.format(**fields(measured)), encoding="utf-8")
    print(f"writer: {measured['held_out']['bits_per_byte']:.3f} bits per byte in {out}", flush=True)


def fields(measured: dict[str, Any]) -> dict[str, Any]:
    own = measured["held_out"]
    return {
        **card_fields(measured),
        "bits": f"{own['bits_per_byte']:.3f}",
        "perplexity": f"{own['perplexity_per_byte']:.2f}",
        "bytes": f"{own['bytes']:,}",
        "epochs": measured["trained"]["epochs"],
        "sample": measured["sample"].strip(),
    }


if __name__ == "__main__":
    given = arguments("writer", str(__doc__).splitlines()[0])
    writer(given.out, given.runs, given.resume)
