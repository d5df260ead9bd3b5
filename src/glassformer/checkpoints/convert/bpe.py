"""Build tokenizer.json from other formats: pieces with scores, ranked byte strings, or tokens with merges.

All three are byte-pair encodings: two adjacent pieces merge if their concatenation is a piece, best first.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from glassformer.errors import CheckpointError

# Pre-tokenizers by their names in GGUF files. "" is GPT-2's.
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
PARTINGS: dict[str, tuple[Any, ...]] = {
    "": (pre_tokenizers.ByteLevel(add_prefix_space=False),),
    "smollm": (pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)),
    "llama-bpe": (
        pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ),
}
PARTINGS |= {"gpt-2": PARTINGS[""], "default": PARTINGS[""], "smaug-bpe": PARTINGS["llama-bpe"]}


def from_pieces(
    pieces: Sequence[str], scores: Sequence[float], *, special: Mapping[int, str], bos: int | None, space: bool = True
) -> Tokenizer:
    """Build a SentencePiece tokenizer as in Llama 2: ▁ for spaces, one ▁ before the text, byte fallback."""
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    merges = []
    for i, piece in enumerate(pieces):
        if i in special or (piece.startswith("<0x") and piece.endswith(">")):
            continue
        for cut in range(1, len(piece)):
            left, right = vocabulary.get(piece[:cut]), vocabulary.get(piece[cut:])
            if left is not None and right is not None:
                merges.append((-scores[i], left, right))
    named = [(pieces[left], pieces[right]) for _, left, right in sorted(merges)]
    unknown = special.get(0, "<unk>")
    tokenizer = Tokenizer(models.BPE(vocabulary, named, unk_token=unknown, fuse_unk=True, byte_fallback=True))
    before = [normalizers.Prepend("▁")] if space else []
    tokenizer.normalizer = normalizers.Sequence([*before, normalizers.Replace(" ", "▁")])
    after = [decoders.Strip(" ", 1, 0)] if space else []
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *after]
    )
    if bos is not None:
        tokenizer.post_processor = _begin_with(special[bos], bos)
    return _with_special(tokenizer, special)


def from_merges(
    tokens: Sequence[str], merges: Sequence[str], *, special: Mapping[int, str], bos: int | None, parting: str
) -> Tokenizer:
    """Build a GPT-2 tokenizer: bytes written as characters, and merges in order."""
    if parting not in PARTINGS:
        known = ", ".join(name for name in PARTINGS if name)
        raise CheckpointError(f"the pre-tokenizer {parting!r} is not supported", f"supported: {known}")
    pairs = []
    for merge in merges:
        left, gap, right = merge.partition(" ")
        if not gap:
            raise CheckpointError(f"the tokenizer has the merge {merge[:40]!r}", "a merge is two tokens and a space")
        pairs.append((left, right))
    vocabulary = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocabulary, pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(list(PARTINGS[parting]))
    tokenizer.decoder = decoders.ByteLevel()
    if bos is not None:
        tokenizer.post_processor = _begin_with(special[bos], bos)
    return _with_special(tokenizer, special)


def from_ranks(text: bytes, special: Sequence[str]) -> Tokenizer:
    """Build a tiktoken tokenizer from lines of base64 and rank.

    The merge of a byte string is the pair left after its bytes are merged by all better ranks.
    """
    try:
        ranks = {base64.b64decode(word): int(rank) for word, rank in map(bytes.split, text.splitlines())}
    except ValueError:
        raise CheckpointError(
            "the vocabulary is not made of lines with a base64 token and its rank", "give a .tiktoken file"
        ) from None
    letters = _letters()
    written = lambda word: "".join(letters[byte] for byte in word)
    words = sorted(ranks, key=ranks.__getitem__)
    merges = [" ".join(map(written, _last_two(word, ranks))) for word in words if len(word) > 1]
    tokens = [written(word) for word in words]
    more = {len(tokens) + i: name for i, name in enumerate(special)}
    return from_merges([*tokens, *special], merges, special=more, bos=None, parting="")


def _last_two(word: bytes, ranks: Mapping[bytes, int]) -> tuple[bytes, bytes]:
    """Return the pair whose merge is the word, by merging its bytes by all better ranks."""
    parts = [word[i : i + 1] for i in range(len(word))]
    while len(parts) > 2:
        found = [(ranks.get(parts[i] + parts[i + 1], len(ranks)), i) for i in range(len(parts) - 1)]
        _, i = min(found)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return parts[0], parts[1]


def _letters() -> dict[int, str]:
    """Return GPT-2's character for each byte: the byte's own character if printable, else U+0100 …"""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {byte: chr(byte) for byte in shown} | {byte: chr(0x100 + i) for i, byte in enumerate(hidden)}


def _begin_with(token: str, i: int) -> Any:
    pair = f"{token} $A {token} $B:1"
    return processors.TemplateProcessing(single=f"{token} $A", pair=pair, special_tokens=[(token, i)])


def _with_special(tokenizer: Tokenizer, special: Mapping[int, str]) -> Tokenizer:
    names = [special[i] for i in sorted(special)]
    tokenizer.add_special_tokens([AddedToken(name, normalized=False, special=True) for name in names])
    return tokenizer
