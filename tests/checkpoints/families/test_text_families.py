"""Text models equal Hugging Face's: BERT, RoBERTa, GPT-2, Llama, T5, Marian."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from glassformer import load
from glassformer.checkpoints import parity
from glassformer.errors import CheckpointError, ConfigError
from glassformer.models.encoder import Encoder

# BERT, MiniLM and sentence-transformers folders against Hugging Face.


BERT_SMALL = {
    "vocab_size": 30,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
}
BERT_SMALL |= {"max_position_embeddings": 16}


@pytest.mark.variants(2)
@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("BertForMaskedLM", {}),
        ("BertForMaskedLM", {"tie_word_embeddings": False, "hidden_act": "gelu_new"}),
        ("BertForPreTraining", {"layer_norm_eps": 0.1, "num_attention_heads": 1}),
        ("BertForSequenceClassification", {"num_labels": 5, "hidden_act": "relu", "type_vocab_size": 3}),
        ("BertForNextSentencePrediction", {"num_attention_heads": 12}),
        ("BertModel", {"hidden_size": 15, "hidden_act": "silu", "num_hidden_layers": 1}),
    ],
)
def test_bert_is_theirs(hf: Any, publish: Any, require_equal: Any, kind: str, changes: dict[str, Any]) -> None:
    folder = publish(getattr(hf, kind)(hf.BertConfig(**BERT_SMALL | changes)))
    model = require_equal(folder)
    assert isinstance(model, Encoder)
    assert model.config.word_head == (kind in ("BertForMaskedLM", "BertForPreTraining"))


def test_old_names_and_buffers(hf: Any, publish: Any, require_equal: Any) -> None:
    """The first published BERT has gamma and beta, position_ids, and copies of what is tied."""
    folder = publish(hf.BertForMaskedLM(hf.BertConfig(**BERT_SMALL)))
    tensors = load_file(folder / "model.safetensors")
    old = {
        n.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): t
        for n, t in tensors.items()
    }
    old["bert.embeddings.position_ids"] = torch.arange(16)[None]
    old["cls.predictions.decoder.weight"] = old["bert.embeddings.word_embeddings.weight"].clone()
    plain = load(folder)
    save_file(old, folder / "model.safetensors")
    again = load(folder)
    for (name, a), (_, b) in zip(plain.named_parameters(), again.named_parameters(), strict=True):
        assert torch.equal(a, b), name
    assert again.config.tied
    old["cls.predictions.decoder.weight"][0, 0] += 1
    save_file(old, folder / "model.safetensors")
    assert not load(folder).config.tied  # two different tables are two, as Hugging Face has it too


@pytest.mark.parametrize("feature", [{"position_embedding_type": "relative_key"}, {"is_decoder": True}])
def test_bert_other_features_are_named(hf: Any, publish: Any, feature: dict[str, Any]) -> None:
    folder = publish(hf.BertModel(hf.BertConfig(**BERT_SMALL)))
    raw = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(raw | feature))
    with pytest.raises(ConfigError, match=next(iter(feature))):
        load(folder)


def test_heads_for_other_tasks_are_named(hf: Any, publish: Any) -> None:
    folder = publish(hf.BertForQuestionAnswering(hf.BertConfig(**BERT_SMALL)))
    with pytest.raises(ConfigError, match="BertForQuestionAnswering"):
        load(folder)


def test_a_missing_head_is_named(hf: Any, publish: Any) -> None:
    folder = publish(hf.BertForMaskedLM(hf.BertConfig(**BERT_SMALL)))
    tensors = load_file(folder / "model.safetensors")
    save_file({n: t for n, t in tensors.items() if not n.startswith("cls")}, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"cls\.predictions.* is missing \(our"):
        load(folder)


def _sentence_folder(folder: Path, pooling: dict[str, Any], dense: bool) -> None:
    kinds = ["Transformer", "Pooling", *(["Dense"] if dense else []), "Normalize"]
    modules = [
        {
            "idx": i,
            "name": str(i),
            "path": "" if i == 0 else f"{i}_{kind}",
            "type": f"sentence_transformers.models.{kind}",
        }
        for i, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 12} | pooling))
    if dense:
        (folder / "2_Dense").mkdir()
        raw = {
            "in_features": 12,
            "out_features": 7,
            "bias": True,
            "activation_function": "torch.nn.modules.activation.Tanh",
        }
        (folder / "2_Dense" / "config.json").write_text(json.dumps(raw))
        tensors = {"linear.weight": torch.randn(7, 12), "linear.bias": torch.randn(7)}
        save_file(tensors, folder / "2_Dense" / "model.safetensors")


@pytest.mark.parametrize(
    ("pooling", "dense"),
    [
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, False),
        ({"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}, True),
        ({"pooling_mode": "max"}, True),
    ],
)
def test_sentence_vectors(hf: Any, publish: Any, require_equal: Any, pooling: dict[str, Any], dense: bool) -> None:
    """The vectors by their definition, from Hugging Face's hidden states."""
    folder = publish(hf.BertModel(hf.BertConfig(**BERT_SMALL)))
    _sentence_folder(folder, pooling, dense)
    model = load(folder)
    ids = torch.randint(1, 30, (3, 9), generator=torch.Generator().manual_seed(0))
    real = torch.arange(9) < torch.tensor([9, 4, 1])[:, None]
    with torch.no_grad():
        X = hf.BertModel.from_pretrained(folder)(ids, real.long()).last_hidden_state
        rows = [x[r] for x, r in zip(X, real, strict=True)]
        how = {"mean": lambda x: x.mean(0), "first": lambda x: x[0], "max": lambda x: x.amax(0)}[model.config.pooling]
        expected = torch.stack([how(x) for x in rows])
        if dense:
            tensors = load_file(folder / "2_Dense" / "model.safetensors")
            expected = torch.tanh(expected @ tensors["linear.weight"].T + tensors["linear.bias"])
        expected = expected / expected.norm(dim=-1, keepdim=True)
        found = model.sentences(model(ids, real), real)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "named"),
    [({"type": "sentence_transformers.models.LSTM"}, "LSTM"), ({"path": "../elsewhere"}, "elsewhere")],
)
def test_unknown_modules_are_named(hf: Any, publish: Any, changes: dict[str, Any], named: str) -> None:
    folder = publish(hf.BertModel(hf.BertConfig(**BERT_SMALL)))
    _sentence_folder(folder, {"pooling_mode": "mean"}, False)
    modules = json.loads((folder / "modules.json").read_text())
    modules[1] |= changes
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises((ConfigError, CheckpointError), match=named):
        load(folder)


