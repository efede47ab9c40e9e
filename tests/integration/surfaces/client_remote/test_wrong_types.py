"""A value of a wrong type gets one of Paddock's own errors, also with the programs on a server."""

from tests.support.http_api import TOKEN, ApiServer
from tests.support.wrong_types import find_foreign_error, list_calls

from paddock import BlockingPaddock


def test_methods_of_a_connected_paddock(server: ApiServer) -> None:
    with BlockingPaddock.connect(server.url, token=TOKEN) as p, p.session("python") as s:
        calls = [*list_calls(p), *list_calls(s), *list_calls(s.files)]
        found = {what: error for what, call in calls if (error := find_foreign_error(call))}
    assert found == {}
