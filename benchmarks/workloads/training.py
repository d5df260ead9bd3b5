"""One step of training: forward, backward and AdamW, beside Hugging Face's model of the same size."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from workloads import THREADS, Ready, Target, Workload
from workloads.encoders import layers

WORDS = 2 * 2048 * 384 * 8192  # operations of the product with the vocabulary, for 8 × 256 or 16 × 128 tokens


def ours(model: Any, loss: Callable[[], Any], precision: str) -> Ready:
    """Prepared as `gf.train` does."""
    from glassformer.runtime import prepare

    if precision == "fp32":
        prepare(model, "fp32")
    return stepping(model, loss, precision)


def stepping(model: Any, loss: Callable[[], Any], precision: str) -> Ready:
    import torch

    if precision == "bf16":
        from glassformer.runtime import machine

        if "bf16" not in machine().chosen:
            raise RuntimeError(f"no bfloat16 on this processor: {dict(machine().refused)}")
    torch.set_num_threads(THREADS)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def run() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            value = loss()
        value.backward()
        optimizer.step()

    return Ready(run, {"parameters": sum(weight.numel() for weight in model.parameters())})


def tokens(vocabulary: int, batch: int, length: int) -> Any:
    import torch

    return torch.randint(vocabulary, (batch, length), generator=torch.Generator().manual_seed(0))


def ours_gpt(precision: str) -> Ready:
    from torch.nn.functional import cross_entropy

    from glassformer.models import Decoder
    from glassformer.models.decoder import plain
    from glassformer.nn.finite import unchecked_finite

    model, ids = Decoder(plain(8192, 384, 6, 6, 256)), tokens(8192, 8, 257)

    def loss() -> Any:
        with unchecked_finite():  # as the training loop does, which checks the loss
            return cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())

    return ours(model, loss, precision)


def hf_gpt(precision: str) -> Ready:
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"vocab_size": 8192, "n_embd": 384, "n_layer": 6, "n_head": 6, "n_positions": 256}
    model = GPT2LMHeadModel(GPT2Config(**sizes, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))
    ids = tokens(8192, 8, 256)
    return stepping(model, lambda: model(ids, labels=ids).loss, precision)


def ours_vit(precision: str) -> Ready:
    import torch
    from torch.nn.functional import cross_entropy

    from glassformer.models import ViT, vit
    from glassformer.nn.finite import unchecked_finite

    model = ViT(vit.small_16())
    pixels, labels = torch.randn(4, 3, 224, 224), torch.arange(4)

    def loss() -> Any:
        with unchecked_finite():
            return cross_entropy(model(pixels), labels)

    return ours(model, loss, precision)


def hf_vit(precision: str) -> Ready:
    import torch
    from transformers import ViTConfig, ViTForImageClassification

    sizes = {"hidden_size": 384, "num_hidden_layers": 12, "num_attention_heads": 6, "intermediate_size": 1536}
    model = ViTForImageClassification(
        ViTConfig(**sizes, num_labels=1000, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    )
    pixels, labels = torch.randn(4, 3, 224, 224), torch.arange(4)
    return stepping(model, lambda: model(pixels, labels=labels).loss, precision)


def ours_bert(precision: str) -> Ready:
    from torch.nn.functional import cross_entropy

    from glassformer.models import Encoder, EncoderConfig
    from glassformer.nn import BlockConfig, FeedForwardConfig, Learned, NormConfig, heads
    from glassformer.nn.finite import unchecked_finite
    from glassformer.nn.text import TextConfig

    norm = NormConfig(eps=1e-12)
    block = BlockConfig(attention=heads(384, 6), ffn=FeedForwardConfig(width=384, hidden=1536), norm=norm, place="post")
    text = TextConfig(vocabulary=8192, depth=6, block=block, positions=Learned(length=128), segments=2, first_norm=norm)
    model, ids = Encoder(EncoderConfig(text=text, word_head=True)), tokens(8192, 16, 128)

    def loss() -> Any:
        with unchecked_finite():
            return cross_entropy(model.words(model(ids)).flatten(0, 1), ids.flatten())

    return ours(model, loss, precision)


def hf_bert(precision: str) -> Ready:
    from transformers import BertConfig, BertForMaskedLM

    sizes = {"vocab_size": 8192, "hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 6}
    model = BertForMaskedLM(
        BertConfig(**sizes, intermediate_size=1536, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    )
    ids = tokens(8192, 16, 128)
    return stepping(model, lambda: model(ids, labels=ids).loss, precision)


def workload(
    name: str, title: str, own: Callable[[str], Ready], peer: Callable[[str], Ready], forward: float
) -> Workload:
    """`forward`: operations of a forward pass; each product has two more in the backward pass."""
    return Workload(
        name=name,
        title=title,
        contenders={
            "glassformer fp32": partial(own, "fp32"),
            "glassformer bf16": partial(own, "bf16"),
            "HF fp32": partial(peer, "fp32"),
            "HF bf16": partial(peer, "bf16"),
        },
        targets=(Target("glassformer fp32", "HF fp32", 0.8), Target("glassformer bf16", "HF fp32", 0.8)),
        today="HF fp32",
        operations={"glassformer fp32": 3 * forward, "glassformer bf16": 3 * forward},
        limited_by="GPT-2-like: in fp32, 63 % are matrix products by oneDNN and 9 % attention, by the same kernel as "
        "in the peer; in bf16, 47 % are torch's products, as in the peer, 13 % attention and 11 % copies",
        rounds=3,
    )


WORKLOADS = (
    workload("train-gpt", "training step, GPT-2-like 6 × 384, 8 × 256", ours_gpt, hf_gpt,
             layers(6, 384, 256, 8, causal=True) + WORDS),
    workload("train-vit", "training step, ViT-S/16, 4 images", ours_vit, hf_vit, layers(12, 384, 197, 4)),
    workload("train-bert", "training step, BERT-like 6 × 384, 16 × 128", ours_bert, hf_bert,
             layers(6, 384, 128, 16) + WORDS),
)  # fmt: skip
