"""text → text: what a language model goes on with, whole or as it comes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from glassformer.checkpoints import origin_of
from glassformer.decoding import RecurrentSeq2SeqSpeaker, Sampling, Speaker, Stopping, beam, speak
from glassformer.errors import ConfigError, InputError
from glassformer.models import ConvNet1d, Decoder, Recurrent, RecurrentSeq2Seq, Seq2Seq
from glassformer.tasks.chat import Message, has_template, render_chat
from glassformer.tasks.tokenize import Words, words_of

MOST = 256  # new tokens, unless someone asks for more

Prompt = str | Sequence[Message]
Answering = Seq2Seq | RecurrentSeq2Seq  # the prompt is the source, and no part of the answer


@dataclass(frozen=True, kw_only=True)
class Options:
    """Temperature 0 is greedy. `max_new` of None: up to 256, or as many as the context has room for."""

    max_new: int | None = None
    temperature: float = 0.0
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    beams: int = 1
    stop: tuple[str, ...] = ()
    seed: int = 0
    chat: bool | None = None  # None: if the model's folder has a chat template

    def __post_init__(self) -> None:
        if self.beams != 1 and (self.temperature or self.top_k or self.top_p != 1 or self.min_p):
            raise ConfigError(f"{self.beams} beams and sampling at once", "leave out one of them")

    def sampling(self) -> Sampling:
        return Sampling(
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            min_p=self.min_p,
            repetition_penalty=self.repetition_penalty,
        )


class Flow:
    """tokens → text as it becomes certain: whole letters only, and nothing that may turn out to be a stop."""

    def __init__(self, words: Words, prompt: Sequence[int], stop: tuple[str, ...]) -> None:
        self.words, self.prompt, self.stop = words, list(prompt), stop
        self.before = len(words.decode(self.prompt))
        self.tokens: list[int] = []
        self.told = 0

    def text(self, tokens: Sequence[int]) -> str:
        """What an answer of these tokens adds to the prompt: a space between them belongs to it."""
        return self.words.decode([*self.prompt, *tokens])[self.before :]

    def push(self, token: int) -> str:
        self.tokens.append(token)
        whole = self.text(self.tokens)
        return "" if whole.endswith("�") else self._tell(whole[: len(whole) - self._held(whole)])

    def finish(self) -> str:
        return self._tell(cut(self.text(self.tokens), self.stop))

    def _tell(self, text: str) -> str:
        new = cut(text, self.stop)[self.told :]
        self.told += len(new)
        return new

    def _held(self, text: str) -> int:
        """How many letters at the end may be the beginning of a stop."""
        sizes = (n for stop in self.stop for n in range(1, len(stop)) if text.endswith(stop[:n]))
        return max(sizes, default=0)


def cut(text: str, stop: tuple[str, ...]) -> str:
    """The text up to the first stop in it."""
    return text[: min((at for one in stop if (at := text.find(one)) >= 0), default=len(text))]


def stream(model: nn.Module, prompt: Prompt, **options: Any) -> Iterator[str]:
    """Pieces of the answer as they come; joined, they are what `generate` gives. Wrong arguments are told at once."""
    chosen = Options(**options)
    words, tokens = _read(model, prompt, chosen)
    flow = Flow(words, [] if isinstance(model, Answering) else tokens, chosen.stop)
    if chosen.beams > 1:
        return _searched(model, tokens, flow, chosen)
    stopping = _stopping(model, tokens, flow, chosen)
    said = speak(voice_of(model), [tokens], sampling=chosen.sampling(), stopping=stopping, seed=chosen.seed)
    return _spoken(said, flow)


def _spoken(said: Iterator[Any], flow: Flow) -> Iterator[str]:
    for one in said:
        if piece := flow.push(one.token):
            yield piece
    if piece := flow.finish():
        yield piece


def _searched(model: nn.Module, tokens: list[int], flow: Flow, chosen: Options) -> Iterator[str]:
    """Beams know their answer only at the end."""
    (answers,) = beam(
        voice_of(model),
        [tokens],
        width=chosen.beams,
        stopping=_stopping(model, tokens, flow, chosen),
        repetition_penalty=chosen.repetition_penalty,
    )
    return iter([cut(flow.text(answers[0].tokens), chosen.stop)])


def generate(model: nn.Module, prompt: Prompt, **options: Any) -> str:
    """What the model goes on with, or answers in a chat; see `Options` for how."""
    return "".join(stream(model, prompt, **options))


def _read(model: nn.Module, prompt: Prompt, chosen: Options) -> tuple[Words, list[int]]:
    if not isinstance(model, Decoder | Answering | Recurrent | ConvNet1d):
        raise InputError(f"a {type(model).__name__} does not write", "generate with a Decoder or a Seq2Seq; or embed")
    words = words_of(model)
    messages = [Message(role="user", content=prompt)] if isinstance(prompt, str) else list(prompt)
    chat = chosen.chat
    if chat is None:
        chat = not isinstance(prompt, str) or has_template(model)
    if not chat and not isinstance(prompt, str):
        raise InputError("messages without chat", "give a text to go on from, or chat=True")
    text = render_chat(model, messages) if chat else str(prompt)
    tokens = words.encode(text, special=not chat)  # a template has the special tokens in it
    if not tokens:
        raise InputError("the prompt is 0 tokens", "begin with at least one word")
    return words, tokens


def ends_of(model: nn.Module) -> tuple[int, ...] | None:
    """The end tokens that the folder names; None: the model's own."""
    origin = origin_of(model)
    found = (origin.generation.get("eos_token_id", origin.raw.get("eos_token_id"))) if origin is not None else None
    ends = found if isinstance(found, list) else [] if found is None else [found]
    return tuple(token for token in ends if type(token) is int and token >= 0) or None


def settings_of(model: nn.Module) -> dict[str, Any]:
    """How the folder wants answers searched: generation_config.json, or config.json of older ones."""
    origin = origin_of(model)
    return {} if origin is None else {**origin.raw, **origin.generation}


def start_of(model: nn.Module) -> int:
    """The token that an answer goes on from: the model's own, or for a recurrent one the folder's."""
    if isinstance(model, Seq2Seq):
        return model.config.start
    found = settings_of(model).get("decoder_start_token_id")
    if type(found) is not int:
        remedy = "save it with tasks.learn.pairs.save_translator, or speak with a RecurrentSeq2SeqSpeaker"
        raise InputError(f"nothing says which token the answers of this {type(model).__name__} begin with", remedy)
    return found


def voice_of(model: nn.Module) -> nn.Module | Speaker:
    """What `decoding` takes: the model, or for one that does not know its own start and end, a speaker that does."""
    if not isinstance(model, RecurrentSeq2Seq):
        return model
    ends = ends_of(model)
    if ends is None:
        remedy = "save it with tasks.learn.pairs.save_translator"
        raise InputError(f"nothing says which token the answers of this {type(model).__name__} end with", remedy)
    return RecurrentSeq2SeqSpeaker(model, start=start_of(model), end=ends[0])


def _stopping(model: nn.Module, tokens: list[int], flow: Flow, chosen: Options) -> Stopping:
    length = getattr(model.config, "length", None)  # recurrent and convolutional models have no end of context
    room = MOST if length is None else length - (1 if isinstance(model, Answering) else len(tokens))
    most = chosen.max_new if chosen.max_new is not None else max(1, min(MOST, room))
    decode = flow.text if chosen.stop else None
    return Stopping(max_new=most, ends=ends_of(model), texts=chosen.stop, decode=decode)
