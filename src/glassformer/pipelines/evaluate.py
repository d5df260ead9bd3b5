"""Evaluation on held-out data: the usual metrics of each verb, computed from the verb's own outputs.

bits per byte = Σ nats / ln 2 / Σ bytes: unlike a loss per token, it does not depend on the tokenizer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from glassformer.checkpoints import origin_of, read_preprocess
from glassformer.data import Blocks, Fault, Faults, Images, Lines, Pairs, Recordings, Text, blocks, order
from glassformer.data.archives import is_archive, unpacked
from glassformer.data.columns import are_names
from glassformer.data.images import image_fault
from glassformer.data.labelled_texts import LabelledTexts, Problem
from glassformer.data.packages import cache
from glassformer.data.python import reader_of
from glassformer.data.rows import Source, find_split, open_reader
from glassformer.data.sources import DATASETS, open_data
from glassformer.errors import ConfigError, GlassError, InputError
from glassformer.models.protocols import (
    SpeechGenerator,
    TokenPredictor,
    WindowModel,
    can,
    context_length,
    device_of,
    inputs_of,
    require,
)
from glassformer.pipelines.classify import labels_of, problem_type_of
from glassformer.pipelines.embed import embed, tokenize
from glassformer.pipelines.metrics import bits_per_byte, bleu, bleu_signature, chrf, perplexity, word_error_rate
from glassformer.pipelines.speech.charset import LETTERS, normalize_transcript, recognizer_config, spoken
from glassformer.pipelines.text_classification import TextEncoding, score_texts
from glassformer.pipelines.tokenizers import raw_tokenizer, tokenizer_of
from glassformer.pipelines.transcribe import transcribe
from glassformer.pipelines.translate import AT_ONCE, translate

X = TypeVar("X")
Progress = Callable[[list[X]], Iterable[X]]
IMAGES, BLOCKS, SENTENCES = 64, 16, 64  # batch sizes
LONGEST_RECORDING = 3600.0  # seconds; the shorter limit of training does not apply to transcribing


def evaluate(
    model: nn.Module,
    data: Any,
    *,
    columns: Mapping[str, str] | None = None,
    limit: int | None = None,
    progress: Progress[Any] = iter,
    faults: Faults | None = None,
) -> dict[str, float]:
    """Compute the metrics of a model on a dataset's test split, a folder, a file or a Python dataset.

    The data are labelled images or texts, sentence pairs, recordings with transcripts, or plain text; for an encoder,
    pairs of sentences with the same meaning, or sentences to mask.

    Args:
        columns: columns of a table by role, for example {"text": "review", "label": "stars"}.
        limit: maximum number of items, spread evenly over the data.
        progress: wraps the list of batches, as tqdm does.
        faults: counts the items that cannot be used.

    >>> metrics = gf.evaluate(gf.load("writer"), "shakespeare", limit=8)
    >>> metrics["blocks"], metrics["bits_per_byte"] < 2.5
    (8, True)
    """
    tally = Faults() if faults is None else faults
    if limit is not None and limit < 1:
        raise InputError(f"limit must be at least 1, got {limit}", "choose 1 or more")
    place = _place(data)
    if can(model, "classify") and inputs_of(model) == ("image",):
        return _images(model, Images.open(place, columns, labels=labels_of(model)), limit, progress, tally)
    if can(model, "classify") and inputs_of(model) == ("text",) and _has_labels(model, place, columns):
        return _labelled(model, place, columns, limit, tally)
    if can(model, "translate"):
        return _pairs(model, Pairs.open(place, columns), limit, progress, tally)
    if can(model, "transcribe"):
        return _recordings(model, Recordings.open(place, columns, longest=LONGEST_RECORDING), limit, progress, tally)
    if can(model, "embed"):
        if isinstance(place, Path) and place.suffix == ".txt":
            return _masked(model, Lines.open(place), limit, tally)
        return _vectors(model, Pairs.open(place, columns), limit, tally)
    if can(model, "generate"):
        if not isinstance(place, Path):
            raise InputError(f"a language model is evaluated on text, not on a {type(data).__name__}", "give a file")
        return _text(model, Text.open(place, columns), limit, tally)
    fact = f"there is no metric for a {type(model).__name__} of this kind"
    raise InputError(fact, "zero-shot classifiers cannot be evaluated; give another model")


def _place(data: Any) -> Source:
    """Return the test split of a named dataset or of a folder that has one; else the data itself."""
    if not isinstance(data, str | Path):
        return reader_of(data)
    whole = open_data(str(data)) if str(data) in DATASETS else Path(data)
    if is_archive(whole):
        whole = unpacked(whole)
    if whole.is_dir():
        return find_split(whole, "test") or whole
    if not whole.exists():
        known = ", ".join(DATASETS)
        raise InputError(f"there is no dataset or file {str(data)!r}", f"give a folder, a file, or one of {known}")
    return whole


def _require(count: int, what: str) -> None:
    if not count:
        raise InputError(f"none of the {what} could be used", f"give {what} that can be read")


# ---- images ----------------------------------------------------------------------------------------------------------


def _images(
    model: nn.Module, images: Images, limit: int | None, progress: Progress[list[int]], faults: Faults
) -> dict[str, float]:
    """Evaluate every image with the preprocessing of `classify`."""
    classifier, labels, origin = require(model, "classify"), labels_of(model), origin_of(model)
    if origin is None:
        raise InputError("this model was not loaded from a folder", "evaluate one that was saved")
    prepare = read_preprocess(origin)
    faults.merge(images.faults)
    chosen = order.spread(len(images), limit)

    def example(i: int) -> tuple[Tensor, int]:
        try:
            return prepare(images.picture(i)), images.label(i)
        except GlassError as error:
            raise image_fault(error, images.files[i]) from None

    right = close = count = 0
    weight = next(model.parameters())
    for rows in progress([chosen[start : start + IMAGES] for start in range(0, len(chosen), IMAGES)]):
        found = faults.each(rows, example)
        if not found:
            continue
        y = torch.tensor([label for _, label in found])
        with torch.inference_mode():
            logits = classifier.class_logits(torch.stack([x for x, _ in found]).to(weight)).cpu()
        best = logits.topk(min(5, len(labels))).indices
        right, close = right + int((best[:, 0] == y).sum()), close + int((best == y[:, None]).any(1).sum())
        count += len(y)
    _require(count, "images")
    top5 = {"top5_accuracy": close / count} if len(labels) > 5 else {}
    return {"accuracy": right / count, **top5, "images": count}


# ---- texts with labels -----------------------------------------------------------------------------------------------


def _has_labels(model: nn.Module, place: Source, columns: Mapping[str, str] | None) -> bool:
    """Return whether to evaluate answers instead of vectors: the model was trained to label texts, or a column is
    named as labels are, or holds labels of the model."""
    if columns:
        return bool({"label", "tags"} & columns.keys())
    origin = origin_of(model)
    if getattr(model, "per_token", False) or (origin is not None and origin.raw.get("problem_type") is not None):
        return True
    reader, _, _ = open_reader(place, ("text", "label", "tokens", "tags"), columns)
    known, rows = set(labels_of(model)), reader.sample()
    holds = any(all(str(row.get(name)) in known for row in rows) for name in reader.names)
    return holds or are_names(reader.names, ("label", "tags"))


def _labelled(
    model: nn.Module, place: Source, columns: Mapping[str, str] | None, limit: int | None, faults: Faults
) -> dict[str, float]:
    problem: Problem = "token_classification" if getattr(model, "per_token", False) else problem_type_of(model)
    labels = None if problem == "regression" else labels_of(model)
    data = LabelledTexts.open(place, columns, problem=problem, labels=labels)
    faults.merge(data.faults)
    rows, encoding = order.spread(len(data), limit), TextEncoding.of(model)
    truncated = sum(encoding(data.item(i)).truncated for i in rows)
    numbers = {**score_texts(model, data, rows, encoding), "texts": len(rows)}
    return {**numbers, "truncated": truncated} if truncated else numbers


# ---- translations ----------------------------------------------------------------------------------------------------


def _pairs(
    model: nn.Module, pairs: Pairs, limit: int | None, progress: Progress[list[str]], faults: Faults
) -> dict[str, float]:
    faults.merge(pairs.faults)
    found = score_translations(model, pairs, limit=limit, progress=progress, faults=faults)
    return {name: found[name] for name in ("bleu", "chrf", "sentences")}


def score_translations(
    model: nn.Module,
    pairs: Pairs,
    *,
    limit: int | None = None,
    num_beams: int | None = None,
    progress: Progress[list[str]] = iter,
    faults: Faults | None = None,
) -> dict[str, Any]:
    """Compute BLEU and chrF of the translations of `limit` distinct sources, each against all of its references.

    A source longer than the model's context is counted in `faults` and left out.
    """
    found = translate_pairs(model, pairs, limit=limit, num_beams=num_beams, progress=progress, faults=faults)
    return score_answers([one.answer for one in found], [one.references for one in found])


class TranslatedPair(NamedTuple):
    """A source, its translation by the model, and its references."""

    source: str
    answer: str
    references: list[str]


def translate_pairs(
    model: nn.Module,
    pairs: Pairs,
    *,
    limit: int | None = None,
    num_beams: int | None = None,
    progress: Progress[list[str]] = iter,
    faults: Faults | None = None,
) -> list[TranslatedPair]:
    """Translate `limit` distinct sources, spread over the pairs."""
    references: dict[str, list[str]] = {}
    rows: dict[str, int] = {}
    for i in range(len(pairs)):
        source, target = pairs.pair(i)
        references.setdefault(source, []).append(target)
        rows.setdefault(source, i)
    sources, words, context = list(references), tokenizer_of(model), context_length(model)

    def fitting(i: int) -> str:
        if context is not None and len(words.encode(sources[i])) > context:
            raise Fault(f"sentence of more than {context} tokens", pairs.rows.place(rows[sources[i]]))
        return sources[i]

    tally = Faults() if faults is None else faults
    kept = sorted(tally.each(order.spread(len(sources), limit), fitting), key=len)  # sorted by length to reduce padding
    if not kept:
        raise InputError(f"every sentence exceeds the model's context of {context} tokens", "give shorter ones")
    answers: list[str] = []
    for batch in progress([kept[start : start + AT_ONCE] for start in range(0, len(kept), AT_ONCE)]):
        answers += translate(model, batch, num_beams=num_beams)
    return [TranslatedPair(source, answer, references[source]) for source, answer in zip(kept, answers, strict=True)]


def score_answers(answers: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Compute BLEU and chrF against all references, and against the first alone."""
    return {
        "bleu": bleu(answers, references),
        "chrf": chrf(answers, references),
        "bleu_first_reference": bleu(answers, [one[0] for one in references]),
        "chrf_first_reference": chrf(answers, [one[0] for one in references]),
        "sentences": len(answers),
        "references": sum(map(len, references)),
        "signature": bleu_signature(answers, references),
    }


