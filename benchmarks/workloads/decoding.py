"""Decoding of one sequence: GPT-2 small with random weights, and SmolLM2-135M."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from workloads import CPU_TIME, SHORT, THREADS, Ready, Target, Workload, assets, real_text

GPT2_PROMPT, GPT2_NEW = 32, 8 if SHORT else 64
SMOL_PROMPT, SMOL_NEW = (32, 8) if SHORT else (256, 128)


def prompt_of(count: int) -> list[int]:
    return [(7919 * i) % 40000 + 100 for i in range(1, count + 1)]


def ours(folder: Callable[[], Path], prompt: int, new: int, precision: str) -> Callable[[], Ready]:
    def load() -> Ready:
        import glassformer as gf
        from glassformer.decoding import Stopping, generate_ids

        model = gf.load(folder(), precision=precision)
        stopping = Stopping(max_new_tokens=new, ends=())
        tokens = prompt_of(prompt)
        facts: dict[str, Any] = {}
        if precision != "fp32":
            facts |= agreement(folder(), model, tokens, stopping)
        answer = generate_ids(model, [tokens], stopping=stopping)[0]
        facts["first tokens"] = answer.tokens[:8]
        return Ready(lambda: generate_ids(model, [tokens], stopping=stopping), facts)

    return load


def agreement(folder: Path, model: Any, made_up: list[int], stopping: Any) -> dict[str, Any]:
    """Cosines of all logits to fp32's, and how many greedy tokens agree, on a real prompt if the model knows words."""
    import torch

    import glassformer as gf
    from glassformer.decoding import generate_ids
    from glassformer.pipelines.tokenizers import tokenizer_of

    plain, tokens, facts = gf.load(folder), made_up, {}
    if folder.name.startswith("smollm2"):
        tokens = list(tokenizer_of(plain).encode(real_text.novel()[20000:30000]))[: len(made_up)]
        facts["compared on"] = f"{len(tokens)} tokens of a novel"
    with torch.no_grad():
        cosine = torch.nn.functional.cosine_similarity(
            *(m(torch.tensor([tokens]))[0].double() for m in (plain, model)), dim=-1
        )
    answers = [generate_ids(m, [tokens], stopping=stopping)[0].tokens for m in (plain, model)]
    same = next((i for i, (a, b) in enumerate(zip(*answers, strict=True)) if a != b), len(answers[0]))
    return facts | {
        "cosine": float(cosine.mean()),
        "least cosine": float(cosine.min()),
        "first tokens as in fp32": f"{same} of {len(answers[0])}",
    }


def huggingface(folder: Callable[[], Path], prompt: int, new: int) -> Callable[[], Ready]:
    def load() -> Ready:
        import torch
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(THREADS)
        model = AutoModelForCausalLM.from_pretrained(folder()).eval()
        ids = torch.tensor([prompt_of(prompt)])
        options = {"max_new_tokens": new, "min_new_tokens": new, "do_sample": False, "pad_token_id": 0}
        run = lambda: model.generate(ids, attention_mask=torch.ones_like(ids), **options)
        return Ready(run, {"first tokens": run()[0, prompt : prompt + 8].tolist()})

    return load


def llama_cpp(name: str, folder: Callable[[], Path], prompt: int, new: int, precision: str) -> Callable[[], Ready]:
    """By the wheels of xllamacpp, which hold llama.cpp itself; its own timings count, without the server's overhead."""

    def load() -> Ready:
        import xllamacpp

        params = xllamacpp.CommonParams()
        params.model.path = str(assets.gguf(name, folder(), precision))
        params.n_ctx, params.n_parallel, params.warmup = prompt + new + 8, 1, True
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = THREADS
        params.cache_prompt, params.verbosity = False, -1
        server = xllamacpp.Server(params)
        request = {
            "prompt": prompt_of(prompt), "n_predict": new, "temperature": 0, "ignore_eos": True, "cache_prompt": False,
            "return_tokens": True, "samplers": ["top_k"], "top_k": 1,
        }  # fmt: skip

        def run() -> float | None:
            answer = server.handle_completions(request)
            if answer["timings"]["predicted_n"] != new or answer["timings"]["prompt_n"] != prompt:
                raise RuntimeError(f"llama.cpp did other work: {answer['timings']}")
            run.tokens = answer.get("tokens", [])[:8]  # type: ignore[attr-defined]
            return None if CPU_TIME else (answer["timings"]["prompt_ms"] + answer["timings"]["predicted_ms"]) / 1e3

        run()
        return Ready(run, {"first tokens": run.tokens})  # type: ignore[attr-defined]

    return load


