"""`train transcribe`: a streaming CTC recogniser, or fine-tuning of a Whisper model."""

from __future__ import annotations

from torch import nn

from glassformer.data.recordings import Recordings
from glassformer.models.protocols import SpeechGenerator, can
from glassformer.train.args import TrainArgs
from glassformer.train.objective import TaskObjective
from glassformer.train.objectives import ctc, seq2seq_speech
from glassformer.train.splits import base_model, data_paths, split


def build(args: TrainArgs) -> tuple[nn.Module, TaskObjective]:
    """Build a speech recogniser and its objective from recordings with transcripts."""
    args.reject("speech recognition", "image_size", "vocab_size", "label_smoothing", "max_length", "problem_type")
    first, second = data_paths(args)
    other = None if second is None else Recordings.open(second, args.column_names)
    train, val, faults = split(Recordings.open(first, args.column_names), other, args.seed)
    base = base_model(args, "a speech recogniser", lambda model: can(model, "transcribe"))
    if base is not None and isinstance(base, SpeechGenerator):
        return seq2seq_speech.build(args, base, train, val, faults)
    return ctc.build(args, base, train, val, faults)
