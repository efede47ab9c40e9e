"""The OpenAPI document of `paddock serve http`, and its answers to wrong requests.

`docs/commands.md` and `docs/mcp-tools.md` are the golden files of help pages and of tools.
"""

from pathlib import Path
from typing import Any

from tests.support.golden import check_golden, replace_volatile
from tests.support.http_api import ApiPlace

RUN = "/v1/executions"
REFUSED: list[tuple[str, str, Any]] = [
    ("POST", RUN, {}),
    ("POST", RUN, {"language": "cobol", "code": "1"}),
    ("POST", RUN, {"language": "python", "code": "1", "timout_ms": 5}),
    ("POST", RUN, {"language": "python", "code": "1", "timeout_ms": -1}),
    ("POST", RUN, {"language": "python", "code": "1", "network": "full"}),
    ("POST", RUN, {"language": "python", "code": "1", "access": "workspace-write"}),
    ("POST", RUN, {"language": "python", "code": "1", "files": {"../x": "1"}}),
    ("POST", RUN, {"language": "python", "code": "1", "session": "s_none"}),
    ("POST", RUN, {"kind": "compute", "code": "emit(1)", "input": {"a": 1}}),
    ("POST", RUN, {"tool": "none"}),
    ("POST", RUN, {"server": "none", "tool": "x"}),
    ("GET", f"{RUN}/01JD3W0ZV6N4YQ1R2X5T7B8C9D", None),
    ("GET", "/v1/artifacts/none", None),
    ("GET", "/v1/sessions/none", None),
    ("POST", "/v1/sessions", {"language": "cobol"}),
    ("PUT", RUN, None),
    ("GET", "/v1/nowhere", None),
    ("POST", "/run_code", {"language": "cobol", "code": "1"}),
]


def test_the_document_and_the_problems_of_http(tmp_path: Path) -> None:
    place = ApiPlace(tmp_path)
    with place.serve() as server, server.client() as owner:
        check_golden("openapi.json", owner.get("/openapi.json").json())
        answers = [
            {
                "request": f"{method} {path}",
                "body": body,
                "answer": owner.http.request(method, path, json=body).json(),
            }
            for method, path, body in REFUSED
        ]
    check_golden("http-problems.json", replace_volatile(answers, {str(tmp_path): "<place>"}))
