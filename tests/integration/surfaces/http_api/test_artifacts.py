"""`/v1/artifacts`: stored output and files."""

from tests.support.http_api import ApiClient

PNG = "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"


def test_both_streams_of_a_program(api: ApiClient) -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr)"
    handle = api.run(language="python", code=code)["program"]["artifact"]
    out = api.get(f"/v1/artifacts/{handle}")
    err = api.get(f"/v1/artifacts/{handle}", params={"stream": "stderr"})
    assert (out.text, err.text) == ("out\n", "err\n")
    assert out.headers["content-type"] == "text/plain; charset=utf-8"
    assert out.headers["content-disposition"] == "attachment"
    assert out.headers["content-security-policy"] == "sandbox; default-src 'none'"


def test_a_file_has_its_own_media_type(api: ApiClient) -> None:
    code = f"open('a.png', 'wb').write(bytes.fromhex('{PNG}'))"
    outcome = api.run(language="python", code=code, outputs=["*"])
    [file] = outcome["program"]["files"]
    read = api.get(f"/v1/artifacts/{file['handle']}")
    assert (read.content.hex(), read.headers["content-type"]) == (PNG, "image/png")


def test_an_artifact_goes_into_the_next_program(api: ApiClient) -> None:
    written = api.run(language="python", code="open('a.csv', 'w').write('1')", outputs=["*"])
    handle = written["program"]["files"][0]["handle"]
    files = [{"path": "b.csv", "artifact": handle}]
    outcome = api.run(language="python", code="print(open('b.csv').read())", files=files)
    assert outcome["program"]["stdout"]["head"] == "1\n"


def test_there_is_no_other_artifact(api: ApiClient) -> None:
    unknown = "runtime-ws-1700000000000-0123456789abcdef"
    assert api.problem("GET", f"/v1/artifacts/{unknown}") == (
        404,
        "not-found",
        f"Artifact not found: {unknown}; it does not exist or has expired (artifacts.ttl_hours)",
    )
    assert api.problem("GET", f"/v1/artifacts/{unknown}?stream=both")[:2] == (422, "invalid-request")
    for handle in ("..", "%2e%2e%2fetc", "a%00b"):
        assert api.http.get(f"/v1/artifacts/{handle}").status_code == 404
