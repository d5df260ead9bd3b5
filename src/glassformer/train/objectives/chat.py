"""loss = −Σ log p(x_t | x_{<t}) over the tokens of the assistant's answers: supervised fine-tuning on conversations.

A conversation is rendered by the model's own chat template. An answer is what the template adds between the preceding
prompt and the end of the message: the text of the answer and the token that ends it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from glassformer.data import Faults, order, remarks
from glassformer.data.chats import ANSWERS, Chats
from glassformer.data.faults import Fault
from glassformer.data.fingerprint import of_rows, of_tokenizer
from glassformer.data.rows import Source
from glassformer.data.stream import Window
from glassformer.errors import ConfigError, GlassError, InputError
from glassformer.models.protocols import can, context_length, device_of, inputs_of
from glassformer.pipelines.chat import Message, Rendering, has_template, render_chats
from glassformer.pipelines.evaluate import IGNORED, pad_rows
from glassformer.pipelines.tokenizers import raw_tokenizer
from glassformer.train.args import TrainArgs
from glassformer.train.objective import Batch, TaskObjective
from glassformer.train.objectives.text_folder import save_text_model
from glassformer.train.splits import base_model, split

LONGEST = 1024  # tokens of a conversation unless --max-length is given
AT_ONCE = 100  # conversations that are rendered together


class ChatExample(NamedTuple):
    """Token ids of a conversation, and a mask of those that belong to an answer."""

    tokens: list[int]
    answers: list[bool]
    truncated: bool = False


class ChatObjective(TaskObjective):
    """Cross-entropy of the answers in batches of `batch_size` conversations; evaluated by loss and perplexity."""

    batch_unit = "conversations"

    better: Literal["higher", "lower"] = "lower"

    def __init__(
        self,
        examples: Sequence[ChatExample],
        val: Sequence[ChatExample],
        tokenizer: Any,
        *,
        batch_size: int = 8,
        seed: int = 0,
    ) -> None:
        self.examples, self.val, self.tokenizer = examples, val, tokenizer
        self.batch_size, self.seed = batch_size, seed
        self.faults = Faults()
        self.encode: Callable[..., list[ChatExample]] | None = None  # for a stream: the conversations of a window

    def refill(self, window: Window) -> None:
        super().refill(window)
        assert self.encode is not None
        self.examples = self.encode(self.train, faults=self.faults)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"encode": None}  # workers receive encoded examples

    def summary(self) -> str:
        answers = sum(sum(one.answers) for one in self.examples)
        return (
            f"{len(self.examples):,} conversations with {answers:,} tokens of answers, {len(self.val):,} for validation"
        )

    def save(self, model: nn.Module, folder: str | Path) -> Path:
        return save_text_model(model, folder, self.tokenizer)

    def fingerprint(self) -> dict[str, Any]:
        both = (("data", self.examples), ("val", self.val))
        data = {name: of_rows(len(some), some.__getitem__) for name, some in both}
        return data | {"batch_size": self.batch_size, "seed": self.seed, "tokenizer": of_tokenizer(self.tokenizer)}

    def epoch(self, number: int) -> Sequence[Sequence[int]]:
        return order.batches(len(self.examples), self.batch_size, self.seed, number)

    def batch(self, rows: Sequence[int], seed: int) -> Batch | None:
        return collated([self.examples[row] for row in rows])

    def count(self, batch: Batch) -> float:
        return float((batch["target"] != IGNORED).sum())

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return answer_nats(model, batch)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        total = count = 0.0
        for start in range(0, len(self.val), self.batch_size):
            made = collated(self.val[start : start + self.batch_size])
            batch = {name: x.to(device_of(model)) for name, x in made.items()}
            total, count = total + float(answer_nats(model, batch)), count + self.count(batch)
        return {"loss": total / count, "perplexity": math.exp(min(total / count, 700.0))}


def collated(examples: Sequence[ChatExample]) -> dict[str, Tensor]:
    """Inputs (b, t) padded on the right, where no earlier token sees them, and the targets of the answers."""
    inputs = pad_rows([one.tokens[:-1] for one in examples], 0)
    targets = [[x if own else IGNORED for x, own in zip(*one[:2], strict=True)][1:] for one in examples]
    return {"tokens": inputs, "target": pad_rows(targets, IGNORED)}


def answer_nats(model: nn.Module, batch: Batch) -> Tensor:
    """−Σ log p of the answers, with logits normalised at their positions only."""
    chosen = batch["target"] != IGNORED
    return cross_entropy(model(batch["tokens"])[chosen].float(), batch["target"][chosen], reduction="sum")


def build(args: TrainArgs, first: Source, second: Source | None) -> tuple[nn.Module, ChatObjective]:
    """Build the objective for fine-tuning a language model on conversations."""
    args.reject("chat data", "image_size", "augment", "augmentation", "label_smoothing", "problem_type")
    base = base_model(args, "a language model", lambda model: can(model, "generate") and inputs_of(model) == ("text",))
    if base is None:
        raise ConfigError("training on conversations needs a chat model to fine-tune", "add --from smollm2-135m")
    if not has_template(base):
        hint = "add a chat_template.jinja to its folder, or fine-tune a chat model, such as smollm2-135m"
        raise ConfigError(f"--from {args.from_} has no chat template", hint)
    context = context_length(base) or LONGEST
    if args.max_length is not None and args.max_length > context:
        raise ConfigError(f"--max-length is {args.max_length}", f"the model's context is {context} tokens")
    length = min(args.max_length or LONGEST, context)
    chats = Chats.open(first, args.column_names)
    other = None if second is None else Chats.open(second, args.column_names)
    train, rest, faults = split(chats, other, args.seed)
    encode = partial(encode_chats, base, length=length)
    examples, val = (encode(some, faults=faults) for some in (train, rest))
    if not examples or not val:
        raise InputError("none of the conversations can be used", "; ".join(faults.summary()))
    objective = ChatObjective(examples, val, raw_tokenizer(base), batch_size=args.batch_size or 8, seed=args.seed)
    objective.faults.remember(faults)
    objective.train, objective.encode = train, encode
    objective.understood = _understood(train, rest, examples, length)
    objective.default_lr, objective.default_epochs = (1e-3 if args.lora_rank is not None else 2e-5), 3.0
    return base, objective


def encode_chats(model: nn.Module, chats: Chats, length: int, faults: Faults) -> list[ChatExample]:
    """Render and tokenise conversations; those that cannot be used are counted in `faults`."""
    found: list[ChatExample] = []
    for start in range(0, len(chats), AT_ONCE):
        rows = range(start, min(start + AT_ONCE, len(chats)))
        several = [chats.messages(i) for i in rows]
        made = zip(rows, answer_spans(model, several), strict=True)
        for i, spans in made:
            try:
                found.append(_example(model, spans, length, chats.rows.place(i)))
            except Fault as fault:
                faults.count(fault)
    return found


Spans = tuple[str, list[tuple[int, int]]]  # a rendered conversation, and where its answers begin and end


def answer_spans(model: nn.Module, chats: Sequence[Sequence[Any]]) -> list[Spans | GlassError | str]:
    """Render each conversation and find its answers; returns an error or a reason where that is not possible."""
    renderings: list[Rendering] = []
    for messages in chats:
        renderings.append(Rendering(messages, False))
        for k in _answered(messages):
            renderings += [Rendering(messages[:k], True), Rendering(messages[: k + 1], False)]
    texts, found = iter(render_chats(model, renderings)), []
    for messages in chats:
        whole, *rest = [next(texts) for _ in range(1 + 2 * len(_answered(messages)))]
        found.append(_spans(whole, rest))
    return found


def _answered(messages: Sequence[Message]) -> list[int]:
    return [k for k, one in enumerate(messages) if one["role"] == ANSWERS and one["content"].strip()]


def _spans(whole: str | GlassError, rest: Sequence[str | GlassError]) -> Spans | GlassError | str:
    wrong = next((one for one in (whole, *rest) if isinstance(one, GlassError)), None)
    if wrong is not None:
        return wrong
    text, parts = str(whole), [str(one) for one in rest]
    spans = []
    for before, after in zip(parts[::2], parts[1::2], strict=True):
        after = after if text.startswith(after) else after.rstrip()
        if not text.startswith(after) or not after.startswith(before):
            return "the chat template changes earlier messages"
        spans.append((len(before), len(after)))
    return text, spans


def _example(model: nn.Module, found: Spans | GlassError | str, length: int, place: str) -> ChatExample:
    if isinstance(found, GlassError):
        raise Fault(str(found).partition(":")[0], place)
    if isinstance(found, str):
        raise Fault(found, place)
    text, spans = found
    tokenizer = raw_tokenizer(model)
    encoded = tokenizer.encode(text, add_special_tokens=False)
    ends = {i for i, token in tokenizer.get_added_tokens_decoder().items() if token.special}
    answers = [False] * len(encoded.ids)
    for first, last in spans:
        own = [i for i, (a, b) in enumerate(encoded.offsets) if first <= a < b <= last]
        ending = [i for i in own if encoded.ids[i] in ends]
        for i in own:  # a line break after the token that ends the answer is never generated
            answers[i] = not ending or i <= ending[-1]
    if not any(answers[1:length]):
        raise Fault(f"no answer within {length} tokens", place)
    return ChatExample(list(encoded.ids[:length]), answers[:length], len(encoded.ids) > length)


def _understood(train: Chats, val: Chats, examples: Sequence[ChatExample], length: int) -> tuple[str, ...]:
    cut = sum(one.truncated for one in examples) / len(examples)
    share = f"{cut:.0%} of the conversations are longer than {length} tokens"
    longer = [f"remark: {share} and are truncated (see --max-length)"]

    def shown(i: int) -> str:
        return " → ".join(f"{one['role']} {remarks.short(one['content'], 40)}" for one in train.messages(i)[:3])

    text = lambda chats: lambda i: "\n".join(f"{one['role']}: {one['content']}" for one in chats.messages(i))
    return (
        train.rows.described(),
        *remarks.examples(train.rows, shown),
        *(longer if cut else []),
        *remarks.small_validation(len(val)),
        *remarks.duplicate_texts(text(train), len(train), text(val), len(val), "conversations"),
    )
