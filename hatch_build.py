"""Fetch the JavaScript libraries of the guest and of the web page when a package is built: git has none of them.

Each `package-lock.json` pins versions and integrity hashes; npm checks them, runs no scripts, and leaves nothing
behind. A source distribution already carries the result and builds without npm.
"""

import base64
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NPM = (
    "ci",
    "--ignore-scripts",
    "--omit-lockfile-registry-resolved",
    "--no-audit",
    "--no-fund",
    "--loglevel=error",
)

# Where swc's module for node is cut: its imports from node, and the WebAssembly bytes with their start.
SWC_NODE_IMPORT = "const { TextDecoder, TextEncoder } = require(`util`);\n"
SWC_START = re.compile(
    r"const \{ Buffer \} = require\('node:buffer'\);\n"
    r"const bytes = Buffer\.from\('(?P<wasm>[A-Za-z0-9+/=]+)', 'base64'\);\n\s*"
    r"const wasmModule = new WebAssembly\.Module\(bytes\);\n"
)
SWC_HEAD = """// @swc/wasm-typescript as a plain script; the WebAssembly bytes are in swc.wasm.
globalThis.instantiateSwc = function (wasmModule, TextEncoder, TextDecoder) {
const module = { exports: {} };
"""
SWC_TAIL = "return module.exports;\n};\n"

REQUIRED = re.compile(r"""\brequire\((["'])([^"']+)\1\)""")
"""How a CommonJS module names another."""
PACKED = {
    "url": ("whatwg-url", "tr46", "webidl-conversions", "punycode"),
    "hashes": ("@noble/hashes",),
}
"""Libraries that programs load when they use them, each with the packages that it is made of."""
ENTRIES = {
    "url": 'module.exports = require("whatwg-url/index.js");',
    "hashes": 'module.exports = { ...require("@noble/hashes/sha2.js"), ...require("@noble/hashes/legacy.js") };',
}
STAND_INS = {
    "tr46": """// The URL Standard's own short cut: an ASCII name without "xn--" is its lower case.
const whole = () => require("tr46/index.js");
const isPlain = (name) => /^[\\0-\\x7f]*$/.test(name) && !/(?:^|\\.)xn--/i.test(name);
exports.toASCII = (name, options) =>
  isPlain(name) && !options.useSTD3ASCIIRules ? name.toLowerCase() : whole().toASCII(name, options);
exports.toUnicode = (name, options) => whole().toUnicode(name, options);
""",
}
"""Modules that are packed in the place of others, by the name that asks for them: the tables of `tr46` are large."""
PACK_HEAD = """// %s, packed by hatch_build.py: a function of the globals of the modules that returns exports.
(function ({ TextEncoder, TextDecoder }) {
class SharedArrayBuffer { get byteLength() { throw new TypeError(); } get growable() { throw new TypeError(); } }
const modules = { __proto__: null,
"""
PACK_TAIL = """};
const loaded = { __proto__: null };
function load(id) {
  if (loaded[id] === undefined) {
    const module = (loaded[id] = { exports: {} });
    modules[id][0](module, module.exports, (name) => load(modules[id][1][name]));
  }
  return loaded[id].exports;
}
return load("");
})
"""
PAGE_FILES = {
    "htmx.js": "htmx.org/dist/htmx.min.js",
    "htmx.LICENSE": "htmx.org/LICENSE",
    "htmx-sse.js": "htmx-ext-sse/dist/sse.min.js",
    "htmx-sse.LICENSE": "htmx-ext-sse/LICENSE",
    "uplot.js": "uplot/dist/uPlot.iife.min.js",
    "uplot.css": "uplot/dist/uPlot.min.css",
    "uplot.LICENSE": "uplot/LICENSE",
}
"""The files of the web page, and the file of a package that each is."""


class CustomBuildHook(BuildHookInterface):
    """Write each directory of `VENDORED` when it is missing or older than its lock file."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the vendored files current before hatchling collects files. Raises RuntimeError except on Linux."""
        if sys.platform != "linux" and self.target_name == "wheel":
            raise RuntimeError(
                f"Paddock runs on Linux, and this is {sys.platform}. On Windows, install it in WSL 2. On macOS, and on "
                "Windows without WSL, run it in a container: docs/docker.md."
            )
        for vendor, (manifests, read_files) in VENDORED.items():
            target, source = Path(self.root) / vendor, Path(self.root) / manifests
            lock = (source / "package-lock.json").read_bytes()
            if not is_current(target, lock):
                with tempfile.TemporaryDirectory() as temporary:
                    write_vendor(read_files(install(source, Path(temporary))), target, lock)


def sha256(data: bytes) -> str:
    """Return the SHA-256 of `data` in hex."""
    return hashlib.sha256(data).hexdigest()


def is_current(vendor: Path, lock: bytes) -> bool:
    """Tell whether every vendored file is what this lock file and this hook make."""
    try:
        note = json.loads((vendor / "VENDOR.json").read_bytes())
        return note["made_from"] == made_from(lock) and all(
            sha256((vendor / name).read_bytes()) == digest for name, digest in note["files"].items()
        )
    except (OSError, ValueError, KeyError):
        return False


