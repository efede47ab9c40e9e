"""Exports of records: in pieces, and with no cell that a spreadsheet executes."""

import csv
import io
import json
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.record.ledger.line_format import chain_record
from paddock.record.ledger.sink import AuditRecord
from paddock.surfaces.web.record_export import COLUMNS, FORMATS, export_records, neutralize

SEPARATORS = ",;|\t\r\n"
FORMULAS = "=+-@＝＋－＠"  # noqa: RUF001 - spreadsheets read wide ones, too


def make_record(seq: int = 1, **facts: str | float | None) -> AuditRecord:
    record = chain_record(None, "finished", "r", facts, seconds=0.0)
    return record.model_copy(update={"seq": seq})


@pytest.mark.parametrize("form", FORMATS)
def test_a_piece_is_written_before_the_next_record_is_read(form: str) -> None:
    made: list[int] = []

    def make_forever():
        for number in count(1):
            made.append(number)
            yield make_record(number, name="x" * 400)

    pieces = export_records(make_forever(), form)
    sizes = [len(next(pieces)) for _ in range(3)]
    assert all(64 * 1024 <= size < 66 * 1024 for size in sizes)
    assert len(made) < 3 * 66 * 1024 // 400


def test_without_records_a_table_has_its_heading() -> None:
    assert list(export_records(iter(()), "jsonl")) == [b""]
    [piece] = export_records(iter(()), "csv")
    assert next(csv.reader([piece.decode()])) == list(COLUMNS)


def test_json_lines_have_every_value_as_it_is() -> None:
    record = make_record(name="=1+1,\u202e", ms=-1.5, rule=None)
    [piece] = export_records(iter([record]), "jsonl")
    assert json.loads(piece) == record.model_dump(mode="json")
    assert piece.isascii()


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("plain", "plain"),
        ("a-b=c+d@e", "a-b=c+d@e"),
        ("=1+1", "'=1+1"),
        ("  @SUM(A1)", "'  @SUM(A1)"),
        ("-5", "'-5"),
        ("a;=1", "a;'=1"),
        ("a\n+1", "a\n'+1"),
        ("＝1", "'＝1"),  # noqa: RUF001
        ("\x1b[31m\u202e", "\\x1b[31m\\u202e"),
        ("\r=1", "\\x0d=1"),
    ],
)
def test_formulas_get_an_apostrophe_and_controls_are_visible(text: str, cell: str) -> None:
    assert neutralize(text) == cell


def test_numbers_stay_numbers() -> None:
    assert [neutralize(value) for value in (-5, 1.5, None)] == [-5, 1.5, None]


@given(st.text(alphabet=st.sampled_from(FORMULAS + SEPARATORS + " \"'a{\u202e\x00\x1b"), max_size=30))
def test_no_cell_begins_a_formula_whatever_separates_cells(name: str) -> None:
    record = make_record(name=name, rule=name)
    text = b"".join(export_records(iter([record]), "csv")).decode()
    [_, row] = csv.reader(io.StringIO(text, newline=""))
    assert json.loads(row[COLUMNS.index("facts")].replace("'", "")) == {
        "name": name.replace("'", ""),
        "rule": name.replace("'", ""),
    }
    for cell in row:
        for separator in SEPARATORS:
            for part in cell.split(separator):
                assert not part.lstrip().startswith(tuple(FORMULAS)), cell
