"""Find the toolchain of a recipe on this machine: its program, the paths that a program must read, the environment.

PATH is searched in order, for one variant of the recipe after another. Programs in `untrusted` directories, to which
programs may write, are not used, because Paddock itself runs stand-ins of version managers. Nor are programs that the
user of programs cannot reach. A request can choose only by name: with a path it could choose what a program may read.
"""

import glob
import hashlib
import os
import re
import subprocess
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PureWindowsPath
from typing import Self

from paddock.confinement.sandbox.child import permissions
from paddock.confinement.sandbox.child.paths import list_links
from paddock.engines.programs import directories
from paddock.foundation.files import SYSTEM_FOLDERS, is_ours
from paddock.policy.settings.recipes import PLACEHOLDER_PATTERN, Recipe, RecipeVariant

_DEFAULT_PATH = ("/usr/local/bin", "/usr/bin", "/bin")
_STAND_INS = frozenset({"rustup", "volta-shim", "mise", "asdf"})
_SCRIPT_MAGIC = b"#!"
INSTALLED = ("node_modules/.bin", "node_modules/*/bin", "python/*/bin")
"""Where npm and pip put programs, below their target directory."""
_SHIM_TIMEOUT_S = 20
_NARROWER = "choose a workspace that does not contain the system itself (--workspace)"


@dataclass(frozen=True, slots=True)
class MissingToolchain:
    """The reason why a recipe cannot run on this machine."""

    recipe: Recipe
    reason: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A recipe's variant on this machine."""

    recipe: Recipe
    variant: RecipeVariant
    executable: Path
    placeholders: Mapping[str, str]
    """Values of the variant's placeholders, except those of a program (`paddock.engines.programs.steps`)."""
    prefixes: tuple[Path, ...]
    """Paths that a program must be able to read, in addition to those of every program."""
    environment: Mapping[str, str]
    """Variables of every program; values may have placeholders of the program."""
    identity: str
    """Hex SHA-256 over facts that change with the toolchain, found without starting it."""
    links: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """Links to make in scratch, by name: packages that the language searches beside the program."""
    still: tuple[Path, ...] = ()
    """Its directories in the workspace, which a program must not change."""

    @property
    def is_cold(self) -> bool:
        """Whether its compiler lacks the warm start that `paddock runtimes warm` makes."""
        return self.variant.warm is not None and "warm" not in self.placeholders


class UnusableError(Exception):
    """A variant cannot be used; the text has the reason."""


@dataclass(frozen=True, slots=True)
class ToolchainSearch:
    """The directories of a search and the user of programs."""

    path: str
    """Directories, as in PATH; relative ones are ignored."""
    user: int | None = None
    """User that programs become; None for this process's user."""
    untrusted: tuple[Path, ...] = ()
    """Directories that programs may write to."""
    warm: Path | None = None
    """Directory of `paddock runtimes warm`."""
    answers: MutableMapping[tuple[object, ...], str] = field(
        default_factory=dict[tuple[object, ...], str], compare=False
    )
    """Cached output of version managers' stand-ins, each of which takes a tenth of a second. If it is kept longer than
    a search, a later change of the chosen version is not noticed."""
    looked: list[str] = field(default_factory=list[str], compare=False)
    """Paths of programs that the search has tried so far, whether they exist or not."""

    @classmethod
    def of_machine(
        cls,
        environ: Mapping[str, str],
        user: int | None,
        *,
        untrusted: tuple[Path, ...] = (),
        answers: MutableMapping[tuple[object, ...], str] | None = None,
    ) -> Self:
        """Return a search of PATH and then of the directories of `paddock runtimes install`."""
        given = environ.get("PATH") or os.pathsep.join(_DEFAULT_PATH)
        patterns = [
            str(folder / pattern)
            for folder in directories.list_search_directories(user)
            for pattern in INSTALLED
        ]
        folders = [match for pattern in patterns for match in sorted(glob.glob(pattern))]
        path = os.pathsep.join([given, *folders])
        return cls(path, user, untrusted, directories.warm(user), {} if answers is None else answers)

    def program(self, names: Iterable[str]) -> Path:
        """Return the first program of these names. Raises UnusableError if this user can use none."""
        reasons: list[str] = []
        wanted = list(names)
        folders = [Path(part) for part in self.path.split(os.pathsep) if part.startswith("/")]
        for found in (folder / name for name in wanted for folder in folders):
            self.looked.append(str(found))
            if not os.access(found, os.X_OK) or not found.is_file():
                continue
            if self.distrusts(found) or self.distrusts(found.parent):
                reasons.append(f"{found} is not used, because programs may have put it there")
            elif not reachable(found, self.user):
                reasons.append(f"{found} cannot be reached by the user that programs run as")
            else:
                return found
        raise UnusableError("; ".join(reasons) or f"{' or '.join(wanted)} is not on PATH")

    def distrusts(self, path: Path) -> bool:
        """Return whether programs may have made the file at `path`."""
        real = path.resolve()
        return any(real.is_relative_to(folder.resolve()) for folder in self.untrusted)