# RoBERTa against Hugging Face.


ROBERTA_SMALL = {
    "vocab_size": 30,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
}
ROBERTA_SMALL |= {"max_position_embeddings": 18, "type_vocab_size": 1, "layer_norm_eps": 1e-5}


@pytest.mark.variants(2)
@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("RobertaForMaskedLM", {}),
        ("RobertaForMaskedLM", {"tie_word_embeddings": False, "hidden_act": "relu"}),
        ("RobertaForSequenceClassification", {"num_labels": 4, "num_attention_heads": 1, "pad_token_id": 3}),
        ("RobertaModel", {"hidden_size": 9, "num_hidden_layers": 1, "layer_norm_eps": 0.1}),
    ],
)
def test_roberta_is_theirs(hf: Any, publish: Any, require_equal: Any, kind: str, changes: dict[str, Any]) -> None:
    model = require_equal(publish(getattr(hf, kind)(hf.RobertaConfig(**ROBERTA_SMALL | changes))))
    assert model.config.text.positions.offset == changes.get("pad_token_id", 1) + 1
    assert model.config.text.positions.length == 18 - model.config.text.positions.offset


def test_the_other_names_of_the_family(hf: Any, publish: Any, require_equal: Any) -> None:
    require_equal(publish(hf.XLMRobertaForMaskedLM(hf.XLMRobertaConfig(**ROBERTA_SMALL))))


def test_an_unused_pooler(hf: Any, publish: Any, require_equal: Any) -> None:
    """Classifiers made from a whole RobertaModel carry its pooler along; Hugging Face drops it too."""
    folder = publish(hf.RobertaForSequenceClassification(hf.RobertaConfig(**ROBERTA_SMALL)))
    tensors = load_file(folder / "model.safetensors")
    extra = {"roberta.pooler.dense.weight": torch.ones(12, 12), "roberta.pooler.dense.bias": torch.ones(12)}
    plain = load(folder)
    save_file(tensors | extra, folder / "model.safetensors")
    assert torch.equal(plain.pooler.weight, load(folder).pooler.weight)


