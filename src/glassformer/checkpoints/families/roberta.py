"""RoBERTa (Liu 2019), and sentence-transformers based on it: BERT's stack, positions start after the padding id."""

from __future__ import annotations

from glassformer.checkpoints.families.bert import stack_quantities, stack_rules, text
from glassformer.checkpoints.family import Family, Quantity
from glassformer.checkpoints.fields import Fields
from glassformer.checkpoints.rules import linear, norm, same
from glassformer.models.encoder import Encoder, EncoderConfig

TABLE, HEAD = "roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight"


def config(f: Fields) -> EncoderConfig:
    classes = f.shapes.get("classifier.out_proj.weight") or f.shapes.get("classifier.weight")
    per_token = f.architecture.endswith("ForTokenClassification")
    pools = f.architecture.endswith("ForSequenceClassification")
    return EncoderConfig(
        text=text(f, offset=f.token("pad_token_id", 1) + 1),
        word_head=f.architecture.endswith("ForMaskedLM") or f.has("lm_head.dense.weight"),
        activation="gelu",  # in the masked-language-model head, whatever the blocks use
        classes=classes[0] if classes else 2 * pools,
        per_token=per_token,
        tied=f.tied(HEAD, TABLE, default=True),
        pooler=f.has("roberta.pooler.dense.weight") or (bool(classes) and not per_token) or pools,
    )


ROBERTA = Family(
    name="roberta",
    types=("roberta", "xlm-roberta", "camembert"),
    architectures=tuple(
        f"{kind}{task}"
        for kind in ("Roberta", "XLMRoberta", "Camembert")
        for task in ("Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification")
    ),
    model=Encoder,
    config=config,
    rules=(
        *stack_rules("roberta."),
        *linear("pooler", "classifier.dense|roberta.pooler.dense"),
        *linear("class_head", "classifier.out_proj|classifier"),
        *linear("transform", "lm_head.dense"),
        *norm("transform_norm", "lm_head.layer_norm"),
        same("word_head.W.weight", HEAD),
        same("word_head.bias", "lm_head.decoder.bias|lm_head.bias"),
    ),
    prefix="roberta.",
    skip=("roberta.embeddings.position_ids",),
    copies=((TABLE, HEAD), ("lm_head.bias", "lm_head.decoder.bias")),
    unused=("lm_head.bias", "roberta.pooler.dense.*"),
    quantities=(
        *stack_quantities("roberta."),
        Quantity("pooler", "roberta.pooler.dense"),
        Quantity("pooler", "classifier.dense"),
        Quantity("class_head", "classifier.out_proj"),
        Quantity("class_head", "classifier"),
        Quantity("word_head", "lm_head.decoder"),
    ),
)