def ctranslate2(name: str, folder: Callable[[], Path], prompt: int, new: int, precision: str) -> Callable[[], Ready]:
    def load() -> Ready:
        import ctranslate2

        path = assets.ctranslate2(name, folder(), precision)
        model = ctranslate2.Generator(str(path), compute_type=precision, intra_threads=THREADS, inter_threads=1)
        tokens = [f"w{i}" for i in prompt_of(prompt)]

        def run() -> Any:
            options = {"max_length": new, "min_length": new, "include_prompt_in_result": False}
            found = model.generate_batch([tokens], **options)[0].sequences_ids[0]
            if len(found) != new:
                raise RuntimeError(f"CTranslate2 made {len(found)} tokens, not {new}")
            return found

        return Ready(lambda: run() and None, {"first tokens": run()[:8]})

    return load


def smollm2() -> Path:
    return assets.fetched("smollm2-135m")


GPT2_WEIGHTS = 12 * 12 * 768 * 768 + 50257 * 768  # read once per token
SMOL_WEIGHTS = 30 * (576 * (576 * 2 + 192 * 2) + 3 * 576 * 1536) + 49152 * 576

WORKLOADS = (
    Workload(
        name="gpt2-int8",
        title="GPT-2 small, 32 + 64 tokens, int8",
        contenders={
            "glassformer int8": ours(assets.gpt2, GPT2_PROMPT, GPT2_NEW, "int8"),
            "llama.cpp q8_0": llama_cpp("gpt2", assets.gpt2, GPT2_PROMPT, GPT2_NEW, "q8_0"),
            "CTranslate2 int8": ctranslate2("gpt2", assets.gpt2, GPT2_PROMPT, GPT2_NEW, "int8"),
            "HF generate fp32": huggingface(assets.gpt2, GPT2_PROMPT, GPT2_NEW),
        },
        today="HF generate fp32",
        targets=(
            Target("glassformer int8", "llama.cpp q8_0", 1.2),
            Target("glassformer int8", "CTranslate2 int8", 0.5),
        ),
        bytes_read={"glassformer int8": GPT2_WEIGHTS * GPT2_NEW},
        limited_by="62 % are int8 products of one row, 7 % attention; the rest are calls of small operators from "
        "Python, about 15 per block and token",
    ),
    Workload(
        name="gpt2-fp32",
        title="GPT-2 small, 32 + 64 tokens, fp32",
        contenders={
            "glassformer fp32": ours(assets.gpt2, GPT2_PROMPT, GPT2_NEW, "fp32"),
            "llama.cpp f32": llama_cpp("gpt2", assets.gpt2, GPT2_PROMPT, GPT2_NEW, "f32"),
            "CTranslate2 fp32": ctranslate2("gpt2", assets.gpt2, GPT2_PROMPT, GPT2_NEW, "float32"),
            "HF generate fp32": huggingface(assets.gpt2, GPT2_PROMPT, GPT2_NEW),
        },
        today="HF generate fp32",
        targets=(
            Target("glassformer fp32", "llama.cpp f32", 1.15),
            Target("glassformer fp32", "HF generate fp32", 0.6),
        ),
        bytes_read={"glassformer fp32": 4 * GPT2_WEIGHTS * GPT2_NEW},
        limited_by="84 % are products of one row, for which oneDNN reads all weights",
    ),
    Workload(
        name="smollm2-int8",
        title="SmolLM2-135M, 256 + 128 tokens, int8",
        contenders={
            "glassformer int8": ours(smollm2, SMOL_PROMPT, SMOL_NEW, "int8"),
            "llama.cpp q8_0": llama_cpp("smollm2", smollm2, SMOL_PROMPT, SMOL_NEW, "q8_0"),
            "HF generate fp32": huggingface(smollm2, SMOL_PROMPT, SMOL_NEW),
        },
        today="HF generate fp32",
        targets=(Target("glassformer int8", "llama.cpp q8_0", 1.2),),
        bytes_read={"glassformer int8": SMOL_WEIGHTS * SMOL_NEW},
        limited_by="25 % are products of one row with float16 weights, which are needed for accuracy, 16 % in int8, "
        "5 % attention; the rest are calls of small operators in 30 blocks, from Python",
        rounds=3,
    ),
)
