"""Tables as people have them, read against the libraries that wrote them."""

from __future__ import annotations

import csv
import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.columns import parse
from glassformer.data.faults import Fault
from glassformer.data.rows import Rows, open_rows
from glassformer.errors import ConfigError, InputError

LABELLED = ("text", "label")


def read(rows: Rows) -> list[dict[str, Any]]:
    """Every row, after a trip to another process."""
    rows = pickle.loads(pickle.dumps(rows))
    return [rows[i] for i in range(len(rows))]


FIELD = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=8).map(str.strip)
CELL = st.one_of(FIELD, st.sampled_from(['a "b"', "x, y", "one\ntwo", '"', ";", "a\n\nb", '""'])).filter(bool)


@given(st.lists(st.tuples(CELL, CELL), min_size=1), st.sampled_from([",", ";"]), st.sampled_from(["\n", "\r\n"]))
def test_csv_as_pythons_own_writer_writes_it(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], delimiter: str, end: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "table.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=delimiter, lineterminator=end).writerows([LABELLED, *rows])
    found = open_rows(path, LABELLED)
    assert [(row["text"], row["label"]) for row in read(found)] == rows
    assert not len(found.faults)


HEADS = [
    ("text,label\nfine,1\nbad,0\n", ("text", "label")),
    ("review;stars\n" + "good film;5\nnot so good;2\n" * 3, ("review", "stars")),
    ("Review Text,Sentiment\na b,pos\n", ("Review Text", "Sentiment")),
    (",text,label\n0,a b,1\n1,c d,2\n", ("text", "label")),
    ("label,comment,id\nx,a b,7\n", ("comment", "label")),
    ("kind,words\n" + "spam,buy it now\nham,see you at six\n" * 4, ("words", "kind")),
    ("4,a long text of words\n2,another text\n4,more of it\n2,and so on\n", ("1", "0")),
    ("good film|pos\nbad film|neg\nweak|neg\nfine one|pos\n", ("0", "1")),
]


@pytest.mark.parametrize(("content", "names"), HEADS)
def test_headers_and_columns(tmp_path: Path, content: str, names: tuple[str, str]) -> None:
    (tmp_path / "t.csv").write_text(content)
    rows = open_rows(tmp_path / "t.csv", LABELLED)
    assert rows.columns == {"text": names[:1], "label": names[1:]}
    header = 0 if names[0].isdigit() else 1
    assert len(rows) == content.count("\n") - header, "a header is no row, and a row is no header"


SIDES = ("source", "target")
SENTENCES = "the cast was dull,le jeu fut terne\nthe plot was fine,la trame fut bonne\n" * 3
PAIR_HEADS = [
    ("Source Sentence,Ziel\n" + SENTENCES, 1),
    ("Original,Übersetzung\n" + SENTENCES, 1),
    ("English sentence,French sentence\nhi,salut\n", 1),
    ("text_en,text_fr\nhi,salut\n", 1),
    ("sourceText,targetText\nhi,salut\n", 1),
    (SENTENCES, 0),
    ("source code,code source\ncat,chat\ndog,chien\none,un\ntwo,deux\nthree,trois\n", 0),
    ("hi,salut\ndog,chien\none more,encore un\ntwo,deux\nthe,le\n", 0),
]


@pytest.mark.parametrize(("content", "header"), PAIR_HEADS)
def test_headers_of_pairs_are_not_rows(tmp_path: Path, content: str, header: int) -> None:
    (tmp_path / "t.csv").write_text(content)
    assert len(open_rows(tmp_path / "t.csv", SIDES)) == content.count("\n") - header