def normalise_name(executable: str) -> str:
    """Return the name of an executable without quotes and directories, in lower case."""
    return PureWindowsPath(executable.strip().strip("\"'")).name.lower()


def find(recipe: Recipe, search: ToolchainSearch, *, executable: str = "") -> Toolchain | MissingToolchain:
    """Return the best variant of a recipe on this machine, or why there is none.

    `executable` chooses among the variants by name. The user of programs must be able to reach the program.
    """
    wanted = normalise_name(executable)
    reasons: list[str] = []
    for variant in recipe.variants:
        names = [name for name in variant.executables if not wanted or name.lower() == wanted]
        if not names:
            continue
        try:
            return use(recipe, variant, search.program(names), search)
        except UnusableError as error:
            reasons.append(str(error))
    if not reasons:
        known = ", ".join(recipe.candidates)
        reasons.append(f"Paddock runs {recipe.title} with {known}, not with {wanted}")
    if any(Path(SYSTEM_FOLDERS[0]).is_relative_to(folder.resolve()) for folder in search.untrusted):
        return MissingToolchain(recipe, "; ".join(dict.fromkeys(reasons)), _NARROWER)
    return MissingToolchain(recipe, "; ".join(dict.fromkeys(reasons)), remedy(recipe))


def remedy(recipe: Recipe) -> str:
    """Return how to install this toolchain."""
    command = f"paddock runtimes install {recipe.name}" if recipe.install else ""
    usual = f"put {' or '.join(recipe.candidates)} on PATH"
    return " or ".join(text for text in (command, recipe.elsewhere) if text) or usual


def reachable(path: Path, user: int | None) -> bool:
    """Return whether a user without groups and capabilities may execute the file, or enter the directory, at `path`.

    None means this process's user, also if it is root: programs keep its number but lose its capabilities.
    """
    number, groups = identity_of(user)
    try:
        real = path.resolve(strict=True)
        chains = {*path.absolute().parents, *real.parents, real}
        return all(permissions.may_pass(folder.stat(), number, groups) for folder in chains)
    except OSError:
        return False


def identity_of(user: int | None) -> tuple[int, set[int]]:
    """Return number and groups of the user of programs; None means this process's user."""
    return (os.geteuid(), {os.getegid(), *os.getgroups()}) if user is None else (user, {user})


def use(recipe: Recipe, variant: RecipeVariant, found: Path, search: ToolchainSearch) -> Toolchain:
    """Return the toolchain of a program that was found. Raises UnusableError if it cannot be used."""
    executable = _resolve_shim(variant, found, search)
    placeholders = _list_placeholders("", executable)
    programs = [found, executable]
    for name, names in variant.tools.items():
        try:
            tool = search.program(names)
        except UnusableError as error:
            raise UnusableError(f"{executable.name} exists, but {error}") from None
        programs.append(tool)
        placeholders |= _list_placeholders(name, tool)
    for name, patterns in variant.requires.items():
        places = [fill_placeholders(pattern, placeholders) for pattern in patterns]  # absolute patterns
        matches = [match for place in places for match in glob.glob(place)]
        if not matches:
            raise UnusableError(f"{executable} exists, but {' or '.join(places)} does not")
        placeholders[name] = max(
            matches, key=lambda match: [int(digits) for digits in re.findall(r"\d+", match)]
        )
    identity = _hash_identity(recipe, variant, [Path(value) for value in placeholders.values()])
    warm = search.warm / recipe.name / identity if variant.warm and search.warm else None
    if warm is not None and is_ours(warm) and reachable(warm, search.user):
        placeholders["warm"] = str(warm)
    folders = dict.fromkeys(str(Path(program).parent) for program in (placeholders["executable"], *programs))
    path = [folder for folder in folders if folder not in _DEFAULT_PATH]
    environment = {"PATH": os.pathsep.join((*path, *_DEFAULT_PATH))} if path else {}
    environment |= {
        name: word
        for name, word in variant.environment.items()
        if "{warm}" not in word or "warm" in placeholders
    }
    return Toolchain(
        recipe=recipe,
        variant=variant,
        executable=executable,
        placeholders=placeholders,
        prefixes=_list_grants(variant, placeholders, search),
        environment=environment,
        identity=identity,
    )


