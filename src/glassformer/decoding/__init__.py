"""Decoding: `generate_ids`, `stream_ids` and `beam_search` for autoregressive models, and CTC decoders."""

from __future__ import annotations

from glassformer.decoding.beam import beam_search
from glassformer.decoding.constraints import Constraints, LogitsProcessor, Row
from glassformer.decoding.ctc import CTCGreedy, CTCHypothesis, CTCPrefixBeam, CTCToken, ctc_greedy, ctc_prefix_beam
from glassformer.decoding.generate import GeneratedToken, generate_ids, generate_steps, stream_ids
from glassformer.decoding.sampling import GREEDY, Sampling
from glassformer.decoding.stopping import Answer, Ending, Stopping

__all__ = [
    "GREEDY",
    "Answer",
    "CTCGreedy",
    "CTCHypothesis",
    "CTCPrefixBeam",
    "CTCToken",
    "Constraints",
    "Ending",
    "GeneratedToken",
    "LogitsProcessor",
    "Row",
    "Sampling",
    "Stopping",
    "beam_search",
    "ctc_greedy",
    "ctc_prefix_beam",
    "generate_ids",
    "generate_steps",
    "stream_ids",
]
