"""BERT (Devlin 2018), MiniLM, and sentence-transformers based on them: post-norm, learned positions, segments."""

from __future__ import annotations

from typing import Any

from glassformer.checkpoints import sentence
from glassformer.checkpoints.family import Family, Quantity
from glassformer.checkpoints.fields import PUBLISHED_ACTIVATIONS, Fields
from glassformer.checkpoints.rules import Rule, linear, norm, same
from glassformer.errors import ConfigError
from glassformer.models.encoder import Encoder, EncoderConfig
from glassformer.nn import BlockConfig, FeedForwardConfig, Learned, NormConfig, heads
from glassformer.nn.text import TextConfig

CLASSIFIERS = ("BertForSequenceClassification", "BertForNextSentencePrediction")  # classify from the pooler output
TOKEN_CLASSIFIER = "BertForTokenClassification"
TABLE, HEAD = "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"


def text(f: Fields, *, offset: int = 0) -> TextConfig:
    """Return the config of the stack shared by BERT and RoBERTa; positions start at `offset` in their table."""
    f.only("position_embedding_type", "absolute")
    f.only("is_decoder", False)
    f.only("add_cross_attention", False)
    width = f.size("hidden_size")
    activation, length = f.activation("hidden_act", "gelu"), f.size("max_position_embeddings", 512)
    if not 0 <= offset < length:
        raise ConfigError(f"positions start at {offset} of {length}", "download the config.json of these weights")
    eps = NormConfig(eps=f.number("layer_norm_eps", 1e-12))
    block = BlockConfig(
        attention=heads(width, f.size("num_attention_heads"), dropout=f.number("attention_probs_dropout_prob", 0.1)),
        ffn=FeedForwardConfig(width=width, hidden=f.size("intermediate_size"), activation=activation),
        norm=eps,
        place="post",
        dropout=f.number("hidden_dropout_prob", 0.1),
    )
    return TextConfig(
        vocabulary=f.size("vocab_size"),
        depth=f.depth("num_hidden_layers"),
        block=block,
        positions=Learned(length=length - offset, offset=offset),
        segments=f.size("type_vocab_size", 2),
        first_norm=eps,
    )


def config(f: Fields) -> EncoderConfig:
    words = f.architecture in ("BertForMaskedLM", "BertForPreTraining") or f.has("cls.predictions.bias")
    classes = f.shapes.get("classifier.weight") or f.shapes.get("cls.seq_relationship.weight")
    pools, per_token = f.architecture in ("BertForPreTraining", *CLASSIFIERS), f.architecture == TOKEN_CLASSIFIER
    stack = text(f)
    return EncoderConfig(
        text=stack,
        word_head=words,
        activation=stack.block.ffn.activation,
        classes=classes[0] if classes else 2 * pools,
        per_token=per_token,
        tied=f.tied(HEAD, TABLE, default=True),
        pooler=f.has("bert.pooler.dense.weight") or (bool(classes) and not per_token) or pools,
    )


def describe(c: EncoderConfig) -> dict[str, Any]:
    """Return config.json for an encoder of ours."""
    attention, ffn, positions = c.text.block.attention, c.text.block.ffn, c.text.positions
    bare = "BertForMaskedLM" if c.word_head else "BertModel"
    kind = bare if not c.classes else TOKEN_CLASSIFIER if c.per_token else CLASSIFIERS[0]
    return {
        "architectures": [kind],
        "model_type": "bert",
        "vocab_size": c.text.vocabulary,
        "hidden_size": attention.width,
        "num_hidden_layers": c.text.depth,
        "num_attention_heads": attention.heads,
        "intermediate_size": ffn.hidden,
        "hidden_act": PUBLISHED_ACTIVATIONS.get(ffn.activation, ffn.activation),
        "hidden_dropout_prob": c.text.block.dropout,
        "attention_probs_dropout_prob": attention.dropout,
        "max_position_embeddings": positions.length if isinstance(positions, Learned) else None,
        "type_vocab_size": c.text.segments,
        "layer_norm_eps": c.text.block.norm.eps,
        "tie_word_embeddings": c.tied,
    }


def stack_rules(root: str) -> tuple[Rule, ...]:
    """Return the rules shared by BERT and RoBERTa, under `bert.` or `roberta.`."""
    ours, theirs = "encoder.{i}", f"{root}encoder.layer.{{i}}"
    return (
        same("encoder.embed.table.weight", f"{root}embeddings.word_embeddings.weight"),
        same("encoder.embed.positions.table.weight", f"{root}embeddings.position_embeddings.weight"),
        same("encoder.embed.segments.weight", f"{root}embeddings.token_type_embeddings.weight"),
        *norm("encoder.embed.norm", f"{root}embeddings.LayerNorm"),
        *linear(f"{ours}.attention.WQ", f"{theirs}.attention.self.query"),
        *linear(f"{ours}.attention.WK", f"{theirs}.attention.self.key"),
        *linear(f"{ours}.attention.WV", f"{theirs}.attention.self.value"),
        *linear(f"{ours}.attention.WO", f"{theirs}.attention.output.dense"),
        *norm(f"{ours}.attention_residual.norm", f"{theirs}.attention.output.LayerNorm"),
        *linear(f"{ours}.ffn.W1", f"{theirs}.intermediate.dense"),
        *linear(f"{ours}.ffn.W2", f"{theirs}.output.dense"),
        *norm(f"{ours}.ffn_residual.norm", f"{theirs}.output.LayerNorm"),
        *sentence.RULES,
    )


def stack_quantities(root: str) -> tuple[Quantity, ...]:
    ours, theirs = "encoder.{i}", f"{root}encoder.layer.{{i}}"
    return (
        Quantity("encoder.embed.X", f"{root}embeddings"),
        Quantity(f"{ours}.attention.A", f"{theirs}.attention.self", 1),
        Quantity(f"{ours}.attention.O", f"{theirs}.attention.output.dense"),
        Quantity(f"{ours}.ffn.P", f"{theirs}.intermediate.dense"),
        Quantity(f"{ours}.ffn.O", f"{theirs}.output.dense"),
        Quantity(f"{ours}.O", theirs),
    )


BERT = Family(
    name="bert",
    types=("bert",),
    architectures=("BertModel", "BertForMaskedLM", "BertForPreTraining", *CLASSIFIERS, TOKEN_CLASSIFIER),
    model=Encoder,
    config=config,
    describe=describe,
    rules=(
        *stack_rules("bert."),
        *linear("pooler", "bert.pooler.dense"),
        *linear("class_head", "classifier|cls.seq_relationship"),
        *linear("transform", "cls.predictions.transform.dense"),
        *norm("transform_norm", "cls.predictions.transform.LayerNorm"),
        same("word_head.W.weight", HEAD),
        same("word_head.bias", "cls.predictions.decoder.bias|cls.predictions.bias"),
    ),
    prefix="bert.",
    aliases=((".LayerNorm.gamma", ".LayerNorm.weight"), (".LayerNorm.beta", ".LayerNorm.bias")),
    skip=("bert.embeddings.position_ids",),
    copies=((TABLE, HEAD), ("cls.predictions.bias", "cls.predictions.decoder.bias")),
    unused=("cls.predictions.bias",),  # for an untied head, whose decoder has its own bias
    quantities=(
        *stack_quantities("bert."),
        Quantity("pooler", "bert.pooler.dense"),
        Quantity("word_head", "cls.predictions.decoder"),
        Quantity("class_head", "classifier"),
        Quantity("class_head", "cls.seq_relationship"),
    ),
)