# GPT-2 against Hugging Face.


GPT2_SMALL = {"vocab_size": 30, "n_embd": 12, "n_layer": 2, "n_head": 3, "n_positions": 20}
GPT2_SMALL |= {"bos_token_id": 0, "eos_token_id": 0}


@pytest.mark.variants(2)
@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("GPT2LMHeadModel", {}),
        ("GPT2LMHeadModel", {"tie_word_embeddings": False, "activation_function": "relu", "n_inner": 17}),
        ("GPT2LMHeadModel", {"scale_attn_weights": False, "layer_norm_epsilon": 0.1, "n_head": 1}),
        ("GPT2LMHeadModel", {"n_embd": 15, "n_layer": 3, "activation_function": "gelu"}),
        ("GPT2Model", {}),
    ],
)
def test_gpt2_is_theirs(hf: Any, publish: Any, require_equal: Any, kind: str, changes: dict[str, Any]) -> None:
    model = require_equal(publish(getattr(hf, kind)(hf.GPT2Config(**GPT2_SMALL | changes))))
    assert model.config.tied == changes.get("tie_word_embeddings", True)


def test_gpt2_the_first_published_form(hf: Any, publish: Any, require_equal: Any) -> None:
    """No `transformer.` before the names, and a mask among the weights."""
    folder = publish(hf.GPT2LMHeadModel(hf.GPT2Config(**GPT2_SMALL)))
    tensors = load_file(folder / "model.safetensors")
    bare = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
    bare |= {f"h.{i}.attn.bias": torch.ones(20, 20).tril()[None, None] for i in range(2)}
    save_file(bare, folder / "model.safetensors", metadata={"format": "pt"})
    require_equal(folder)


def test_weights_are_not_copied(hf: Any, publish: Any) -> None:
    """q, k, v and transposed matrices are views of the mapped file."""
    model = load(publish(hf.GPT2LMHeadModel(hf.GPT2Config(**GPT2_SMALL))))
    block = model.get_submodule("decoder.0.attention")
    assert block.WQ.weight.untyped_storage().data_ptr() == block.WK.weight.untyped_storage().data_ptr()


def test_gpt2_other_features_are_named(hf: Any, publish: Any) -> None:
    folder = publish(hf.GPT2LMHeadModel(hf.GPT2Config(**GPT2_SMALL)))
    raw = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(raw | {"scale_attn_by_inverse_layer_idx": True}))
    with pytest.raises(ConfigError, match="scale_attn_by_inverse_layer_idx"):
        load(folder)


# The Llama kind against Hugging Face.


LLAMA_SMALL = {
    "vocab_size": 30,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "intermediate_size": 20,
}
LLAMA_SMALL |= {"num_key_value_heads": 2, "max_position_embeddings": 32, "bos_token_id": 0, "eos_token_id": 1}
SCALED = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
SCALED |= {"original_max_position_embeddings": 16, "rope_theta": 100.0}


@pytest.mark.variants(3)
@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("Llama", {}),
        ("Llama", {"tie_word_embeddings": True, "num_key_value_heads": 6, "rms_norm_eps": 0.1}),
        ("Llama", {"head_dim": 6, "attention_bias": True, "mlp_bias": True, "num_key_value_heads": 1}),
        ("Llama", {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}, "hidden_act": "gelu"}),
        ("Llama", {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 50.0}}),
        ("Llama", {"rope_parameters": SCALED, "hidden_size": 18, "intermediate_size": 7, "head_dim": 4}),
        ("Mistral", {"sliding_window": None, "head_dim": 2}),
        ("Mistral", {"sliding_window": 5}),
        ("Qwen2", {"use_sliding_window": False}),
    ],
)
def test_llama_is_theirs(hf: Any, publish: Any, require_equal: Any, kind: str, changes: dict[str, Any]) -> None:
    config = getattr(hf, f"{kind}Config")(**LLAMA_SMALL | changes)
    model = require_equal(publish(getattr(hf, f"{kind}ForCausalLM")(config)))
    assert model.config.tied == changes.get("tie_word_embeddings", False)


