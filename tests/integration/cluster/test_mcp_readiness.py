"""`/readyz` of `paddock serve mcp --http`: it knows the same causes as that of the API."""

import asyncio
import json
import re
from pathlib import Path

import httpx2
from tests.integration.cluster.test_wrong_clock import WRONG_CLOCK
from tests.support.leases import execute
from tests.support.mcp_server import AUTHORIZED, Place
from tests.support.processes import PATIENCE_S


def test_a_replica_that_serves_mcp_is_ready_as_one_that_serves_the_api(
    tables_url: str, tmp_path: Path
) -> None:
    place, offset = Place(tmp_path), tmp_path / "offset"
    offset.write_text("0")
    place.environment |= {
        "PADDOCK_CLUSTER_URL": tables_url,
        "PADDOCK_CLUSTER_NODE": "m",
        "PYTHONPATH": str(WRONG_CLOCK),
        "WRONG_CLOCK": str(offset),
        "PYDANTIC_DISABLE_PLUGINS": "__all__",
    }

    async def main() -> None:
        async with place.web() as web, httpx2.AsyncClient(timeout=PATIENCE_S) as http:

            async def await_other(before: str) -> tuple[int, str]:
                """Return status and text of `/readyz` once the text is another one."""
                while True:
                    found = await http.get(web.url.replace("/mcp", "/readyz"))
                    kind = found.headers["content-type"].partition(";")[0]
                    text = json.loads(found.text)["detail"] if kind.endswith("json") else found.text
                    if text != before:
                        return found.status_code, text

            assert await await_other("") == (200, "ok\n")
            execute(tables_url, "update generation set fence = 'f', why = 'it is a test'")
            status, text = await await_other("ok\n")
            restored = "safe mode: The database of cluster.url was restored from a backup: it is a test."
            assert (status, text.startswith(restored)) == (200, True)
            execute(tables_url, "update generation set fence = null, why = null")
            assert await await_other(text) == (200, "ok\n")

            offset.write_text("61")
            status, text = await await_other("ok\n")
            assert status == 503
            # Of a late answer of the database, only what is certain counts.
            assert re.match(r"The clock of this machine is [56]\d s ahead of that of the database", text)
            refused = await http.post(web.url, headers=AUTHORIZED, json={})
            assert (refused.status_code, refused.json()["detail"]) == (
                503,
                "The clock of this server is wrong. Nothing was started. Send it again later, or to another server.",
            )
            offset.write_text("0")
            while (found := await await_other(text))[0] != 200:
                text = found[1]

            execute(tables_url, "update node set boot = 'other', version_boot = 'other'")
            assert await await_other("ok\n") == (
                503,
                "Another server has the name of this one. Send requests to another one, and restart this one under "
                "another name.",
            )

    asyncio.run(main())
