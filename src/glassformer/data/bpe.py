"""Byte-level byte-pair encoding, trained with the tokenizers library."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError, InputError

SPECIALS = ("<pad>", "<s>", "</s>")
ROLES = {
    "<pad>": "pad_token",
    "<s>": "bos_token",
    "</s>": "eos_token",
    "<unk>": "unk_token",
    "<mask>": "mask_token",
    "<|endoftext|>": "eos_token",
}


def train(
    texts: Iterable[str],
    vocabulary: int,
    specials: Sequence[str] = SPECIALS,
    *,
    begin: str | None = None,
    end: str | None = None,
) -> Any:
    """Train a `tokenizers.Tokenizer` of `vocabulary` tokens: ids 0, 1, … are `specials`, then 256 bytes, then merges.

    The vocabulary is smaller if the texts have no more pairs to merge, so size the model by `get_vocab_size()`. Every
    text can be decoded from its tokens, since every byte is a token. `begin` and `end` are special tokens that
    `encode` adds around a text. Sennrich et al., 2016; on bytes: Radford et al., 2019.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    _check(vocabulary, specials, begin, end)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(specials),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    seen = 0

    def counted() -> Iterable[str]:
        nonlocal seen
        for text in texts:
            seen += len(text)
            yield text

    tokenizer.train_from_iterator(counted(), trainer)
    if not seen:
        raise InputError("there is no text to train a tokenizer on", "give texts that are not empty")
    around = [(token, tokenizer.token_to_id(token)) for token in (begin, end) if token is not None]
    if around:
        single = " ".join(part for part in (begin, "$A", end) if part)
        tokenizer.post_processor = processors.TemplateProcessing(single=single, special_tokens=around)
    return tokenizer


def save(tokenizer: Any, folder: str | Path) -> Path:
    """Write tokenizer.json and tokenizer_config.json, readable by this package and by transformers."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    roles = {role: token for token, role in ROLES.items() if tokenizer.token_to_id(token) is not None}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, **roles}
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1, ensure_ascii=False), encoding="utf-8")
    return folder


def _check(vocabulary: int, specials: Sequence[str], begin: str | None, end: str | None) -> None:
    least = 256 + len(specials)
    if vocabulary < least:
        fact = f"a vocabulary of {vocabulary} has no room for 256 bytes and {len(specials)} special tokens"
        raise ConfigError(fact, f"choose at least {least}")
    if len(set(specials)) < len(specials):
        raise ConfigError(f"the special tokens {', '.join(specials)} are not distinct", "list each once")
    for token in (begin, end):
        if token is not None and token not in specials:
            raise ConfigError(f"begin or end token {token} is not special", f"choose one of {', '.join(specials)}")