@pytest.mark.parametrize("old", [{"type": "linear", "factor": 4.0}, None])
def test_older_names_of_rotary_settings(hf: Any, publish: Any, require_equal: Any, old: dict[str, Any] | None) -> None:
    folder = publish(hf.LlamaForCausalLM(hf.LlamaConfig(**LLAMA_SMALL)))
    raw = json.loads((folder / "config.json").read_text())
    del raw["rope_parameters"]
    (folder / "config.json").write_text(json.dumps(raw | {"rope_theta": 321.0, "rope_scaling": old}))
    model = require_equal(folder)
    assert model.config.text.relative.base == 321.0
    assert (model.config.text.relative.scaling is None) == (old is None)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}, "yarn"),
        ({"sliding_window": 7}, "sliding_window"),
        ({"model_type": "qwen2", "use_sliding_window": True, "architectures": []}, "use_sliding_window"),
        ({"model_type": "mistral", "sliding_window": -3, "architectures": ["MistralForCausalLM"]}, "sliding_window"),
        ({"hidden_act": "mish"}, "mish"),
        ({"rope_parameters": [1]}, "rope_parameters"),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": -1.0}}, "rope_theta is -1"),
    ],
)
def test_llama_other_features_are_named(hf: Any, publish: Any, change: dict[str, Any], named: str) -> None:
    folder = publish(hf.LlamaForCausalLM(hf.LlamaConfig(**LLAMA_SMALL)))
    raw = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(raw | change))
    with pytest.raises(ConfigError, match=named):
        load(folder)


def rewrite(folder: Path, drop: str, **changes: Any) -> Path:
    raw = json.loads((folder / "config.json").read_text())
    raw.pop(drop, None)
    (folder / "config.json").write_text(json.dumps(raw | changes))
    return folder


def test_mistral_without_a_window_in_its_file_has_theirs(hf: Any, publish: Any) -> None:
    folder = publish(hf.MistralForCausalLM(hf.MistralConfig(**LLAMA_SMALL)))
    rewrite(folder, "sliding_window")
    assert hf.MistralConfig.from_pretrained(folder).sliding_window == 4096
    assert load(folder).config.text.window == 4096
    report = parity(folder)
    assert report.equal
    assert report.untried == ("a sliding window of 4096 tokens",)
    assert "not tried: a sliding window of 4096 tokens" in str(report)


def test_parity_crosses_the_window(hf: Any, publish: Any) -> None:
    """A window that is one token off shows only in inputs longer than it."""
    folder = publish(hf.MistralForCausalLM(hf.MistralConfig(**LLAMA_SMALL, sliding_window=20)))
    assert parity(folder).lengths == (12, 25)
    assert parity(folder).equal


def test_llama3_scaling_without_the_original_length_has_theirs(hf: Any, publish: Any, require_equal: Any) -> None:
    given = {name: value for name, value in SCALED.items() if name != "original_max_position_embeddings"}
    folder = publish(hf.LlamaForCausalLM(hf.LlamaConfig(**LLAMA_SMALL | {"max_position_embeddings": 64})))
    rewrite(folder, "rope_parameters", rope_parameters=given)
    assert require_equal(folder).config.text.relative.scaling.trained == 64


def test_sharded(hf: Any, publish: Any, require_equal: Any) -> None:
    folder = publish(hf.LlamaForCausalLM(hf.LlamaConfig(**LLAMA_SMALL)), max_shard_size="4KB")
    assert len(list(folder.glob("*.safetensors"))) > 2
    require_equal(folder)


# T5 and T5 v1.1 against Hugging Face.


T5_SMALL = {"vocab_size": 30, "d_model": 12, "d_kv": 5, "d_ff": 20, "num_layers": 2, "num_heads": 3}


@pytest.mark.variants(2)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"num_decoder_layers": 1, "layer_norm_epsilon": 0.1, "num_heads": 2},
        {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
        {"feed_forward_proj": "gated-silu", "relative_attention_num_buckets": 8, "relative_attention_max_distance": 9},
        {"feed_forward_proj": "gelu", "d_model": 9, "d_kv": 3},
    ],
)
def test_t5_is_theirs(hf: Any, publish: Any, require_equal: Any, changes: dict[str, Any]) -> None:
    model = require_equal(publish(hf.T5ForConditionalGeneration(hf.T5Config(**T5_SMALL | changes))))
    assert (model.config.head_scale == 1.0) == (changes.get("tie_word_embeddings", True) is False)


