"""How a model speaks: `generate`, `stream`, `beam`; and how a CTC head is read: `ctc_greedy`, `ctc_prefix_beam`."""

from __future__ import annotations

from glassformer.decoding.beam import beam
from glassformer.decoding.choose import GREEDY, Sampling
from glassformer.decoding.ctc import CTCGreedy, CTCPrefixBeam, Heard, Transcript, ctc_greedy, ctc_prefix_beam
from glassformer.decoding.generate import Said, generate, speak, stream
from glassformer.decoding.recurrent_speaker import RecurrentSeq2SeqSpeaker, StreamSpeaker
from glassformer.decoding.speaker import DecoderSpeaker, Seq2SeqSpeaker, Speaker
from glassformer.decoding.stopping import Answer, Ending, Stopping

__all__ = [
    "GREEDY",
    "Answer",
    "CTCGreedy",
    "CTCPrefixBeam",
    "DecoderSpeaker",
    "Ending",
    "Heard",
    "RecurrentSeq2SeqSpeaker",
    "Said",
    "Sampling",
    "Seq2SeqSpeaker",
    "Speaker",
    "Stopping",
    "StreamSpeaker",
    "Transcript",
    "beam",
    "ctc_greedy",
    "ctc_prefix_beam",
    "generate",
    "speak",
    "stream",
]
