"""One forward pass: ViT-B/16 with random weights, and MiniLM-L6."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from workloads import THREADS, Ready, Target, Workload, assets, real_text

WORDS = 30522


def minilm() -> Path:
    return assets.fetched("all-minilm-l6-v2")


def images(batch: int) -> dict[str, Any]:
    import torch

    return {"image": torch.randn(batch, 3, 224, 224, generator=torch.Generator().manual_seed(0))}


def sentences(batch: int, length: int) -> dict[str, Any]:
    """Random words; no padding, so that all contenders do the same products."""
    import torch

    tokens = torch.randint(1000, WORDS, (batch, length), generator=torch.Generator().manual_seed(0))
    return {"tokens": tokens, "real": torch.ones_like(tokens, dtype=torch.bool)}


Inputs = Callable[[], dict[str, Any]]
COMPARED = 400  # sentences on which int8 is compared with fp32
CALIBRATED = 64  # other sentences of the novel, on which OpenVINO is calibrated


def tokenised(model: Any, lines: list[str], longest: int) -> list[dict[str, Any]]:
    """Sentences one by one, as the contenders take them."""
    import torch

    from glassformer.pipelines.tokenizers import tokenizer_of

    tokens = [torch.tensor([tokenizer_of(model).encode(line)[:longest]]) for line in lines]
    return [{"tokens": ids, "real": torch.ones_like(ids, dtype=torch.bool)} for ids in tokens]


def calibration(folder: Path, inputs: Inputs) -> list[dict[str, Any]]:
    """Real sentences, or the random images timed."""
    import glassformer as gf

    given = inputs()
    if "tokens" not in given:
        return [given]
    lines = real_text.of_the_novel()[5000 : 5000 + CALIBRATED]
    return tokenised(gf.load(folder), lines, 128)


def agreement(folder: Path, inputs: Inputs, call: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """The least and the mean cosine to our fp32 model: on real sentences, one by one, or on the random images timed."""
    import torch

    import glassformer as gf

    model, given, facts = gf.load(folder), [inputs()], {}
    if "tokens" in given[0]:
        given = tokenised(model, real_text.sentences(COMPARED), given[0]["tokens"].shape[1])
        facts["compared on"] = f"{COMPARED} sentences of a novel and a phrase collection"
    expected = torch.cat([forward(model, x) for x in given]).double()
    found = torch.cat([torch.as_tensor(call(x)) for x in given]).double()
    cosine = torch.nn.functional.cosine_similarity(found, expected, dim=-1)
    return facts | {"cosine": float(cosine.mean()), "least cosine": float(cosine.min())}


def forward(model: Any, x: dict[str, Any]) -> Any:
    import torch

    with torch.inference_mode():
        return model(x["image"]) if "image" in x else model.embeddings(x["tokens"], x["real"])


def ours(folder: Callable[[], Path], inputs: Inputs, precision: str) -> Callable[[], Ready]:
    def load() -> Ready:
        import glassformer as gf

        x, model = inputs(), gf.load(folder(), precision=precision)
        facts = {} if precision == "fp32" else agreement(folder(), inputs, lambda x: forward(model, x))
        return Ready(lambda: forward(model, x), facts)

    return load


def onnxruntime(name: str, folder: Callable[[], Path], inputs: Inputs, precision: str) -> Callable[[], Ready]:
    def load() -> Ready:
        import onnxruntime

        path = (assets.onnx_int8 if precision == "int8" else assets.onnx)(name, folder())
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = THREADS
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        run = lambda x: session.run(None, {key: value.numpy() for key, value in x.items()})[0]
        feeds = inputs()
        return Ready(lambda: run(feeds), {} if precision == "fp32" else agreement(folder(), inputs, run))

    return load


def openvino(name: str, folder: Callable[[], Path], inputs: Inputs, precision: str) -> Callable[[], Ready]:
    def load() -> Ready:
        import openvino

        feeds = {key: x.numpy() for key, x in inputs().items()}
        int8 = precision == "int8"
        path = (
            assets.openvino_int8(name, folder(), calibration(folder(), inputs)) if int8 else assets.onnx(name, folder())
        )
        core = openvino.Core()
        model = core.read_model(path)
        options = {"INFERENCE_NUM_THREADS": THREADS, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
        facts = {}
        if int8:  # sentences of any length
            anyhow = core.compile_model(model, "CPU", options).create_infer_request()
            run = lambda x: anyhow.infer({key: value.numpy() for key, value in x.items()})[0].copy()
            facts = agreement(folder(), inputs, run)
        model.reshape({key: list(x.shape) for key, x in feeds.items()})
        request = core.compile_model(model, "CPU", options).create_infer_request()
        return Ready(lambda: request.infer(feeds), facts)

    return load


def huggingface(folder: Callable[[], Path], inputs: Inputs) -> Callable[[], Ready]:
    def load() -> Ready:
        import torch
        from transformers import AutoModel, AutoModelForImageClassification

        torch.set_num_threads(THREADS)
        x = inputs()
        if "image" in x:
            model, given = AutoModelForImageClassification.from_pretrained(folder()), {"pixel_values": x["image"]}
        else:
            model, given = AutoModel.from_pretrained(folder()), {"input_ids": x["tokens"], "attention_mask": x["real"]}
        model.eval()

        def run() -> None:
            with torch.inference_mode():
                model(**given)

        return Ready(run)

    return load


def workloads(
    name: str,
    title: str,
    folder: Callable[[], Path],
    inputs: Inputs,
    operations: float,
    ratios: tuple[float, float],
    limited_by: tuple[str, str],
) -> tuple[Workload, Workload]:
    """The same forward pass in int8 and in fp32, with the targets of both and what limits them."""
    asset = name.partition("-")[0]
    today, peer = "HF fp32", "ONNX Runtime int8" if asset == "vit" else "the best int8 peer"
    return (
        Workload(
            name=f"{name}-int8",
            title=f"{title}, int8",
            contenders={
                "glassformer int8": ours(folder, inputs, "int8"),
                "ONNX Runtime int8": onnxruntime(asset, folder, inputs, "int8"),
                "OpenVINO int8": openvino(asset, folder, inputs, "int8"),
                today: huggingface(folder, inputs),
            },
            today=today,
            targets=(Target("glassformer int8", peer, ratios[0]),),
            operations={"glassformer int8": operations},
            limited_by=limited_by[0],
        ),
        Workload(
            name=f"{name}-fp32",
            title=f"{title}, fp32",
            contenders={
                "glassformer fp32": ours(folder, inputs, "fp32"),
                "OpenVINO fp32": openvino(asset, folder, inputs, "fp32"),
                "ONNX Runtime fp32": onnxruntime(asset, folder, inputs, "fp32"),
                today: huggingface(folder, inputs),
            },
            today=today,
            targets=(Target("glassformer fp32", "OpenVINO fp32", ratios[1]),),
            operations={"glassformer fp32": operations},
            limited_by=limited_by[1],
        ),
    )


def layers(depth: int, width: int, tokens: int, batch: int, *, causal: bool = False) -> float:
    """2 (12 m² n + 2 n² m) operations per layer and sequence; causal attention needs half of n²."""
    return batch * depth * 2 * (12 * width**2 * tokens + (1 if causal else 2) * tokens**2 * width)


VIT = (
    "64 % are int8 products (42 % by oneDNN, 22 % by FBGEMM), 13 % attention in bfloat16, 9 % quantisation and copies",
    "89 % are oneDNN's products, 7 % attention",
)
MANY = (
    "30 % are int8 products, 17 % products in bf16 and 6 % of single channels in float32, which the accuracy needs "
    "(the int8 peers have a cosine of 0.989), 16 % attention in bfloat16, 3 % GELU",
    "84 % are oneDNN's products, 11 % attention",
)
FEW = (
    "41 % are products; the rest are calls of small operators, about 20 per block",
    "67 % are oneDNN's products; the rest are calls of small operators, about 15 per block",
)

WORKLOADS = (
    *workloads("vit-b1", "ViT-B/16, batch 1", assets.vit, lambda: images(1), layers(12, 768, 197, 1), (1.0, 1.05), VIT),
    *workloads("vit-b8", "ViT-B/16, batch 8", assets.vit, lambda: images(8), layers(12, 768, 197, 8), (1.0, 1.05), VIT),
    *workloads("minilm-32x128", "MiniLM-L6, 32 × 128", minilm, lambda: sentences(32, 128),
               layers(6, 384, 128, 32), (1.0, 1.05), MANY),
    *workloads("minilm-1x32", "MiniLM-L6, 1 × 32", minilm, lambda: sentences(1, 32),
               layers(6, 384, 32, 1), (1.2, 1.2), FEW),
)  # fmt: skip
