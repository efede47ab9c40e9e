"""Write the pictures of docs/web.md: every page of `paddock ui` in light, dark, and on a phone.

`python scripts/web_pictures.py [PAGE...]` starts a real server with programs, MCP servers, a session and a question,
and opens it in Debian's chromium. Times and ids differ from run to run, so that nothing compares the pictures.
"""

import io
import os
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.sync_api import Page

import install_servers
import install_toolchains

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from benchmarks.run_records import write_runs  # noqa: E402 - it is not installed
from tests.support.browser import NARROW, WIDE, BrowserPages, open_browser  # noqa: E402
from tests.support.web import WebPlace  # noqa: E402
from tests.support.web_scene import Scene, list_servers, open_scene  # noqa: E402

TARGET = ROOT / "docs" / "web"
MAX_BYTES = 80_000
MAX_HEIGHT = {"light": 1000, "dark": 1000, "phone": 900}
"""Height of a picture at most, in pixels. A longer page is cut."""
SHAPES = {
    "light": {"color_scheme": "light", "viewport": WIDE},
    "dark": {"color_scheme": "dark", "viewport": WIDE},
    "phone": {"color_scheme": "light", "viewport": NARROW, "device_scale_factor": 2},
}
COLOURS = 256
EARLIER_RUNS = 600
"""Runs of the month before, which exist in the record only."""


REPLACE_TEXTS = """(replacements) => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode;
    for (const [text, other] of replacements) node.textContent = node.textContent.replaceAll(text, other);
    if (node.textContent.trim() === "root") node.textContent = "ada";
  }
}"""
"""Replaces names of this machine."""


def main() -> int:
    """Write the pictures, or those of the named pages."""
    os.environ["PATH"] = install_toolchains.install()
    TARGET.mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="paddock-") as directory:
        place = WebPlace(Path(directory))
        state = place.home / ".local/state/paddock"
        state.mkdir(parents=True, mode=0o700)
        write_runs(state / "audit", EARLIER_RUNS)
        servers = list_servers(place, install_servers.install())
        with open_scene(place, servers) as scene, open_browser() as browser:
            paths = list_pages(scene)
            with BrowserPages(browser, scene.server) as pages:
                opened = {shape: pages.open(**options) for shape, options in SHAPES.items()}
                verify_record(opened["light"])
                connect_server(opened["light"])
                for name in sys.argv[1:] or paths:
                    for shape, page in opened.items():
                        page.goto(paths[name])
                        page.evaluate(REPLACE_TEXTS, list_replacements(place))
                        write_picture(page, name, shape)
    return 0


def list_pages(scene: Scene) -> dict[str, str]:
    """Return the paths of the pages by the names of their pictures."""
    return {
        "now": "/",
        "approvals": "/approvals",
        "runs": "/runs",
        "run": f"/runs/{scene.runs['report']}",
        "failed": f"/runs/{scene.runs['failed']}",
        "sessions": "/sessions",
        "session": find_link(scene, "/sessions", "/sessions/"),
        "changes": "/changes",
        "change-set": find_link(scene, f"/runs/{scene.runs['changes']}", "/changes/"),
        "servers": "/servers",
        "server": "/servers/files",
        "policy": "/policy",
        "record": "/record",
        "doctor": "/doctor?run=1",
    }


def verify_record(page: Page) -> None:
    """Verify the record, so that its page has a result to show."""
    page.goto("/record")
    page.get_by_role("button", name="Verify now").click()
    page.get_by_text("intact").first.wait_for()


def connect_server(page: Page) -> None:
    """Have the page start a server, so that it has a state to show."""
    page.goto("/servers/files")
    page.get_by_role("button", name="Connect").click()
    page.get_by_role("button", name="Connect").wait_for(state="hidden")


def list_replacements(place: WebPlace) -> list[tuple[str, str]]:
    """Return paths of this machine, and those that a picture has in their place."""
    return [
        (str(place.workspace), "/home/ada/sales"),
        (str(place.home), "/home/ada"),
        (sys.prefix, "/opt/paddock"),
        (place.environment["XDG_CACHE_HOME"], "/home/ada/.cache"),
        (str(Path.home()), "/home/ada"),
    ]


def find_link(scene: Scene, path: str, start: str) -> str:
    """Return the first link of a page with this beginning."""
    with scene.server.client(scene.server.log_in()) as client:
        return re.findall(f'href="({re.escape(start)}[^"?#]+)"', client.get(path).text)[0]


def write_picture(page: Page, name: str, shape: str) -> None:
    """Write the picture of what a page shows, in few colours: text stays sharp, and the file small."""
    width = SHAPES[shape]["viewport"]["width"]
    height = min(MAX_HEIGHT[shape], page.evaluate("document.documentElement.scrollHeight"))
    clip = {"x": 0, "y": 0, "width": width, "height": height}
    drawn = Image.open(io.BytesIO(page.screenshot(full_page=True, clip=clip, animations="disabled")))
    target = TARGET / f"{name}-{shape}.webp"
    drawn.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).convert("RGB").save(
        target, lossless=True, method=6
    )
    size = target.stat().st_size
    print(f"{target.relative_to(ROOT)}: {drawn.width} x {drawn.height}, {size:,} bytes")
    if size > MAX_BYTES:
        raise SystemExit(f"{target} is larger than {MAX_BYTES} bytes: lower MAX_HEIGHT or COLOURS")


if __name__ == "__main__":
    sys.exit(main())
