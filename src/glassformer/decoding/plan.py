"""What will be said, settled before the model does any work: who speaks, from what, for how long."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from torch import Tensor, nn

from glassformer.decoding.recurrent_speaker import StreamSpeaker
from glassformer.decoding.speaker import DecoderSpeaker, Prompt, Seq2SeqSpeaker, Speaker, as_prompts
from glassformer.decoding.stopping import Stopping
from glassformer.errors import ConfigError, InputError
from glassformer.models.convolutional_sequence import ConvNet1d
from glassformer.models.decoder import Decoder
from glassformer.models.recurrent import Recurrent
from glassformer.models.seq2seq import Seq2Seq
from glassformer.models.whisper import Whisper


class Plan(NamedTuple):
    """`limits` are the most tokens each answer may have; `beginnings` what it goes on from."""

    speaker: Speaker
    prompts: list[Tensor]
    beginnings: list[Tensor]
    limits: list[int]
    ends: tuple[int, ...]

    def early(self, stopping: Stopping, said: int) -> tuple[int, ...]:
        """The end tokens, while it is too early for them."""
        return self.ends if said < stopping.min_new else ()


def speaker_of(model: nn.Module | Speaker) -> Speaker:
    """The model as a speaker; a speaker is itself."""
    if isinstance(model, Decoder):
        return DecoderSpeaker(model)
    if isinstance(model, Seq2Seq | Whisper):
        return Seq2SeqSpeaker(model)
    if isinstance(model, Recurrent | ConvNet1d):
        return StreamSpeaker(model)
    if isinstance(model, Speaker):
        return model
    raise ConfigError(
        f"a {type(model).__name__} does not speak by itself",
        "give a Decoder, a Seq2Seq, a Whisper, a Recurrent, a ConvNet1d, or a Speaker (RecurrentSeq2SeqSpeaker, yours)",
    )


def make_plan(
    model: nn.Module | Speaker, prompts: Sequence[Prompt] | Tensor, stopping: Stopping, banned: Iterable[int]
) -> Plan:
    """The plan, or the error that the work would end in."""
    speaker = speaker_of(model)
    tensors = as_prompts(prompts)
    beginnings = [speaker.beginning(prompt) for prompt in tensors]
    limits = [_limit(len(beginning), speaker.context, stopping) for beginning in beginnings]
    ends = speaker.ends if stopping.ends is None else tuple(stopping.ends)
    _require_some_left(speaker.vocabulary, ends, set(banned), stopping)
    return Plan(speaker, tensors, beginnings, limits, ends)


def _limit(start: int, context: int | None, stopping: Stopping) -> int:
    """max_new, or the room that is left in the context."""
    if context is None:
        if stopping.max_new is None:
            raise ConfigError("nothing but an end token would end the answer", "give Stopping(max_new=…)")
        return stopping.max_new
    room = context - start
    if room < 1:
        raise InputError(
            f"{start} tokens fill the model's context of {context}", "shorten the prompt to leave room for an answer"
        )
    wanted = room if stopping.max_new is None else stopping.max_new
    if max(wanted, stopping.min_new) > room:
        raise InputError(
            f"{start} tokens and {max(wanted, stopping.min_new)} new ones pass the model's context of {context}",
            f"ask for at most {room} new tokens, or shorten the prompt",
        )
    return wanted


def _require_some_left(vocabulary: int, ends: tuple[int, ...], banned: set[int], stopping: Stopping) -> None:
    unknown = sorted(token for token in {*ends, *banned} if token >= vocabulary)
    if unknown:
        raise ConfigError(
            f"token {unknown[0]} is not among the {vocabulary} known", f"ban and end with tokens 0 to {vocabulary - 1}"
        )
    if len(banned | set(ends if stopping.min_new else ())) >= vocabulary:
        raise ConfigError(f"all {vocabulary} tokens are banned", "leave at least one to say")