# ---- recordings ------------------------------------------------------------------------------------------------------


def _recordings(
    model: nn.Module, recordings: Recordings, limit: int | None, progress: Progress[list[int]], faults: Faults
) -> dict[str, float]:
    faults.merge(recordings.faults)
    whisper = isinstance(model, SpeechGenerator)  # it writes digits and symbols in any language
    charset = LETTERS if whisper else recognizer_config(model).charset

    def both(i: int) -> tuple[str, str]:
        meant = spoken(recordings.sentence(i), charset, recordings.name(i))
        return normalize_transcript(transcribe(model, recordings.wave(i)).text), meant

    pairs: list[tuple[str, str]] = []
    for row in progress([[i] for i in order.spread(len(recordings), limit)]):
        pairs += faults.each(row, both)
    _require(len(pairs), "recordings")
    answers, references = zip(*pairs, strict=True)
    return {"word_error_rate": word_error_rate(answers, references), "recordings": len(pairs)}


# ---- plain text ------------------------------------------------------------------------------------------------------

PROBE = "A  café,\n\tÖl 12."  # a tokenizer that preserves every byte of this neither lowercases nor merges spaces
BYTE = re.compile("<0x[0-9A-F]{2}>")


def _text(model: nn.Module, text: Text, limit: int | None, faults: Faults) -> dict[str, float]:
    tokenizer = raw_tokenizer(model)
    found = blocks(text, tokenizer, min(256, context_length(model) or 256), cache() / "tokens")
    faults.merge(found.faults)
    numbers = score_text(model, found, token_bytes(tokenizer), limit=limit, faults=faults)
    return {**numbers, "blocks": min(len(found), limit or len(found))}


