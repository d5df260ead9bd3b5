from __future__ import annotations

from dataclasses import replace

from glassformer.lab.comparison.nets import ARCHITECTURES
from glassformer.lab.comparison.results import Results
from glassformer.lab.comparison.tables import tables


def test_every_table_has_a_number_in_every_cell(results: Results) -> None:
    made = tables(results)
    assert len(made) == 13
    for table in made:
        assert table.rows, table.title
        for row in table.rows:
            assert len(row) == len(table.head), table.title
            for cell in row[1:]:
                assert any(c.isdigit() for c in cell) or cell in ("not here", "–"), (table.title, row)
        assert table.note


def test_all_architectures_are_in(results: Results) -> None:
    by_title = {table.title.partition(",")[0]: table for table in tables(results)}
    for title in ("Time of a layer", "Exponents", "Memory of a layer", "Parallelisation", "Recall"):
        assert [row[0] for row in by_title[title].rows] == list(ARCHITECTURES)
    assert "Dosovitskiy" in by_title["The published curve"].note


def test_only_what_was_measured(results: Results) -> None:
    some = Results(results.data, results.path)
    some.plan = replace(some.plan, tasks=("reach",))
    assert [table.title for table in tables(some)] == ["Reach of the gradient", "Recall"]
