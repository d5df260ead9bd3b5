"""gf.show: what it takes, its static page, and the widget's messages."""

from __future__ import annotations

import json
from typing import Any

import pytest

import glassformer as gf
from glassformer.errors import InputError

DATA = {"Q": [[1, 0]], "K": [[0, 0], [2, 1]], "V": [[1, 0], [0, 1]], "scale": 1}


@pytest.mark.parametrize("make", [lambda: "one-query", lambda: DATA, lambda: gf.solve("one-query")])
def test_an_exercise_is_shown_with_every_step(make: Any) -> None:
    shown = gf.show(make())
    assert "<math" in shown.html
    assert "<script" not in shown.html
    assert "src=" not in shown.html
    assert shown._repr_html_().startswith('<div id="glassformer-')


def test_an_exercise_file_is_shown(tmp_path: Any) -> None:
    (tmp_path / "mine.yaml").write_text(json.dumps({"title": "Mine", **DATA}), encoding="utf-8")
    assert gf.show(tmp_path / "mine.yaml").title == "Mine"


def test_the_static_page_is_saved(tmp_path: Any) -> None:
    shown = gf.show("one-query")
    assert shown.save(tmp_path / "page.html").read_text(encoding="utf-8") == shown.html
    with pytest.raises(InputError, match=r"end the name in \.html"):
        shown.save(tmp_path / "page.pdf")


@pytest.mark.parametrize("x", [3, None, [1, 2]])
def test_anything_else_is_refused(x: Any) -> None:
    with pytest.raises(InputError, match="cannot be shown"):
        gf.show(x)


def test_a_grade_opens_check_with_what_was_written() -> None:
    grade = gf.check("one-query", "S = [[1, 3]]\n")
    shown = gf.show(grade)
    assert "wrong" in shown.html
    answer = _asked(shown.widget, "POST", "api/check/grade", {"exercise": _exercise(shown), "text": grade.document})
    assert answer["score"] == pytest.approx(grade.score)


def test_a_trace_without_weights_is_refused() -> None:
    from glassformer.lens import Run

    with pytest.raises(InputError, match="contains no attention weights"):
        gf.show(Run([]))
    with pytest.raises(InputError, match="tokens are only for a trace"):
        gf.show("one-query", tokens=["a"])


def test_a_trace_is_shown_with_its_own_weights() -> None:
    import torch

    from glassformer.models.decoder import Decoder, tiny

    model = Decoder(tiny()).eval()
    tokens = torch.tensor([[1, 5, 3, 2]])
    with gf.trace(model, "*.A") as run:
        model(tokens)
    with pytest.raises(InputError, match="3 tokens were given"):
        gf.show(run, tokens=["a", "b", "c"])
    shown = gf.show(run, tokens=["a", "b", "c", "d"])
    assert "decoder.1.attention" in shown.html
    id_ = shown.widget.address.partition("look=")[2]
    summary = _asked(shown.widget, "GET", f"api/looks/{id_}")
    assert summary["layers"][0]["query_labels"] == ["a", "b", "c", "d"]
    row = _asked(shown.widget, "GET", f"api/looks/{id_}/row?path=decoder.1.attention&head=1&query=3")
    assert row["all"] == pytest.approx(run["decoder.1.attention.A"][0, 1, 3].tolist(), abs=1e-6)
    assert _asked(shown.widget, "POST", f"api/looks/{id_}/change", {"heads": [{"path": "x", "head": 0}]}, 422)["fact"]


def test_without_anywidget_the_static_page_remains(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.delitem(sys.modules, "glassformer.widget.live", raising=False)
    shown = gf.show("one-query")
    assert shown.widget is None
    assert "<iframe" in shown._repr_html_()


def _exercise(shown: Any) -> Any:
    import base64
    import zlib

    packed = shown.widget.address.partition("x=")[2].partition("&")[0]
    return json.loads(zlib.decompress(base64.urlsafe_b64decode(packed + "=="), -15))


def _asked(widget: Any, method: str, path: str, body: Any = None, status: int = 200) -> Any:
    """The answer that the widget sends to one message of the page."""
    import threading

    heard: list[tuple[Any, Any]] = []
    done = threading.Event()
    widget.send = lambda content, buffers=None: (heard.append((content, buffers)), done.set())
    message = {"kind": "request", "view": "v", "id": "1", "method": method, "path": path}
    widget._received(widget, message | ({} if body is None else {"body": json.dumps(body)}), [])
    assert done.wait(60)
    assert heard[0][0] == {"kind": "answer", "view": "v", "id": "1", "status": status}, heard
    return json.loads(heard[0][1][0])