def block_tokens(blocks: Blocks, start: int, before: int = 0) -> Tensor:
    """Return a block's tokens and the next one, after `before` tokens of context: (before + length + 1,).

    At the beginning of the text the context is padded with token 0.
    """
    missing = max(0, before - start)
    ids = blocks.ids(max(0, start - before), start + blocks.length + 1)
    return torch.cat([ids.new_zeros(missing), ids]) if missing else ids


def token_nats(model: nn.Module, tokens: Tensor, before: int = 0) -> Tensor:
    """−log p of every token (b, length) after the first `before` + 1, for any model that predicts the next token."""
    context, target = tokens[:, :-1], tokens[:, before + 1 :]
    if isinstance(model, WindowModel):
        if model.context_length != before + 1:
            fact = f"the {type(model).__name__} has a window of {model.context_length} tokens, and before is {before}"
            raise ConfigError(fact, "give before=… one less than the length of its window")
        logits = model.slide(context).flatten(0, 1)
    else:
        logits = model(context)[:, before:].flatten(0, 1)
    return cross_entropy(logits, target.flatten(), reduction="none").view(target.shape)


def token_bytes(tokenizer: Any) -> Tensor:
    """Return the number of text bytes of each token: 0 for special tokens, NaN for the unknown token.

    A byte-level piece has one character per byte; in SentencePiece, ▁ is a space and <0x0A> one byte. A probe text
    determines which of the two applies. (A space that the tokenizer prepends to each text counts as part of the text.)
    """
    vocabulary, added = tokenizer.get_vocab(), tokenizer.get_added_tokens_decoder()
    unknown = getattr(tokenizer.model, "unk_token", None)
    for size in (len, _piece_bytes):
        sizes = torch.zeros(max(vocabulary.values()) + 1, dtype=torch.float64)  # not the count: ids may have gaps
        for piece, i in vocabulary.items():
            sizes[i] = size(piece)
        for i, token in added.items():
            sizes[i] = 0 if token.special else len(token.content.encode())
        if size is _piece_bytes and unknown in vocabulary:
            sizes[vocabulary[unknown]] = math.nan
        once, twice = (sizes[tokenizer.encode(PROBE * n, add_special_tokens=False).ids].sum() for n in (1, 2))
        if float(twice - once) == len(PROBE.encode()):  # a prepended space is in both and cancels
            return sizes
    fact = "the tokenizer normalises text, so bits per byte cannot be computed"
    raise InputError(fact, "use a model with byte-level BPE or SentencePiece tokens")


