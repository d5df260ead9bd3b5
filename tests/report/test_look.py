"""`gf.look`: the page, its sections, and that their numbers are those of the lens."""

from __future__ import annotations

import base64
import json
import math
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch

from glassformer import lens
from glassformer.errors import InputError
from glassformer.figures import attention_map
from glassformer.models import ConvNet2d, Hybrid, ViT, convolutional, hybrid, vit
from glassformer.report import Report, Section, attention, important_patches, look, patches, query
from glassformer.report.answer import answer, card
from glassformer.report.inputs import prepare_inputs
from glassformer.report.model import Given, Look
from glassformer.report.model_report import paths_to_record, score_run_heads
from glassformer.report.views import Details, Image, Paragraph, embed_figure, table

EVERYWHERE = ["Attention", "Heads", "Entropy", "Map of heads", "Margins", "One query", "Trace"]
OF_KIND = {
    "decoder": ["Answer", "Arcs", "Flow"],
    "encoder": ["Arcs", "Flow"],
    "seq2seq": ["Answer", "Alignment", "Arcs", "Flow"],
    "vit": ["Answer", "Patches"],
    "hybrid": ["Answer", "Patches"],
    "speech": ["Answer", "Audio", "Flow"],
    "whisper": ["Answer", "Alignment", "Audio", "Arcs", "Flow"],
}
TOWERS = [f"Image: {name}" for name in [*EVERYWHERE, "Patches"]]
TOWERS += [f"Text: {name}" for name in [*EVERYWHERE, "Arcs", "Flow"]]
ALONE = {"clip": ["Model", "Answer", *TOWERS], "recurrent-seq2seq": ["Model", "Answer", "Alignment", "Trace"]}


def only(sections: list[Section]) -> Section:
    (section,) = sections
    return section


def texts(section: Section) -> str:
    return " ".join(block.text for block in section.blocks if isinstance(block, Paragraph))


def images(section: Section) -> list[Image]:
    return [block for block in section.blocks if isinstance(block, Image)]


def cells(section: Section) -> list[list[str]]:
    return [row for block in section.blocks if block.kind == "table" for row in block.rows]


# ---- the page --------------------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """Headings, links and sources; every tag that opens must close."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.sources: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.add(tag)
        self.ids |= {found["id"] or ""} if "id" in found else set()
        self.links |= {found["href"] or ""} if "href" in found else set()
        self.sources += [found["src"] or ""] if "src" in found else []
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


QUICK = ("decoder", *(kind for kind in ALONE if kind != "clip"))  # the pages of the other kinds are slow tests


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[] if kind in QUICK else [pytest.mark.slow]) for kind in (*OF_KIND, *ALONE)],
)
def test_the_page_is_self_contained(model_of, given, kind: str, tmp_path: Path) -> None:
    steps: list[str] = []
    report = look(model_of(kind), *given[kind], note="random", progress=steps.append)
    expected = ALONE[kind] if kind in ALONE else ["Model", *EVERYWHERE, *OF_KIND[kind]]
    assert sorted(section.name for section in report.sections) == sorted(expected)
    text = report.save(tmp_path / "report.html").read_text(encoding="utf-8")
    assert text == report.html()
    page = Page()
    page.feed(text)
    assert page.open == []
    assert not {"script", "link"} & page.tags
    assert all(source.startswith("data:image/png;base64,") for source in page.sources)
    assert page.links == {f"#{name}" for name in page.ids}
    assert "trace" in steps
    assert len(text) < 1_000_000
    json.dumps(report.to_dict())


def test_a_report_shows_itself() -> None:
    report = Report("A <b>model", [Section("Map of heads", [Paragraph('"x" & <script>alert(1)</script>', note=True)])])
    assert repr(report) == "<Report 'A <b>model': Map of heads>"
    assert report._repr_html_().startswith('<iframe title="A &lt;b&gt;model" srcdoc="&lt;!doctype html&gt;')
    assert '<h2 id="map-of-heads">Map of heads</h2>' in report.html()
    assert "&lt;script&gt;" in report.html()
    assert "<script" not in report.html()


def test_a_report_is_saved_as_html_only(refused, tmp_path: Path) -> None:
    report = Report("x", [])
    refused(InputError, "a report cannot be saved as 'x.pdf': end the name in .html", lambda: report.save("x.pdf"))
    path = tmp_path / "no" / "x.html"
    refused(InputError, f"{path} cannot be written (No such file or directory)", lambda: report.save(path))


def test_an_image_has_a_description_and_its_size() -> None:
    made = embed_figure(attention_map([[1.0, 0.0], [0.5, 0.5]]), 'A of "one" head')
    assert base64.b64decode(made.png).startswith(b"\x89PNG")
    assert 'alt="A of &#34;one&#34; head"' in Report("x", [Section("y", [made])]).html()
    assert made.width > 0 < made.height


