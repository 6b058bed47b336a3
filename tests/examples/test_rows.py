"""Reading CSV and JSON lines, and choosing columns for tags and keys."""

import csv
import io
import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.demo.rows import (
    MAX_BODY_BYTES,
    MAX_WORD_CHARS,
    BadRow,
    Columns,
    DataError,
    Row,
    choose_columns,
    delimiter_of,
    read_csv,
    read_json_lines,
    word,
)

FIELDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=9)


def csv_rows(text: str) -> list[Row | BadRow]:
    return list(read_csv(io.StringIO(text, newline="")))


def json_rows(text: str) -> list[Row | BadRow]:
    return list(read_json_lines(io.StringIO(text, newline="\n")))


def rows_of(**columns: Sequence[object]) -> list[Row]:
    """Rows from columns of equal length."""
    records = [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]
    return [Row(number, record, b"{}") for number, record in enumerate(records, 2)]


# --- CSV
# --------------------------------------------------------------------------------------------------


@given(
    st.lists(
        st.lists(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=9),
            min_size=3,
            max_size=3,
        ),
        max_size=8,
    )
)
def test_every_row_that_the_csv_module_writes_is_read_again(records: list[list[str]]) -> None:
    file = io.StringIO(newline="")
    csv.writer(file).writerows([["a", "b", "c"], *records])
    found = csv_rows(file.getvalue())
    assert [list(row.values.values()) for row in found if isinstance(row, Row)] == records
    assert all(isinstance(row, Row) and json.loads(row.body) == row.values for row in found)


def test_lines_are_counted_through_line_breaks_inside_of_quotes() -> None:
    found = csv_rows('\nid,note\n1,"one\ntwo"\n\n2,plain\n3\n4,x\n')
    assert [(row.line, type(row)) for row in found] == [(3, Row), (6, Row), (7, BadRow), (8, Row)]
    assert found[2] == BadRow(7, "1 fields where the header has 2")


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_seen_in_the_header(delimiter: str) -> None:
    header = delimiter.join(["id", '"a, b; c"', "d"])
    assert delimiter_of(header) == delimiter
    (row,) = csv_rows(f"{header}\n{delimiter.join('123')}\n")
    assert isinstance(row, Row)
    assert row.values == {"id": "1", "a, b; c": "2", "d": "3"}


def test_one_column_needs_no_delimiter() -> None:
    assert [row.values for row in csv_rows("word\nyes\nno\n") if isinstance(row, Row)] == [
        {"word": "yes"},
        {"word": "no"},
    ]


def test_a_column_without_a_name_gets_one() -> None:
    assert csv_rows(",city\n0,Bonn\n")[0].values == {"column_1": "0", "city": "Bonn"}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty"),
        ("\n \n", "empty"),
        ("1,2.5,2013-01-01\n3,4,5\n", "must name the columns"),
        ("a,b,a\n1,2,3\n", "'a'"),
        ("na\udce9me,b\n1,2\n", "UTF-8"),
    ],
)
def test_a_file_without_a_usable_header_is_refused(text: str, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        csv_rows(text)


def test_a_broken_row_is_told_and_the_rest_is_read() -> None:
    huge = "x" * (MAX_BODY_BYTES - 5)
    found = csv_rows(f"a,b\n1,caf\udce9\n2,{huge}\n3,{huge}xxxxxxxx\n4,good\n")
    assert [(row.line, type(row)) for row in found] == [
        (2, BadRow),
        (3, BadRow),
        (4, BadRow),
        (5, Row),
    ]
    assert [row.why for row in found if isinstance(row, BadRow)] == [
        "not UTF-8 text",
        "4.0 MiB, a message has at most 4 MiB",
        f"field larger than field limit ({MAX_BODY_BYTES})",
    ]


# --- JSON lines
# --------------------------------------------------------------------------------------------------


def test_json_lines_keep_their_bytes() -> None:
    found = json_rows('{"a": 1.50, "b": "ü"}\r\n\n{"a": null}')
    assert [(row.line, row.body) for row in found if isinstance(row, Row)] == [
        (1, '{"a": 1.50, "b": "ü"}'.encode()),
        (3, b'{"a": null}'),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "{",
        '{"a": 1',
        "[1, 2]",
        "7",
        '"text"',
        "[" * 100_000,
        '{"a": ' + "9" * 5000 + "}",
        '{"a": "\udce9"}',
        "null",
    ],
)
def test_a_broken_line_is_told_and_the_rest_is_read(line: str) -> None:
    first, bad, last = json_rows(f'{{"a": 1}}\n{line}\n{{"a": 2}}\n')
    assert isinstance(bad, BadRow)
    assert bad.line == 2
    assert len(bad.why) < 200
    assert [first.values, last.values] == [{"a": 1}, {"a": 2}]  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ['[{"a": 1},\n {"a": 2}]\n', '[\n{"a": 1}\n]\n', '[{"a": 1}]'])
