"""softargmax(−∞, …, −∞) = 0/0: a query that may attend to nothing has no defined output; libraries choose one."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from glassformer.core import attend, softargmax
from glassformer.errors import MaskError
from glassformer.lab import plots
from glassformer.lab.experiment import Experiment, Kind, Result
from glassformer.lab.tensors import generator, random_qkv
from glassformer.runtime.signal_stack import kept_signal_stack

APART = 0.1


def measure(seed: int, *, keys: int = 4, width: int = 4) -> Result:
    random = generator(seed)
    Q, K, V = random_qkv(random, 1, keys, width)
    none = torch.zeros(1, keys, dtype=torch.bool)
    blind = torch.full((1, keys), -math.inf, dtype=torch.float64)
    asked: dict[str, Callable[[], Tensor]] = {
        "glassformer": lambda: attend(Q, K, V, mask=none).H,
        "NumPy, exp(S − max) / Σ": lambda: _numpy(blind) @ V,
        "SciPy, softmax": lambda: _scipy(blind) @ V,
        "torch, softmax": lambda: _torch(blind) @ V,
        "torch, fused kernel": lambda: scaled_dot_product_attention(Q[None], K[None], V[None], none)[0],
    }
    if find_spec("onnxruntime") and find_spec("onnx"):
        asked["ONNX Runtime, Softmax"] = lambda: _onnx(blind) @ V
    if find_spec("openvino"):
        asked["OpenVINO, Softmax"] = lambda: _openvino(blind) @ V
    if find_spec("jax"):
        asked["JAX, nn.softmax"] = lambda: _jax_softmax(blind) @ V
        asked["JAX, nn.dot_product_attention"] = lambda: _jax_attention(Q, K, V, none)
    if find_spec("tensorflow"):
        asked["TensorFlow, nn.softmax"] = lambda: _tensorflow(blind) @ V
    depth = torch.tensor([1e6], dtype=torch.float64)
    equal = softargmax(-depth.expand(keys))  # both rows go to −∞ everywhere as the depth grows
    apart = softargmax(-depth * torch.arange(1, keys + 1))
    return {
        "answers": {name: _answer(way, V) for name, way in asked.items()},
        "limits": [equal.tolist(), apart.tolist()],
    }


def _numpy(S: Tensor) -> Tensor:
    rows = S.numpy()
    with np.errstate(all="ignore"):
        E = np.exp(rows - rows.max(-1, keepdims=True))
        return torch.from_numpy(E / E.sum(-1, keepdims=True))


def _scipy(S: Tensor) -> Tensor:
    from scipy.special import softmax

    with np.errstate(all="ignore"):
        return torch.from_numpy(softmax(S.numpy(), -1))


def _torch(S: Tensor) -> Tensor:
    return torch.softmax(S, -1)


def _onnx(S: Tensor) -> Tensor:
    """Run a graph of one Softmax node in ONNX Runtime."""
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper

    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, list(S.shape)) for name in ("S", "A")]
    node = helper.make_node("Softmax", ["S"], ["A"], axis=-1)
    graph = helper.make_graph([node], "softmax", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (A,) = session.run(None, {"S": S.float().numpy()})
    return torch.from_numpy(A).double()


def _openvino(S: Tensor) -> Tensor:
    """Run a graph of one Softmax node in OpenVINO."""
    import openvino
    from openvino import opset8

    given = opset8.parameter(list(S.shape), np.float32)
    with kept_signal_stack():
        run = openvino.compile_model(openvino.Model([opset8.softmax(given, -1)], [given]), "CPU")
        A = torch.from_numpy(run(S.float().numpy())[0]).double()
        del run
    return A


def _jax_softmax(S: Tensor) -> Tensor:
    import jax

    return torch.tensor(np.asarray(jax.nn.softmax(S.numpy(), -1)), dtype=torch.float64)


def _jax_attention(Q: Tensor, K: Tensor, V: Tensor, mask: Tensor) -> Tensor:
    """Attend with one head; JAX orders the axes as tokens, heads, width."""
    import jax

    parts = [jax.numpy.asarray(part[:, None].numpy()) for part in (Q, K, V)]
    H = jax.nn.dot_product_attention(*parts, mask=mask[None].numpy())
    return torch.tensor(np.asarray(H[:, 0]), dtype=torch.float64)


def _tensorflow(S: Tensor) -> Tensor:
    import tensorflow

    return torch.tensor(tensorflow.nn.softmax(S.numpy(), -1).numpy(), dtype=torch.float64)


def _answer(way: Callable[[], Tensor], V: Tensor) -> str:
    try:
        H = way()
    except MaskError:
        return "an error that names the query"
    if H.isnan().all():
        return "NaN"
    if float(H.abs().max()) == 0:
        return "0"
    known = {"the mean of all values": V.mean(0), **{f"the value of key {i}": v for i, v in enumerate(V, 1)}}
    return next((name for name, v in known.items() if torch.allclose(H, v, rtol=1e-4)), "another vector")


def judge(result: Result) -> tuple[Kind, str]:
    equal, apart = result["limits"]
    away = max(abs(a - b) for a, b in zip(equal, apart, strict=True))
    shown = "; ".join(f"{name}: {answer}" for name, answer in result["answers"].items())
    answers: dict[str, set[str]] = {}
    for name, answer in result["answers"].items():
        answers.setdefault(answer, set()).add(name.partition(",")[0])
    shared = {answer: sorted(libraries) for answer, libraries in answers.items() if len(libraries) > 1}
    undefined = (
        f"no output is defined (two ways to −∞ have limits {away:.2g} apart)"
        if away > APART
        else f"an output is defined (two ways to −∞ have limits only {away:.2g} apart)"
    )
    if away > APART and not shared:
        return "holds", f"{undefined}, and all libraries differ ({shown})"
    agree = "; ".join(f"{', '.join(libraries)} return {answer}" for answer, libraries in shared.items())
    second = f"but some libraries agree: {agree}" if shared else "and all libraries differ"
    return "fails", f"{undefined}, {second} ({shown})"


def draw(result: Result) -> Figure:
    return plots.maps(
        {"all scores equal": [result["limits"][0]], "each score lower than the last": [result["limits"][1]]},
        title="two limits of A as every score goes to −∞",
    )


CLAIM = Experiment(
    number=9,
    name="a fully masked row",
    statement="A fully masked row has no defined output, and every library returns something different.",
    formula="softargmax(−∞, …, −∞) = frac{0}{0}",
    measured="The weights as all scores go to −∞ at the same rate, and at different rates; and what Glassformer, "
    "NumPy, SciPy, torch and, if installed, ONNX Runtime, OpenVINO, JAX and TensorFlow return.",
    rule=f"“holds” if the two limits differ by more than {APART}, so that no output is defined, and no two libraries "
    "return the same; otherwise “fails”.",
    falsified_by="Libraries that all return something different: two that agree are enough for “fails”. A common "
    "limit at both rates would refute the first half as well.",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={"keys": "number of keys, all masked"},
    least={"keys": 2},
    circumstances="JAX and TensorFlow are included if they are installed; Glassformer does not depend on them.",
)
