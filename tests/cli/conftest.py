"""Folders of small models with words, for the commands that run them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

from glassformer.checkpoints import published_weights
from glassformer.models import Decoder, Encoder, decoder, encoder


def _publish(model: Any, family: str, folder: Path, raw: dict[str, Any]) -> Path:
    tensors = {name: tensor.contiguous() for name, tensor in published_weights(model, family).items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps({"model_type": family} | raw))
    return folder


@pytest.fixture(scope="session")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT-2 of one layer whose tokens are bytes."""
    folder = tmp_path_factory.mktemp("writer")
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))
    raw = {"architectures": ["GPT2LMHeadModel"], "vocab_size": 256, "n_embd": 16, "n_layer": 1, "n_head": 2}
    model = Decoder(decoder.plain(256, 16, 1, 2, 40), seed=1)
    return _publish(model, "gpt2", folder, raw | {"n_positions": 40, "eos_token_id": 0})


@pytest.fixture(scope="session")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of one layer with two classes that knows ten words."""
    folder = tmp_path_factory.mktemp("reader")
    words = "[PAD] [UNK] [CLS] [SEP] the cat dog sat fell market"
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words.split())}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.save(str(folder / "tokenizer.json"))
    config = encoder.plain(vocabulary=10, width=16, depth=1, count=2, length=12, hidden=32)
    raw = {"architectures": ["BertForSequenceClassification"], "vocab_size": 10, "hidden_size": 16}
    raw |= {"num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 12}
    raw |= {"id2label": {"0": "bad", "1": "good"}}
    from dataclasses import replace

    model = Encoder(replace(config, classes=2, pooler=True, word_head=False), seed=1)
    return _publish(model, "bert", folder, raw)