def test_a_long_text_records_only_what_is_drawn(shown, monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs, run, _ = shown("decoder")
    assert paths_to_record(inputs) == []
    monkeypatch.setitem(paths_to_record.__globals__, "WHOLE", 4)
    with torch.no_grad(), lens.trace(model, *paths_to_record(inputs)) as less:
        model(*inputs.tensors)
    assert len(less) == 6 < len(run)
    assert query.one_query(less, inputs) == query.one_query(run, inputs)  # and it is enough


# ---- facts and answers -----------------------------------------------------------------------------------------------


def test_facts(shown) -> None:
    model, inputs, _, _ = shown("seq2seq")
    made = card(model, inputs, "random")
    assert made.blocks[0] == Paragraph("random", note=True)
    facts = dict(cells(made))
    assert facts["parameters"] == f"{sum(w.numel() for w in model.parameters()):,}"
    assert facts["cross-attention of the decoder"] == "2 layers × 2 heads, width 16"
    assert facts["input"].endswith("(4 and 5 tokens)")


def test_the_answer_is_the_most_likely_token_by_its_name_in_the_input(shown) -> None:
    model, inputs, _, out = shown("decoder")
    p = out[0, -1].softmax(-1)
    best = int(p.argmax())
    named = dict(zip(inputs.tensors[0][0].tolist(), inputs.labels["decoder"], strict=True))
    assert cells(only(answer(model, inputs, out)))[0] == [str(named.get(best, best)), f"{p[best]:.3f}"]


def test_classes_and_symbols(shown) -> None:
    model, inputs, _, out = shown("vit")
    assert cells(only(answer(model, inputs, out)))[0][0] == f"LABEL_{int(out[0].argmax())}"
    model, inputs, _, out = shown("speech")
    symbols = " ".join("·" if s == 0 else str(s) for s in out[0].argmax(-1).tolist())
    assert symbols in texts(only(answer(model, inputs, out)))
    model, inputs, _, out = shown("encoder")
    assert answer(model, inputs, out) == []


# ---- attention -------------------------------------------------------------------------------------------------------


def test_maps_of_every_layer(shown) -> None:
    _, inputs, run, _ = shown("seq2seq")
    made = images(only(attention.maps(run, inputs)))
    assert len(made) == 6
    assert made[-1].alt == "Attention weights of every head of decoder.1.cross"


def test_stacks(shown) -> None:
    _, _, run, _ = shown("seq2seq")
    assert attention.stacks_of(run) == ["encoder", "decoder"]
    assert attention.last_of(run, "decoder") == "decoder.1.attention"


def test_entropies(shown) -> None:
    _, _, run, _ = shown("decoder")
    made = only(attention.entropies(run))
    assert "2.20 for one that attends to all keys equally" in texts(made)  # ln 9
    assert len(images(made)) == 1


def test_heads(shown) -> None:
    model, inputs, run, _ = shown("decoder")
    found = score_run_heads(model, run, inputs)
    made = only(attention.heads(found))
    assert len(images(made)) == 1
    assert made.blocks[-1] == Details("Every score of every head", found._repr_html_())
    assert "induction" in found._repr_html_()  # which needs the tokens


@pytest.mark.parametrize(("kind", "count"), [("decoder", 1), ("seq2seq", 2), ("vit", 1)])
def test_map_of_heads(shown, kind: str, count: int) -> None:
    assert len(images(only(attention.map_of_heads(shown(kind)[2])))) == count


def test_flow_is_that_of_the_lens(shown) -> None:
    _, inputs, run, _ = shown("decoder")
    R = lens.rollout(run)[0, -1]
    last = ["dog", f"{R[-1]:.3f}", f"{lens.max_flow(run, 8)[0, -1]:.3f}"]
    assert last in cells(only(attention.flow(run, inputs)))
    _, inputs, run, _ = shown("vit")
    assert attention.flow(run, inputs) == []


def test_arcs_and_alignment_are_for_text(shown) -> None:
    _, inputs, run, _ = shown("seq2seq")
    assert len(images(only(attention.arcs(run, inputs)))) == 2
    assert "decoder.1.cross, mean over heads" in images(only(attention.alignment(run, inputs)))[0].alt
    for kind in ("vit", "speech"):
        _, inputs, run, _ = shown(kind)
        assert attention.arcs(run, inputs) == attention.alignment(run, inputs) == []


def test_spectrogram(shown) -> None:
    _, inputs, run, _ = shown("speech")
    assert "encoder.1.attention, the query at 0.42 s" in images(only(attention.spectrogram(run, inputs)))[0].alt


# ---- one query -------------------------------------------------------------------------------------------------------


def test_margins_are_those_of_the_lens(shown) -> None:
    _, inputs, run, _ = shown("decoder")
    made = only(query.margins(run, inputs))
    found = lens.margins(run, "decoder.1.attention", 1, 8)
    best = int(found.winner)
    assert "decoder.1.attention, query dog (8)" in texts(made)
    distance = float(found.distance[best])
    assert math.isfinite(distance)
    row = cells(made)[1]
    assert row[:2] == ["1", f"{inputs.labels['decoder'][best]} ({best})"]
    assert row[4] == f"{distance:.3g}"


def test_the_query_of_an_image_is_cls(shown) -> None:
    _, inputs, run, _ = shown("vit")
    assert "encoder.2.attention, query CLS (0)" in texts(only(query.margins(run, inputs)))
    assert "the 40 keys with the largest weights" in texts(only(query.one_query(run, inputs)))


def test_the_head_with_the_lowest_entropy_is_shown(shown) -> None:
    _, inputs, run, _ = shown("decoder")
    sharpest = int(lens.entropy(run["decoder.1.attention.A"][0, :, -1]).argmin())
    made = images(only(query.one_query(run, inputs)))
    assert len(made) == 2
    assert f"decoder.1.attention, head {sharpest}, query dog (8)" in made[0].alt


# ---- patches ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["vit", "hybrid"])
def test_overlays(shown, kind: str) -> None:
    model, inputs, run, _ = shown(kind)
    with torch.no_grad():  # as `look` runs: gradients are enabled where they are needed
        made = images(only(patches.overlays(model, run, inputs)))
    assert len(made) == 2
    assert "each head of encoder.2.attention" in made[1].alt


def test_without_cls_the_pooled_vector_is_shown(files: Path) -> None:
    for pool, name in (("mean", "the pooled vector"), ("first", "CLS")):
        model = ViT(replace(vit.tiny(), prefix=1 if pool == "first" else 0, pool=pool)).eval()
        inputs = prepare_inputs(model, [files / "picture.png"])
        with torch.no_grad(), lens.trace(model) as run:
            model(*inputs.tensors)
            assert f"Patches that {name} attends to" in images(only(patches.overlays(model, run, inputs)))[0].alt


@pytest.mark.parametrize("model", [ViT(vit.tiny()), Hybrid(hybrid.tiny())])
def test_important_patches_are_drawn(model: torch.nn.Module, files: Path) -> None:
    assert important_patches(model.eval(), files / "picture.png").axes


def test_attention_of_a_stem_is_shown_on_its_own_grids(files: Path, tmp_path: Path) -> None:
    stem = hybrid.StemConfig(widths=(16, 16, 16), halves=(True, True, False), attending=2)
    model = Hybrid(replace(hybrid.tiny(), stem=stem)).eval()
    look(model, files / "picture.png").save(tmp_path / "page.html")
    assert "stem.1.grid" in (tmp_path / "page.html").read_text(encoding="utf-8")
    shown = Look("hybrid", model, Given(file=(files / "picture.png").read_bytes(), suffix=".png"))
    layers = {layer["path"]: layer for layer in shown.summary()["layers"]}
    assert [layers[f"stem.{i}.grid"]["grid"] for i in (1, 2)] == [[4, 4], [2, 2]]
    assert layers["encoder.0.attention"]["grid"] is None
    assert layers["stem.2.grid"]["query_labels"] == ["1,1", "1,2", "2,1", "2,2"]
    assert layers["stem.2.grid"]["key_labels"].count("border") == 12


def test_heads_on_a_grid_are_named_after_the_neighbour_they_attend_to() -> None:
    """The shipped stem began as a 3 × 3 convolution: head n of it attends to cell n of the window."""
    import glassformer as gf
    from glassformer.pipelines.loading import find_model

    picture = (find_model("objects") / "example.jpg").read_bytes()
    made = Look("objects", gf.load("objects"), Given(file=picture, suffix=".jpg"))
    labels = {each["head"]: each["label"] for each in made.heads() if each["path"] == "stem.4.grid"}
    rows, sides = ("above", "", "below"), ("left", "", "right")
    wanted = [" ".join(filter(None, (row, side))) or "self" for row in rows for side in sides]
    assert [labels[head] for head in range(9)] == wanted


def test_a_convolution_has_no_patches(files: Path) -> None:
    with pytest.raises(InputError, match="a ConvNet2d does not classify images by patches"):
        important_patches(ConvNet2d(convolutional.tiny()), files / "picture.png")


def test_cells_are_texts() -> None:
    assert table(["a"], [[1], [None]]).rows == [["1"], ["None"]]