def made_from(lock: bytes) -> dict[str, str]:
    """Return the hashes of the two inputs of the vendored files: the lock file and this hook."""
    return {"package-lock.json": sha256(lock), "hatch_build.py": sha256(Path(__file__).read_bytes())}


def install(manifests: Path, directory: Path) -> Path:
    """Install the locked packages below `directory` with npm and return their `node_modules`."""
    npm = shutil.which("npm")
    if npm is None:
        msg = "npm is needed to build Paddock from a git checkout: install Node.js 20 or use a release."
        raise RuntimeError(msg)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(manifests / name, directory)
    subprocess.run([npm, *NPM], cwd=directory, check=True)  # noqa: S603
    return directory / "node_modules"


def read_guest_files(modules: Path) -> dict[str, bytes]:
    """Return the libraries of the guest as plain scripts, and their licences."""
    swc, wasm = split_swc((modules / "@swc/wasm-typescript/wasm.js").read_text("utf-8"))
    files = {
        "acorn.js": (modules / "acorn/dist/acorn.js").read_bytes(),
        "acorn.LICENSE": (modules / "acorn/LICENSE").read_bytes(),
        "swc.js": swc.encode(),
        "swc.wasm": wasm,
        "swc.LICENSE": (modules / "@swc/wasm-typescript/LICENSE").read_bytes(),
    }
    for name, packed in PACKED.items():
        files[f"{name}.js"] = pack(modules, name).encode("ascii")
        files[f"{name}.LICENSE"] = "\n".join(licence(modules, package) for package in packed).encode()
    return files


def read_page_files(modules: Path) -> dict[str, bytes]:
    """Return the libraries of the web page as they are published, and their licences."""
    return {name: (modules / path).read_bytes() for name, path in PAGE_FILES.items()}


VENDORED: dict[str, tuple[str, Callable[[Path], dict[str, bytes]]]] = {
    "src/paddock/engines/javascript/js/vendor": ("src/paddock/engines/javascript/js", read_guest_files),
    "src/paddock/surfaces/web/static/vendor": ("src/paddock/surfaces/web", read_page_files),
}
"""Directories of vendored files: where each has its `package.json` with its lock file, and what reads its files."""


def write_vendor(files: dict[str, bytes], vendor: Path, lock: bytes) -> None:
    """Write the files, and VENDOR.json, into `vendor`."""
    packages = {
        name.removeprefix("node_modules/"): {"version": package["version"], "license": package.get("license")}
        for name, package in json.loads(lock)["packages"].items()
        if name
    }
    note = {
        "made_from": made_from(lock),
        "packages": packages,
        "files": {name: sha256(data) for name, data in files.items()},
    }
    shutil.rmtree(vendor, ignore_errors=True)
    vendor.mkdir(parents=True)
    for name, data in {**files, "VENDOR.json": (json.dumps(note, indent=2) + "\n").encode()}.items():
        (vendor / name).write_bytes(data)


def pack(modules: Path, name: str) -> str:
    """Return the CommonJS modules that an entry needs as one expression of ASCII, each in a function of its own."""
    texts: dict[str, str] = {}
    pending = {"": ENTRIES[name]}
    while pending:
        ident, source = pending.popitem()
        asked = [match[2] for match in REQUIRED.finditer(source)]
        names = {each: each if each in STAND_INS else resolve(modules, ident, each) for each in asked}
        if ident.endswith(".json"):
            source, names = f"module.exports = JSON.parse({json.dumps(json.dumps(json.loads(source)))});", {}
        texts[ident] = (
            f"{json.dumps(ident)}: [function (module, exports, require) {{\n{source}\n}}, {json.dumps(names)}],\n"
        )
        for other in {*names.values()} - {*texts, *pending}:
            pending[other] = STAND_INS.get(other) or (modules / other).read_text("utf-8")
    whole = PACK_HEAD % ", ".join(PACKED[name]) + "".join(texts.values()) + PACK_TAIL
    whole += f"//# sourceURL=paddock:{name}\n"
    return re.sub(r"[^\x00-\x7f]", lambda found: json.dumps(found[0])[1:-1], whole)


def resolve(modules: Path, ident: str, name: str) -> str:
    """Return the file that a module means by a name, relative to `node_modules`."""
    base = (modules / ident).parent if name.startswith(".") else modules
    place = base / name
    if (package := place / "package.json").is_file():
        place /= json.loads(package.read_bytes()).get("main", "index.js")
    place = place if place.is_file() else place.with_name(f"{place.name}.js")
    return str(place.resolve().relative_to(modules.resolve()))


def licence(modules: Path, package: str) -> str:
    """Return the licence of a package, with the package's name above it."""
    (path,) = (modules / package).glob("LICEN[CS]E*")
    return f"{package}\n\n{path.read_text('utf-8')}"


def split_swc(source: str) -> tuple[str, bytes]:
    """Return swc's glue as a plain script that takes a compiled module, and the WebAssembly bytes."""
    start = SWC_START.search(source)
    if start is None or source.count(SWC_NODE_IMPORT) != 1:
        msg = "@swc/wasm-typescript has another shape than this hook knows: compare wasm.js with split_swc()."
        raise RuntimeError(msg)
    glue = source[: start.start()].replace(SWC_NODE_IMPORT, "") + source[start.end() :]
    return SWC_HEAD + glue + SWC_TAIL, base64.b64decode(start["wasm"])