def _list_placeholders(name: str, program: Path) -> dict[str, str]:
    """Return the placeholders of a program: itself, its directory, the parent of that, and its installation."""
    real = program.resolve()
    prefix = f"{name}." if name else ""
    # The interpreter's name makes a virtual environment, so that the name is kept. Links to its directory are resolved:
    # programs are granted that directory and see no link outside of it.
    inside = program.parent.resolve() / program.name
    named = inside if (inside.parent.parent / "pyvenv.cfg").exists() else real
    return {
        name or "executable": str(named),
        f"{prefix}bin": str(named.parent),
        f"{prefix}prefix": str(named.parent.parent),
        f"{prefix}home": str(real.parent.parent),
    }


def _resolve_shim(variant: RecipeVariant, found: Path, search: ToolchainSearch) -> Path:
    """Return the program behind a stand-in: stand-ins need their user's home, which programs do not have."""
    if variant.shim is None or not _is_stand_in(found):
        return found
    words = tuple(fill_placeholders(word, {"executable": str(found)}) for word in variant.shim.argv)
    question = (*words, found.stat().st_mtime_ns)
    printed = search.answers.get(question)
    if printed is None or not Path(fill_placeholders(variant.shim.path, {"printed": printed})).is_file():
        try:
            done = subprocess.run(  # noqa: S603 - the user's PATH is trusted
                words,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=True,
                timeout=_SHIM_TIMEOUT_S,
                cwd="/",
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise UnusableError(
                f"{found} is a stand-in for another program and does not print which ({error})"
            ) from None
        printed = search.answers[question] = done.stdout.strip()
    real = Path(fill_placeholders(variant.shim.path, {"printed": printed}))
    if not real.is_file() or search.distrusts(real):
        raise UnusableError(f"{found} is a stand-in for {real}, which cannot be used")
    if not reachable(real, search.user):
        raise UnusableError(f"{real} cannot be reached by the user that programs run as")
    return real


def _is_stand_in(found: Path) -> bool:
    """Return whether a program is a version manager's script, or the manager itself under another name."""
    if found.resolve().name in _STAND_INS:
        return True
    rustup = found.parent / "rustup"  # stand-ins of rustup may be hard links
    if rustup.exists() and rustup.samefile(found):
        return True
    with found.open("rb") as file:
        return file.read(len(_SCRIPT_MAGIC)) == _SCRIPT_MAGIC


def _list_grants(
    variant: RecipeVariant, placeholders: Mapping[str, str], search: ToolchainSearch
) -> tuple[Path, ...]:
    """Return the paths to grant, except those that every program can read. Raises UnusableError if too broad."""
    found: dict[Path, None] = {}
    words = [word for word in variant.prefixes if "{warm}" not in word or "warm" in placeholders]
    warm = [placeholders["warm"]] if "warm" in placeholders else []
    for pattern in [*(fill_placeholders(word, placeholders) for word in words), *warm]:
        for match in sorted(glob.glob(pattern)):
            real = Path(match).resolve()
            if any(real.is_relative_to(system) for system in SYSTEM_FOLDERS):
                continue
            if Path.home().is_relative_to(real) or Path("/").samefile(real.parent):
                raise UnusableError(f"{placeholders['executable']} would let programs read all of {real}")
            found[real] = None
    program = Path(placeholders["executable"])
    on_the_way = [program, *map(Path, list_links(str(program)))]
    if not all(
        any(path.is_relative_to(folder) for folder in (*SYSTEM_FOLDERS, *found)) for path in on_the_way
    ):
        # The program, or a link that it leads through, is outside of the granted directories.
        found[program] = None
    unreachable = [str(path) for path in found if not reachable_to_read(path, search.user)]
    if unreachable:
        raise UnusableError(f"{unreachable[0]} cannot be reached by the user that programs run as")
    return tuple(found)


def reachable_to_read(path: Path, user: int | None) -> bool:
    """Return whether a user can enter the directory of `path`."""
    return reachable(path if path.is_dir() else path.parent, user)


def _hash_identity(recipe: Recipe, variant: RecipeVariant, files: Sequence[Path]) -> str:
    digest = hashlib.sha256(variant.model_dump_json().encode() + recipe.style.encode())
    for path in files:
        facts = path.stat()
        part = (str(path.resolve()), facts.st_size, facts.st_mtime_ns) if path.is_file() else (str(path),)
        digest.update(repr(part).encode())
    return digest.hexdigest()


def fill_placeholders(word: str, placeholders: Mapping[str, str]) -> str:
    """Return a word with its known placeholders replaced, once: replaced text is not searched again."""
    return PLACEHOLDER_PATTERN.sub(lambda match: placeholders.get(match[1], match[0]), word)
