"""text → text: the continuation of a prompt or the answer in a chat, at once or streamed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import nn

from glassformer.decoding import GeneratedToken, Sampling, Stopping, beam_search, generate_steps
from glassformer.errors import ConfigError, InputError
from glassformer.models.protocols import Translator, context_length, inputs_of, require
from glassformer.models.sessions import Session
from glassformer.pipelines.chat import Message, has_template, render_chat
from glassformer.pipelines.generation_config import GenerationConfig, generation_config_of
from glassformer.pipelines.tokenizers import TextTokenizer, tokenizer_of

MOST = 256  # default limit of new tokens
FILTERS_OFF = {"top_k": None, "top_p": 1.0, "min_p": 0.0}  # values of sampling filters that keep every token

Prompt = str | Sequence[Message]


def generate(
    model: nn.Module,
    prompt: Prompt,
    *,
    max_new_tokens: int | None = None,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    min_p: float = 0.0,
    repetition_penalty: float | None = None,
    num_beams: int | None = None,
    stop: Sequence[str] = (),
    seed: int = 0,
    chat: bool | None = None,
) -> str:
    """Generate the model's continuation of a text, or its answer in a chat.

    Args:
        prompt: a text, or the messages of a chat.
        max_new_tokens: maximum number of tokens; by default what generation_config.json and the context allow, at most
            256.
        temperature: sampling temperature; 0 is greedy decoding, or beam search if generation_config.json requests it.
        top_k: sample from the k most likely tokens only.
        top_p: sample from the smallest set of tokens whose probability reaches this value.
        min_p: discard tokens less likely than this fraction of the most likely token.
        repetition_penalty: values above 1 discourage repetition.
        num_beams: number of beams; 1 disables beam search.
        stop: strings before which the answer ends.
        seed: random seed.
        chat: whether to apply the model's chat template. By default it is applied to messages, and to a text if the
            model has a template.

    >>> gf.generate(gf.load("writer"), "ROMEO:", max_new_tokens=8)
    '\\nI will not be so, and'
    """
    return "".join(
        stream(
            model,
            prompt,
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            repetition_penalty=repetition_penalty,
            num_beams=num_beams,
            stop=stop,
            seed=seed,
            chat=chat,
        )
    )


def stream(
    model: nn.Module,
    prompt: Prompt,
    *,
    max_new_tokens: int | None = None,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    min_p: float = 0.0,
    repetition_penalty: float | None = None,
    num_beams: int | None = None,
    stop: Sequence[str] = (),
    seed: int = 0,
    chat: bool | None = None,
) -> Iterator[str]:
    """Yield pieces of the answer as they are generated; joined, they equal the result of `generate`.

    Arguments are validated immediately.
    """
    require(model, "generate")
    config = generation_config_of(model)
    filters = {"top_k": top_k, "top_p": top_p, "min_p": min_p}
    unused = [name for name, value in filters.items() if value not in (None, FILTERS_OFF[name])]
    if not temperature and unused:
        fact = f"{unused[0]}={filters[unused[0]]} has no effect on greedy decoding"
        raise ConfigError(fact, "choose a temperature above 0, or leave it out")
    if num_beams is not None and num_beams < 1:
        raise ConfigError(f"num_beams is {num_beams}", "choose 1 (no beam search) or more")
    if temperature and num_beams not in (None, 1):
        raise ConfigError(f"num_beams={num_beams} cannot be combined with sampling", "leave out one of them")
    words, tokens = _read(model, prompt, chat)
    stop = (*([stop] if isinstance(stop, str) else stop), *config.stop)
    flow = TextFlow(words, [] if _separate(model) else tokens, stop)
    session = decoding_session(model, config)
    ends = config.ends or session.ends
    penalty = config.repetition_penalty if repetition_penalty is None else repetition_penalty
    stopping = _stopping(model, tokens, flow, config, max_new_tokens, ends)
    beams = (1 if temperature else config.num_beams) if num_beams is None else num_beams
    if beams > 1:
        (answers,) = beam_search(
            session,
            [tokens],
            num_beams=beams,
            length_penalty=config.length_penalty,
            early_stopping=config.early_stopping,
            stopping=stopping,
            repetition_penalty=penalty,
            constraints=config.constraints(ends),
            renormalize=config.renormalize,
        )
        return iter([cut_at_stop(flow.text(answers[0].tokens), stop)])  # known only at the end
    sampling = Sampling(
        temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, repetition_penalty=penalty
    )
    steps = generate_steps(
        session, [tokens], sampling=sampling, stopping=stopping, constraints=config.constraints(ends), seed=seed
    )
    return _texts(steps, flow)


def _texts(steps: Iterator[GeneratedToken], flow: TextFlow) -> Iterator[str]:
    for step in steps:
        if piece := flow.push(step.token):
            yield piece
    if piece := flow.finish():
        yield piece


class TextFlow:
    """tokens → text as it becomes final: complete characters only, withholding what may begin a stop string."""

    def __init__(self, words: TextTokenizer, prompt: Sequence[int], stop: Sequence[str]) -> None:
        self.words, self.prompt, self.stop = words, list(prompt), tuple(stop)
        self.before = len(words.decode(self.prompt))
        self.tokens: list[int] = []
        self.given = 0

    def text(self, tokens: Sequence[int]) -> str:
        """Return the text that these tokens add to the prompt, including a space between the two."""
        return self.words.decode([*self.prompt, *tokens])[self.before :]

    def push(self, token: int) -> str:
        self.tokens.append(token)
        whole = self.text(self.tokens)
        return "" if whole.endswith("�") else self._new(whole[: len(whole) - self._held(whole)])

    def finish(self) -> str:
        return self._new(cut_at_stop(self.text(self.tokens), self.stop))

    def _new(self, text: str) -> str:
        new = cut_at_stop(text, self.stop)[self.given :]
        self.given += len(new)
        return new

    def _held(self, text: str) -> int:
        """Number of characters at the end that may be the beginning of a stop string."""
        sizes = (n for stop in self.stop for n in range(1, len(stop)) if text.endswith(stop[:n]))
        return max(sizes, default=0)


def cut_at_stop(text: str, stop: Sequence[str]) -> str:
    """Cut the text before the first stop string in it."""
    return text[: min((at for one in stop if (at := text.find(one)) >= 0), default=len(text))]


def _read(model: nn.Module, prompt: Prompt, chat: bool | None) -> tuple[TextTokenizer, list[int]]:
    words = tokenizer_of(model)
    messages = [Message(role="user", content=prompt)] if isinstance(prompt, str) else list(prompt)
    if chat is None:
        chat = not isinstance(prompt, str) or has_template(model)
    if not chat and not isinstance(prompt, str):
        raise InputError("messages were given with chat=False", "give a text to continue, or chat=True")
    text = render_chat(model, messages) if chat else str(prompt)
    tokens = words.encode(text, special=not chat)  # a template already contains the special tokens
    if not tokens:
        raise InputError("the prompt has no tokens", "begin with at least one word")
    return words, tokens


def _separate(model: nn.Module) -> bool:
    """Whether the prompt is a source (encoder input) and not part of the answer."""
    return len(inputs_of(model)) == 2


def start_of(model: nn.Module, config: GenerationConfig) -> tuple[int, ...]:
    """Return the tokens that an answer starts with: none for a decoder-only model, else the model's or the folder's."""
    if not isinstance(model, Translator) or not _separate(model):
        return ()
    found = config.start if model.start_token is None else model.start_token
    if found is None:
        fact = f"the start token of this {type(model).__name__} is unknown"
        raise InputError(fact, "save it with decoder_start_token_id and eos_token_id in its generation config")
    return (found,)


def decoding_session(model: nn.Module, config: GenerationConfig) -> Session:
    """Create a decoding session with the folder's start and end tokens."""
    start = start_of(model, config)
    if start and getattr(model, "start_token", None) is None and config.ends is None:
        fact = f"the end token of this {type(model).__name__} is unknown"
        raise InputError(fact, "save it with decoder_start_token_id and eos_token_id in its generation config")
    return require(model, "generate").session(start=start, ends=config.ends or ())


def _stopping(
    model: nn.Module,
    tokens: list[int],
    flow: TextFlow,
    config: GenerationConfig,
    max_new_tokens: int | None,
    ends: tuple[int, ...],
) -> Stopping:
    prefix, context = 1 if _separate(model) else len(tokens), context_length(model)
    if max_new_tokens is None:
        limits = [MOST, config.new_tokens(prefix), context and context - prefix]
        max_new_tokens = max(1, min(n for n in limits if n is not None))
    return Stopping(
        max_new_tokens=max_new_tokens,
        min_new_tokens=min(config.min_new_tokens, max_new_tokens),
        ends=ends,
        texts=flow.stop,
        decode=flow.text if flow.stop else None,
    )