def test_a_column_is_found_by_a_word_inside_its_name(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("No,Target Sentence,Source Sentence\n1,le chat,the cat\n")
    rows = open_rows(tmp_path / "t.csv", SIDES)
    assert rows.columns == {"source": ("Source Sentence",), "target": ("Target Sentence",)}


def test_columns_that_are_given(tmp_path: Path, refused: Any) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b,toxic,rude\n" + "x,y,1,0\nz,w,0,1\n" * 3)
    rows = open_rows(path, LABELLED, given=parse("text=b,label=toxic+rude"))
    assert read(rows)[0] == {"text": "y", "label": {"toxic": "1", "rude": "0"}}
    assert rows.described() == "columns text=b, label=toxic+rude (not used: a)"
    hint = "give them with --columns, as in text=a,label=toxic+rude"
    says = f"{path} has no column for label among a, b, toxic, rude: {hint}"
    refused(InputError, says, lambda: open_rows(path, LABELLED))
    refused(
        ConfigError,
        "--columns 'text' contains 'text', which is not role=column: write --columns",
        lambda: parse("text"),
    )


def test_tabs_and_bars_leave_quotes_in_the_text(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text('source\ttarget\n"Hi", he said\t« Oui »\n"He said ""no"""\t"non"\n')
    pairs = read(open_rows(tmp_path / "t.tsv", ("source", "target")))
    assert [row["source"] for row in pairs] == ['"Hi", he said', 'He said "no"']
    (tmp_path / "metadata.csv").write_text('LJ1|In 1465, "it" was|In fourteen, it was\nLJ2|Two, three|Two\n')
    (tmp_path / "wavs").mkdir()
    said = read(open_rows(tmp_path / "metadata.csv", ("audio", "transcript")))
    assert said[0] == {"audio": "LJ1", "transcript": "In fourteen, it was"}


def test_a_quote_that_is_not_closed_costs_its_row_only(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('text,label\na,1\n"b,2\nc,3\nd,4\n')
    rows = open_rows(tmp_path / "t.csv", LABELLED)
    assert [row["text"] for row in read(rows)] == ["a", "c", "d"]
    assert [fault.place for fault in rows.faults] == ["t.csv line 3"]


OBJECTS = [{"text": "a\nb", "label": "x"}, {"text": "ü", "label": 3}, {"text": "c", "label": ["x", "y"]}]


def test_json(tmp_path: Path) -> None:
    lines = "\n".join(json.dumps(row) for row in OBJECTS)
    (tmp_path / "t.jsonl").write_text(lines + "\n\nnot json\n[1]\n")
    (tmp_path / "lines.json").write_text(lines)
    (tmp_path / "list.json").write_text(json.dumps(OBJECTS, indent=1))
    (tmp_path / "inside.json").write_text(json.dumps({"version": 1, "data": OBJECTS}))
    for name in ("t.jsonl", "lines.json", "list.json", "inside.json"):
        assert read(open_rows(tmp_path / name, LABELLED, strict=False)) == OBJECTS, name
    faults = open_rows(tmp_path / "t.jsonl", LABELLED, strict=False).faults
    assert faults.summary() == [
        "empty line: 1 (t.jsonl line 4)",
        "not JSON: 1 (t.jsonl line 5)",
        "not a JSON object: 1 (t.jsonl line 6)",
    ]
    (tmp_path / "nested.jsonl").write_text('{"translation": {"en": "yes", "fr": "oui"}}\n')
    assert read(open_rows(tmp_path / "nested.jsonl", ("source", "target"))) == [{"source": "yes", "target": "oui"}]


def test_parquet_and_class_names(tmp_path: Path) -> None:
    features = {"label": {"names": ["neg", "pos"], "_type": "ClassLabel"}, "text": {"dtype": "string"}}
    table = pa.table({"text": ["a", "b", "c"], "label": [1, 0, 1]})
    table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    for part in range(2):
        pq.write_table(table, tmp_path / f"train-0000{part}-of-00002.parquet")
    rows = open_rows(tmp_path, LABELLED)
    assert [row["label"] for row in read(rows)] == ["pos", "neg", "pos"] * 2
    assert rows.place(4) == "train-00001-of-00002.parquet row 2"
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match=r"broken\.parquet cannot be read"):
        open_rows(tmp_path / "broken.parquet", LABELLED)


def test_conll(tmp_path: Path) -> None:
    (tmp_path / "t.conll").write_text("-DOCSTART- -X- O O\n\nEU NNP I-NP B-ORG\nsays VB I-VP O\n\n\nNo UH O O\n")
    rows = open_rows(tmp_path / "t.conll", ("tokens", "tags"))
    assert read(rows) == [{"tokens": ["EU", "says"], "tags": ["B-ORG", "O"]}, {"tokens": ["No"], "tags": ["O"]}]
    assert rows.place(1) == "t.conll line 7"


def test_a_file_that_changed(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("text,label\na,b\nc,d\n")
    rows = open_rows(path, LABELLED)
    path.write_text("x\n")
    with pytest.raises(Fault, match=r"changed since the file was opened: t\.csv line 3"):
        rows[1]
