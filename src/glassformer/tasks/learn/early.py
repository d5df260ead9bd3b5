"""loss = −log Σ over alignments of p(alignment) · exp Σ_t w_t, over the rows t that say a symbol; w_t = λ (n/2 − t).

CTC alone does not mind when a symbol is said, and a network that may wait waits. Here an alignment counts for more the
earlier it speaks: Yao et al., "Delay-penalized CTC Implemented Based on Finite State Transducer", 2023. They count the
first row of a symbol, here every row that says it counts: so torch's own CTC does it.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import ctc_loss

from glassformer.models.speech import BLANK

MOST = 1.0  # nats: in a long recording its ends would otherwise outweigh what was said


def early_ctc(
    logits: Float[Tensor, "b n v"],
    rows: Int[Tensor, " b"],
    targets: Int[Tensor, "b s"],
    sizes: Int[Tensor, " b"],
    slope: float = 0.0,
) -> Float[Tensor, ""]:
    """Summed over recordings. `slope` λ in nats for each row; 0 is plain CTC."""
    t = torch.arange(logits.shape[1], device=logits.device)
    w = (slope * (rows[:, None] / 2 - t)).clamp(-MOST, MOST)
    symbol = torch.arange(logits.shape[2], device=logits.device) != BLANK
    pushed = logits + w[..., None] * symbol
    loss = ctc_loss(
        pushed.log_softmax(-1).transpose(0, 1), targets, rows, sizes, blank=BLANK, reduction="sum"
    )  # of normalised rows, for its gradient is right of those alone; each row's norm goes through every alignment
    gained = pushed.logsumexp(-1) - logits.logsumexp(-1)
    return loss - gained.masked_fill(t >= rows[:, None], 0).sum()