def test_a_head_of_its_own(hf: Any, publish: Any, require_equal: Any) -> None:
    """v1.1 as it was published: lm_head beside the table, tie_word_embeddings false, nothing about a scale."""
    config = hf.T5Config(**T5_SMALL, feed_forward_proj="gated-gelu", tie_word_embeddings=False)
    folder = publish(hf.T5ForConditionalGeneration(config))
    tensors = load_file(folder / "model.safetensors")
    head = torch.randn(30, 12, generator=torch.Generator().manual_seed(1))
    save_file(tensors | {"lm_head.weight": head}, folder / "model.safetensors", metadata={"format": "pt"})
    raw = json.loads((folder / "config.json").read_text()) | {"tie_word_embeddings": False}
    del raw["scale_decoder_outputs"]
    (folder / "config.json").write_text(json.dumps(raw))
    model = require_equal(folder)
    assert not model.config.tied
    assert model.config.head_scale == 1.0
    assert torch.equal(model.word_head.W.weight, head)


def test_t5_the_first_published_form(hf: Any, publish: Any) -> None:
    """Copies of the table under three names, and a bias of the cross attention that nothing uses."""
    folder = publish(hf.T5ForConditionalGeneration(hf.T5Config(**T5_SMALL)))
    tensors = load_file(folder / "model.safetensors")
    plain = load(folder)
    for name in ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"):
        tensors[name] = tensors["shared.weight"].clone()
    tensors["decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"] = torch.ones(32, 3)
    save_file(tensors, folder / "model.safetensors")
    again = load(folder)
    assert again.config == plain.config
    del tensors["shared.weight"]
    save_file(tensors, folder / "model.safetensors")
    assert torch.equal(load(folder).encoder.embed.table.weight, plain.encoder.embed.table.weight)


@pytest.mark.parametrize("name", ["gated-gelu-new", "swiglu"])
def test_other_activations_are_named(hf: Any, publish: Any, name: str) -> None:
    folder = publish(hf.T5ForConditionalGeneration(hf.T5Config(**T5_SMALL)))
    raw = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(raw | {"feed_forward_proj": name}))
    with pytest.raises(ConfigError, match=name):
        load(folder)


# Marian against Hugging Face.


MARIAN_SMALL = {
    "vocab_size": 30,
    "d_model": 12,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "max_position_embeddings": 16,
}
MARIAN_SMALL |= {
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 20,
    "decoder_ffn_dim": 14,
}
MARIAN_SMALL |= {"pad_token_id": 3, "decoder_start_token_id": 3}


@pytest.mark.variants(2)
@pytest.mark.parametrize(
    "changes",
    [
        {"activation_function": "swish", "scale_embedding": True},
        {"tie_word_embeddings": False},
        {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 25},
        {"d_model": 9, "encoder_attention_heads": 1, "decoder_attention_heads": 3},
        {"d_model": 6, "activation_function": "relu", "decoder_layers": 3},
    ],
)
def test_marian_is_theirs(hf: Any, publish: Any, require_equal: Any, changes: dict[str, Any]) -> None:
    model = require_equal(publish(hf.MarianMTModel(hf.MarianConfig(**MARIAN_SMALL | changes))))
    assert model.config.start == model.config.pad == 3
    shared = changes.get("share_encoder_decoder_embeddings", True) and changes.get("tie_word_embeddings", True)
    assert (model.decoder.embed.table is model.encoder.embed.table) == shared


def test_tables_of_positions_are_passed_over(hf: Any, publish: Any) -> None:
    folder = publish(hf.MarianMTModel(hf.MarianConfig(**MARIAN_SMALL)))
    tensors = load_file(folder / "model.safetensors")
    tensors |= {f"model.{side}.embed_positions.weight": torch.ones(16, 12) for side in ("encoder", "decoder")}
    save_file(tensors, folder / "model.safetensors")
    assert load(folder).config.head_bias
