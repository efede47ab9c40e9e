"""CSV files of sessions as tables."""

import pytest

from paddock.surfaces.web.pages.sessions import TextTable, read_table


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("a,b\n1,2\n", TextTable(["a", "b"], [["1", "2"]], omitted=False)),
        ('"a\nb","c""d"\r\n,\r\n', TextTable(["a\nb", 'c"d'], [["", ""]], omitted=False)),
        ("a\n\n1", TextTable(["a"], [["1"]], omitted=False)),
        ("a,b\n1\n", TextTable(["a", "b"], [["1"]], omitted=False)),
        ("", None),
        ("\n\n", None),
        ('"' + "x" * 200_000, None),
    ],
)
def test_a_text_is_read_as_a_table(text: str, table: TextTable | None) -> None:
    assert read_table(text, ",") == table


def test_the_table_is_bounded() -> None:
    assert read_table("a\n" * 1000, ",") == TextTable(["a"], [["a"]] * 200, omitted=True)
    wide = read_table(",".join("x" * 300 for _ in range(100)), ",")
    assert wide == TextTable(["x" * 200] * 50, [], omitted=True)
