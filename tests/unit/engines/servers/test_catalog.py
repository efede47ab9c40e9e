"""What the catalogue asks of servers, what it remembers, and what it says."""

import asyncio
from collections import Counter

from paddock.engines.servers.catalog.catalog import Catalog, ToolListing, UnmatchedName
from paddock.engines.servers.result import CatalogTool, ToolInfo
from paddock.engines.servers.typescript import Described
from paddock.model.errors import ConfigurationError, ServerUnavailable, UnknownServer


def tools(server, *names):
    infos = (ToolInfo(name, f"does {name}", {"type": "object"}, None, {}) for name in names)
    return tuple(CatalogTool(server, info) for info in infos)


class Upstream:
    """Servers `a` and `b` with tools, and `c`, which is broken. The clock stands until it is moved."""

    def __init__(self):
        self.asked = Counter()
        self.versions = Counter()
        self.now = 0.0
        self.tools = {"a": tools("a", "read_file", "write_file"), "b": tools("b", "git_log")}
        self.catalog = Catalog(
            ["a", "b", "c"], self.ask, version=self.versions.__getitem__, clock=lambda: self.now
        )

    async def ask(self, server):
        self.asked[server] += 1
        await asyncio.sleep(0)
        if server == "c":
            raise ServerUnavailable("it is broken")
        if server not in self.tools:
            raise UnknownServer(server)
        return self.tools[server]


def test_a_broken_server_costs_only_its_own_tools():
    up = Upstream()
    listing = asyncio.run(up.catalog.list_tools())
    assert listing == ToolListing(up.tools["a"] + up.tools["b"], {"c": "it is broken"})
    assert asyncio.run(up.catalog.list_tools("nope")) == ToolListing((), {"nope": "Unknown server: nope"})


def test_servers_are_asked_once_however_many_want_to_know():
    up = Upstream()

    async def many():
        await asyncio.gather(*(up.catalog.search_tools("file") for _ in range(20)))

    asyncio.run(many())
    assert up.asked == {"a": 1, "b": 1, "c": 1}


def test_whoever_gives_up_does_not_take_the_answer_from_others():
    up = Upstream()

    async def main():
        first = asyncio.create_task(up.catalog.list_tools("a"))
        second = asyncio.create_task(up.catalog.list_tools("a"))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    assert asyncio.run(main()) == ToolListing(up.tools["a"])
    assert up.asked == {"a": 1}


def test_a_server_is_asked_again_when_its_tools_changed_or_its_word_is_old():
    up = Upstream()
    asyncio.run(up.catalog.list_tools("a"))
    up.tools["a"] = tools("a", "new")
    assert len(asyncio.run(up.catalog.list_tools("a")).tools) == 2
    up.versions["a"] += 1
    assert asyncio.run(up.catalog.list_tools("a")).tools == up.tools["a"]
    up.now = 3_599.0
    asyncio.run(up.catalog.list_tools("a"))
    assert up.asked["a"] == 2
    up.now = 3_601.0
    asyncio.run(up.catalog.list_tools("a"))
    assert up.asked["a"] == 3


def test_a_broken_server_is_tried_again_after_a_while():
    up = Upstream()
    for now, asked in ((0.0, 1), (29.0, 1), (31.0, 2)):
        up.now = now
        asyncio.run(up.catalog.list_tools("c"))
        assert up.asked["c"] == asked


def test_the_index_follows_the_tools():
    up = Upstream()
    assert [hit.tool.name for hit in asyncio.run(up.catalog.search_tools("read file"))[0]] == [
        "a.read_file",
        "a.write_file",
    ]
    up.tools["a"] = tools("a", "file_reader")
    up.versions["a"] += 1
    assert [hit.tool.name for hit in asyncio.run(up.catalog.search_tools("read file"))[0]] == [
        "a.file_reader"
    ]


def test_unknown_names_get_the_nearest():
    up = Upstream()
    (described, unknown), *_ = asyncio.run(up.catalog.describe_tools(["a/read_file", "a.reed_file"]))
    assert described.name == "a.read_file"
    assert unknown == UnmatchedName("a.reed_file", ("a.read_file", "a.write_file"))


def test_a_server_stands_for_all_its_tools():
    up = Upstream()
    names = sorted(each.name for each in asyncio.run(up.catalog.list_tools("a")).tools)
    described, _, left = asyncio.run(up.catalog.describe_tools(["a"]))
    assert (sorted(each.name for each in described), left) == (names, 0)
    described, _, left = asyncio.run(up.catalog.describe_tools(["a", "a.read_file"], limit=1))
    assert (len(described), left) == (1, len(names))


def test_the_name_of_a_server_may_hold_slashes():
    known = tools("a/b", "c")

    async def ask(_):
        return known

    catalog = Catalog(["a/b"], ask, version=lambda _: 0)
    found, *_ = asyncio.run(catalog.describe_tools(["a/b/c", "a/b.c", "a.b/c"]))
    assert [type(each) for each in found] == [Described, Described, UnmatchedName]