def test_a_json_array_is_refused_with_advice(text: str) -> None:
    with pytest.raises(DataError, match=r"jq -c '\.\[\]'"):
        json_rows(text)


def test_a_row_that_is_too_big_for_a_message_is_told() -> None:
    assert json_rows('{"a": "' + "x" * MAX_BODY_BYTES + '"}\n') == [
        BadRow(1, "4.0 MiB, a message has at most 4 MiB")
    ]


# --- columns
# --------------------------------------------------------------------------------------------------


def test_tags_are_the_first_column_of_few_words_and_keys_the_first_of_unique_values() -> None:
    sample = rows_of(
        number=["1", "2", "1", "2"],
        date=["2013-01-01", "2013-01-02", "2013-01-01", "2013-01-02"],
        time=["05:15", "05:15", "05:16", "05:16"],
        same=["x", "x", "x", "x"],
        carrier=["UA", "9E", "9E", "UA"],
        origin=["EWR", "JFK", "EWR", "JFK"],
        id=["a", "b", "c", "d"],
        other_id=[1, 2, 3, 4],
    )
    assert choose_columns(sample) == Columns("carrier", "id")
    assert choose_columns(sample, tags="origin", keys="other_id") == Columns("origin", "other_id")


def test_a_column_with_many_words_or_mostly_empty_makes_no_tags() -> None:
    columns: dict[str, Sequence[object]] = {
        "name": ["a", "b", "c", "d", "b"],
        "flag": [True, False, True, True, True],
        "n": [1, 2, 1, 2, 2],
    }
    assert choose_columns(rows_of(**columns, note=["x", "", "", "y", "x"])).tags == "note"
    assert choose_columns(rows_of(**columns, note=["x", "", "", "y", ""])).tags is None


@pytest.mark.parametrize(
    "values",
    [["a", "b", "a"], ["a", "b", ""], ["a", "b", None], [1.5, 2.5, 3.5], ["a b", "a_b", "c"]],
)
def test_keys_are_unique_and_everywhere(values: list[object]) -> None:
    assert choose_columns(rows_of(column=values)).keys is None


def test_a_column_that_is_asked_for_and_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(DataError, match="no column 'carrier'; there are a, b"):
        choose_columns(rows_of(a=["1"], b=["2"]), tags="carrier")


def test_columns_may_be_missing_in_some_json_rows() -> None:
    sample = [Row(n, {"id": n, **({"kind": "even"} if n % 2 == 0 else {})}, b"") for n in range(8)]
    columns = choose_columns([*sample, Row(9, {"id": 9, "kind": "nine"}, b"")])
    assert columns == Columns("kind", "id")
    assert columns.tag_of(sample[1], 1) is None
    assert columns.tag_of(sample[2], 2) == "even"


def test_without_columns_tags_are_odd_and_even_and_keys_are_lines() -> None:
    columns = Columns(None, None)
    assert [columns.tag_of(Row(7, {}, b""), number) for number in (0, 1)] == ["even", "odd"]
    assert columns.key_of(Row(7, {}, b"")) == "line-7"


@given(st.one_of(st.none(), st.text(), st.integers(), st.booleans()))
def test_a_word_can_be_a_tag_and_a_key(value: object) -> None:
    made = word(value)
    assert len(made) <= MAX_WORD_CHARS
    assert not any(char.isspace() or char < " " or char == "|" for char in made)
    assert made.encode().decode() == made
    assert made != "*"  # as a filter it would be everything
    assert word(made) == made


def test_words_are_kept_as_they_are() -> None:
    assert [word(value) for value in ("UA", " New York ", "a||b", "*", 7, None)] == [
        "UA",
        "New_York",
        "a_b",
        "_",
        "7",
        "",
    ]
