"""Small models with words: folders as Hugging Face would save them, their tokenizers trained on a few sentences."""

from __future__ import annotations

import json
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

TEXT = (
    "the cat sat on the mat because it was soft and warm, and the dog sat in the garden. "
    "a man is eating food; someone has a meal; the market fell. 1 2 3 4 5 6 7 8 9 0 naïve café! "
)


@pytest.fixture(scope="session")
def hf() -> Any:
    import transformers

    transformers.utils.logging.disable_progress_bar()
    return transformers


def lively(model: Any, seed: int = 0, scale: float = 0.3) -> Any:
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        if "embed_positions" not in name:
            base = 1.0 if weight.dim() == 1 and "bias" not in name else 0.0
            weight.data = base + scale * torch.randn(weight.shape, generator=generator)
    return model.eval()


@pytest.fixture(scope="session")
def byte_words() -> Tokenizer:
    """GPT-2's kind."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    special = ["<|end|>", "<|user|>", "<|assistant|>"]
    how = {"initial_alphabet": letters, "special_tokens": special, "show_progress": False}
    tokenizer.train_from_iterator([TEXT], trainers.BpeTrainer(vocab_size=320, **how))
    return tokenizer


@pytest.fixture(scope="session")
def gpt2(hf: Any, byte_words: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpt2")
    size = byte_words.get_vocab_size()
    config = hf.GPT2Config(
        vocab_size=size, n_positions=48, n_embd=24, n_layer=2, n_head=3, bos_token_id=0, eos_token_id=0
    )
    lively(hf.GPT2LMHeadModel(config)).save_pretrained(folder)
    byte_words.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(scope="session")
def bert(hf: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With two classes, and padded to 16 by its tokenizer.json, as some published ones are."""
    folder = tmp_path_factory.mktemp("bert")
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    tokenizer.train_from_iterator([TEXT], trainers.WordPieceTrainer(vocab_size=120, special_tokens=special))
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.enable_padding(length=16)
    tokenizer.enable_truncation(8)
    tokenizer.save(str(folder / "tokenizer.json"))
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 40}
    config = hf.BertConfig(vocab_size=tokenizer.get_vocab_size(), max_position_embeddings=32, **sizes)
    config.id2label, config.label2id = {0: "bad", 1: "good"}, {"bad": 0, "good": 1}
    lively(hf.BertForSequenceClassification(config)).save_pretrained(folder)
    return folder


@pytest.fixture
def edited(tmp_path: Path) -> Callable[..., Path]:
    """A folder that shares another's weights, with some JSON files changed or added."""

    def copy(folder: Path, **files: dict[str, Any]) -> Path:
        new = tmp_path / "edited"
        new.mkdir()
        for path in folder.iterdir():
            if path.is_file():
                (new / path.name).symlink_to(path)
        for name, changes in files.items():
            path = new / f"{name}.json"
            old = json.loads(path.read_text()) if path.exists() else {}
            path.unlink(missing_ok=True)
            path.write_text(json.dumps(old | changes))
        return new

    return copy
