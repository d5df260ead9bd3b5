"""Write the table of shipped models into README.md and docs/pipelines.md, from their measured.json.

python recipes/table.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SHIPPED = ROOT / "src/glassformer/checkpoints/shipped"
PAGES = (ROOT / "README.md", ROOT / "docs/pipelines.md")
BEGIN, END = "<!-- shipped -->", "<!-- /shipped -->"
VERBS = {
    "digits": "`classify -m digits`",
    "objects": "`classify`",
    "translator": "`translate`",
    "listener": "`transcribe`",
    "writer": "`generate`",
    "finder": "`embed`",
}


def quality(held: dict[str, Any]) -> str:
    """Return the metric of a model on held-out data, as text."""
    match held:
        case {"accuracy": share, "images": _}:
            return f"accuracy {100 * share:.2f} %"
        case {"bleu": bleu, "chrf": chrf}:
            return f"BLEU {bleu:.1f}, chrF {chrf:.1f}"
        case {"bits_per_byte": bits, "perplexity_per_byte": perplexity}:
            return f"{bits:.2f} bits (perplexity {perplexity:.2f}) per byte"
        case {"all": {"mean_reciprocal_rank": rank}}:
            return f"mean reciprocal rank of paraphrases {rank:.2f}"
        case {"wer": rate}:
            return f"word error rate {100 * rate:.1f} %"
    raise SystemExit(f"no metric known in {sorted(held)}")


def table() -> str:
    lines = ["| model | used by | parameters | on held-out data |", "|---|---|---|---|"]
    for name, verb in VERBS.items():
        path = SHIPPED / name / "measured.json"
        if path.is_file():
            one = json.loads(path.read_text(encoding="utf-8"))
            cells = [name, verb, f"{one['parameters'] / 1e6:.2f} M", quality(one["held_out"])]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        before, _, rest = text.partition(BEGIN)
        _, end, after = rest.partition(END)
        if not end:
            raise SystemExit(f"{page.name} has no {BEGIN} … {END}")
        page.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