def _piece_bytes(piece: str) -> int:
    return 1 if BYTE.fullmatch(piece) else len(piece.replace("▁", " ").encode())


def score_text(
    model: nn.Module,
    blocks: Blocks,
    sizes: Tensor,
    *,
    before: int = 0,
    limit: int | None = None,
    faults: Faults | None = None,
) -> dict[str, float]:
    """Compute bits and perplexity per byte, and nats per token, over `limit` blocks spread over the text.

    Each block is evaluated from its own start. A token of unknown size is not counted, and its block is counted in
    `faults`.
    """
    rows = order.spread(len(blocks), limit)
    total = size = predicted = 0.0
    device = device_of(model)
    with torch.no_grad():
        for first in range(0, len(rows), BLOCKS):
            chosen = rows[first : first + BLOCKS]
            tokens = torch.stack([block_tokens(blocks, i * blocks.length, before) for i in chosen])
            each = sizes[tokens[:, before + 1 :]]
            known = ~each.isnan()
            for i, whole in zip(chosen, known.all(1).tolist(), strict=True):
                if not whole and faults is not None:
                    faults.count(Fault("characters that the tokenizer does not know", f"block {i + 1}"))
            total += float(token_nats(model, tokens.to(device), before).double().cpu()[known].sum())
            size, predicted = size + float(each[known].sum()), predicted + float(known.sum())
    if not size:
        raise InputError("the tokenizer knows no character of the text", "give text in the model's language")
    return {
        "bits_per_byte": bits_per_byte(total, int(size)),
        "perplexity_per_byte": perplexity(total, int(size)),
        "nats": total / predicted,
    }


# ---- encoders --------------------------------------------------------------------------------------------------------


def _vectors(model: nn.Module, pairs: Pairs, limit: int | None, faults: Faults) -> dict[str, float]:
    """Rank the partner of each sentence among the second sentences of all pairs: mean reciprocal rank, recall at 1."""
    faults.merge(pairs.faults)
    tokenizer_of(model)  # a missing tokenizer must not be counted as a fault of the sentences

    def readable(i: int) -> tuple[str, str]:
        first, second = pairs.pair(i)
        try:
            for text in (first, second):
                tokenize(model, text)
        except InputError:
            raise Fault("sentence that is empty or exceeds the model's context", pairs.rows.place(i)) from None
        return first, second

    both = faults.each(order.spread(len(pairs), limit), readable)
    _require(len(both), "pairs")
    x, y = (normalize(embed(model, [pair[side] for pair in both]), dim=-1) for side in (0, 1))
    S = x @ y.mT
    ranks = (S.diagonal()[:, None] <= S).sum(1).double()
    return {
        "mean_reciprocal_rank": float((1 / ranks).mean()),
        "recall_at_1": float((ranks == 1).double().mean()),
        "pairs": len(both),
    }