def test_only_servers_that_are_meant_are_asked_for_what_they_have():
    up = Upstream()

    async def main():
        await up.catalog.search_tools("file", server="b")
        asked = [dict(up.asked)]
        for name in ("a.read_file", "a/nothing", "nothing"):
            found, listing, _ = await up.catalog.describe_tools([name])
            asked.append((dict(up.asked), type(found[0]), dict(listing.failures)))
        return asked

    assert asyncio.run(main()) == [
        {"b": 1},
        ({"a": 1, "b": 1}, Described, {}),
        ({"a": 1, "b": 1}, UnmatchedName, {}),
        ({"a": 1, "b": 1, "c": 1}, UnmatchedName, {"c": "it is broken"}),
    ]


def test_a_server_that_takes_its_time_costs_its_own_tools_until_it_has_answered():
    up, go = Upstream(), asyncio.Event()

    async def ask(server):
        if server == "b":
            await go.wait()
        return await up.ask(server)

    async def main():
        catalog = Catalog(["a", "b"], ask)
        early = await catalog.list_tools(patience_s=0.01)
        assert await catalog.list_tools(patience_s=0.01) == early  # counted from when it was asked
        hits, _ = await catalog.search_tools("file", patience_s=0.01)
        described, *_ = await catalog.describe_tools(["a.read_file"], patience_s=0)
        go.set()
        return early, {hit.tool.name for hit in hits}, described, await catalog.list_tools()

    early, hits, (described,), late = asyncio.run(main())
    assert early == ToolListing(up.tools["a"], {"b": "it has not answered within 0.01 s; ask again later"})
    assert (hits, type(described)) == ({"a.read_file", "a.write_file"}, Described)
    assert late == ToolListing(up.tools["a"] + up.tools["b"], {})
    assert up.asked == {"a": 1, "b": 1}


def test_a_flood_of_tools_is_bounded():
    up = Upstream()
    up.tools["a"] = tools("a", "t", "t", "x" * 201, *(f"t{n}" for n in range(20_500)))
    listing = asyncio.run(up.catalog.list_tools("a"))
    assert len(listing.tools) == 19_998
    assert listing.failures == {
        "a": "505 tools are left out: beyond 20000, listed twice, or with a name of over 200 characters"
    }


def test_all_tools_of_a_large_server_are_searched():
    up = Upstream()
    up.tools["a"] = tools("a", *(f"t{n}" for n in range(3_999)), "needle")
    hits, listing = asyncio.run(up.catalog.search_tools("needle"))
    assert ([hit.tool.name for hit in hits], len(listing.tools), dict(listing.notes)) == (
        ["a.needle"],
        4_001,
        {},
    )


def test_what_is_searched_in_part_or_was_wrong_with_a_listing_is_said():
    many = {"type": "object", "properties": {f"p{n}": {} for n in range(101)}}
    wordy = {"type": "object", "properties": {"p": {"description": "x" * 4_000}}}
    known = (
        CatalogTool("a", ToolInfo("long", "x" * 4_001, {"type": "object"}, None, {})),
        CatalogTool("a", ToolInfo("many", "", many, None, {})),
        CatalogTool("a", ToolInfo("wordy", "", wordy, None, {})),
        CatalogTool("a", ToolInfo("short", "x" * 4_000, {"type": "object"}, None, {})),
    )

    async def ask(_):
        return known

    listing = asyncio.run(Catalog(["a"], ask, notes=lambda _: ("its listing was cut",)).list_tools())
    assert dict(listing.notes) == {
        "a": (
            "its listing was cut",
            "of 3 tools only the first 4000 characters of a text or 100 parameters are searched",
        )
    }


def test_a_tool_is_described_by_its_alias_and_with_what_is_not_checked():
    known = (CatalogTool("a", ToolInfo("get-sum", "", {"type": "object"}, None, {}), alias="get_sum"),)

    async def ask(_):
        return known

    catalog = Catalog(["a"], ask, unchecked=lambda server, tool: f"{server}/{tool} is not checked")
    found, *_ = asyncio.run(catalog.describe_tools(["a.get_sum", "a.get-sum", "a.get.sum"]))
    assert [(each.name, getattr(each, "notes", None)) for each in found] == [
        ("a.get-sum", ("a/get-sum is not checked",)),
        ("a.get-sum", ("a/get-sum is not checked",)),
        ("a.get.sum", None),
    ]
    assert found[0].declaration == (
        'get_sum(args?: Record<string, unknown>): Promise<unknown>; // output: unknown; tool "get-sum"'
    )


def test_pins_that_cannot_be_read_are_a_failure_that_is_told():
    async def ask(server):
        raise ConfigurationError("pins.json: cannot be read; remove it to start afresh")

    listing = asyncio.run(Catalog(["a"], ask).list_tools())
    assert listing == ToolListing((), {"a": "pins.json: cannot be read; remove it to start afresh"})
