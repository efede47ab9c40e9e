"""Outcomes in a notebook: what a program made is shown, and can do nothing there."""

import json

import pytest

from paddock import Outcome
from paddock.model.outcome import ErrorInfo, Usage, read_outcome, write_outcome
from paddock.model.session import Result
from paddock.model.status import Status

FRAME = (
    '<iframe sandbox="" srcdoc="&lt;meta http-equiv=&quot;Content-Security-Policy&quot; content=&quot;'
    "default-src &#x27;none&#x27;; style-src &#x27;unsafe-inline&#x27;; img-src data:&quot;&gt;"
    '{}" style="width:100%;height:{}px;border:0"></iframe>'
)
HEAD = "<div><strong>ok</strong> · 0.0 ms · record 01A</div>"


def show(*results: dict[str, str]) -> str:
    outcome = Outcome(
        id="1", status=Status.OK, audit="01A", results=tuple(Result(data={**data}) for data in results)
    )
    return outcome._repr_html_().removeprefix(HEAD)


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ({"text/plain": "<b>4</b>"}, "<pre>&lt;b&gt;4&lt;/b&gt;</pre>"),
        (
            {"image/png": "aGk=", "text/html": "<b>", "text/plain": '"><script>'},
            '<div><img alt="&quot;&gt;&lt;script&gt;" src="data:image/png;base64,aGk="></div>',
        ),
        (
            {"image/svg+xml": "<svg onload='x'/>", "text/plain": "s"},
            '<div><img alt="s" src="data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9J3gnLz4="></div>',
        ),
        ({"image/png": "not base64", "text/plain": "figure"}, "<pre>figure</pre>"),
        (
            {"text/html": '"></iframe><script>alert(1)</script>', "text/plain": "t"},
            FRAME.format("&quot;&gt;&lt;/iframe&gt;&lt;script&gt;alert(1)&lt;/script&gt;", 60),
        ),
        ({"text/html": "<tr><tr>" + "x" * 5_000_000, "text/plain": "large"}, "<pre>large</pre>"),
    ],
)
def test_results_are_shown_and_inert(data: dict[str, str], shown: str) -> None:
    assert show(data) == shown


def test_an_outcome_is_one_line() -> None:
    usage = Usage(wall_ms=12.34)
    fields = {"id": "1", "status": Status.OK, "usage": usage}
    assert str(Outcome(**fields)) == "<Outcome ok · 12.3 ms>"
    assert (
        repr(Outcome(**fields, value=[1, "a"], has_value=True)) == "<Outcome ok · 12.3 ms · value [1, 'a']>"
    )
    failed = {**fields, "status": Status.FAILED, "error": ErrorInfo(name="E", message="a\nb" * 100)}
    assert (
        str(Outcome(**failed))
        == f"<Outcome failed · 12.3 ms · E: {('a' + chr(10) + 'b') * 26 + 'a' + chr(10)!r}>"
    )


def test_a_value_is_written_as_one_line_whatever_its_size():
    figure = Result(data={"text/plain": "<Figure size 640x480>", "image/png": "iVBORw0KGgo" * 10_000})
    assert repr(figure) == "<Result text/plain, image/png · '<Figure size 640x480>'>"


def test_what_the_version_before_does_not_know_is_left_out_where_it_is_empty() -> None:
    plain = json.loads(write_outcome(Outcome(id="1", status=Status.OK)))
    assert plain.keys() & {"recording", "labels"} == set()
    labelled = Outcome(id="1", status=Status.OK, labels=("private",))
    assert read_outcome(write_outcome(labelled).encode()) == labelled