SPECIALS = ("<pad>", "<s>", "</s>", "<mask>")
PAD, START, END, MASK = range(4)
IGNORED = -100  # target index that the loss ignores


class Sentences(Protocol):
    """`data.Lines`, or any other indexable collection of sentences."""

    def __len__(self) -> int: ...

    def line(self, i: int, /) -> str: ...


def _masked(model: nn.Module, lines: Lines, limit: int | None, faults: Faults) -> dict[str, float]:
    """Compute nats and accuracy of masked tokens in the sentences."""
    faults.merge(lines.faults)
    if not isinstance(model, TokenPredictor) or not model.predicts_tokens:
        fact = "this encoder has no head for masked tokens"
        raise InputError(fact, "give pairs of sentences with the same meaning as a .tsv file")
    numbers = score_masked(model, lines, raw_tokenizer(model), limit=limit)
    return {**numbers, "sentences": len(order.spread(len(lines), limit))}


def require_specials(tokenizer: Any) -> None:
    """Check that <pad>, <s>, </s> and <mask> are the first four tokens, as masking requires."""
    if any(tokenizer.token_to_id(token) != i for i, token in enumerate(SPECIALS)):
        remedy = f"train it with bpe.train(…, specials={SPECIALS}, begin='<s>', end='</s>')"
        raise ConfigError("the tokenizer's ids of <pad>, <s>, </s>, <mask> are not 0, 1, 2, 3", remedy)


@torch.no_grad()
def score_masked(
    model: nn.Module, sentences: Sentences, tokenizer: Any, *, rate: float = 0.15, limit: int | None = None
) -> dict[str, float]:
    """Compute nats and accuracy of masked tokens in `limit` sentences spread over the data; masks are deterministic."""
    require_specials(tokenizer)
    total = right = count = 0.0
    rows = order.spread(len(sentences), limit)
    device = device_of(model)
    for start in range(0, len(rows), SENTENCES):
        texts = [sentences.line(i) for i in rows[start : start + SENTENCES]]
        batch = masked_batch(tokenizer, texts, rate, start)
        logits, target = masked_logits(model, {name: x.to(device) for name, x in batch.items()})
        total += float(cross_entropy(logits, target, reduction="sum"))
        right, count = right + float((logits.argmax(-1) == target).sum()), count + len(target)
    return {"nats": total / count, "accuracy": right / count}


def masked_batch(tokenizer: Any, texts: Sequence[str], rate: float, seed: int) -> dict[str, Tensor]:
    """Build a batch of masked sentences (`tokens`, `real`) and the original tokens at masked positions (`target`)."""
    tokens = pad_rows([one.ids for one in tokenizer.encode_batch_fast(list(texts))], PAD)
    random = torch.Generator().manual_seed(seed)
    seen, target = mask_tokens(tokens, rate, int(tokenizer.get_vocab_size()), random)
    return {"tokens": seen, "real": tokens != PAD, "target": target}


def pad_rows(rows: Sequence[Sequence[int]], pad: int) -> Tensor:
    """Pad token ids on the right to (n, longest)."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows])


def mask_tokens(tokens: Tensor, rate: float, vocabulary: int, random: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return the masked tokens, and the targets (IGNORED at positions that were not chosen).

    Of the chosen tokens, 80 % become the mask, 10 % another token, 10 % stay (Devlin et al., "BERT", 2018).
    """
    words = (tokens != PAD) & (tokens != START) & (tokens != END)
    draw = torch.rand(tokens.shape, generator=random).masked_fill(~words, 2.0)
    first = draw.argmin(1, keepdim=True)  # every sentence has at least one masked token
    picked = ((draw < rate) | torch.zeros_like(words).scatter(1, first, True)) & words
    fate = torch.rand(tokens.shape, generator=random)
    other = torch.randint(len(SPECIALS), vocabulary, tokens.shape, generator=random)
    seen = torch.where(picked & (fate < 0.8), MASK, tokens)
    seen = torch.where(picked & (fate >= 0.8) & (fate < 0.9), other, seen)
    return seen, tokens.masked_fill(~picked, IGNORED)


def masked_logits(model: nn.Module, batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Return logits (n, vocabulary) of the masked tokens only, and their targets: a sixth of the cost of all."""
    real, target = batch["real"], batch["target"]
    output = model(batch["tokens"], None if bool(real.all()) else real)
    chosen = target != IGNORED
    assert isinstance(model, TokenPredictor)
    return model.token_logits(output[chosen]), target[chosen]
