"""Find the files of a workspace that programs must not read: `.env`, private keys and others that hold secrets.

    .env, *.p12          files and links of that name, at any depth; `*` and `?` match within a name
    .ssh/                a folder of that name, with all in it
    .aws/credentials     a path may end with several names
    /deploy/prod.yaml    only that path below the searched folder

Upper and lower case are the same, because some file systems do not distinguish them. What a link of such a name leads
to, and other names of the same file (hard links), are hidden, too; so is `aws/credentials` if `.aws` is a link to
`aws`. `shown` rules win: a shown folder is not entered.

The search happens at each start, because people and programs make files at any time. A supervisor remembers the names
in a folder until the folder changes. Looking is bounded, and a workspace beyond the bound is refused: a program could
otherwise hide a name behind many others.
"""

import _thread  # `threading` would run its handlers in each process that is forked
import contextlib
import errno
import functools
import os
import re
import stat
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from paddock.confinement.sandbox.child.paths import list_above, open_itself
from paddock.confinement.sandbox.child.snapshot import TooLargeError

MAX_NAMES = 1_000_000
"""Maximum number of names to look at, which takes about a second; a folder counts as `_FOLDER_NAMES`."""
MAX_HIDDEN = 4096
"""Maximum number of hidden files and folders."""
CONTENT_BYTES = 1024 * 1024
"""Maximum number of bytes of a file in which a private key or a token is looked for."""

_FOLDER_NAMES = 8
_SETTLED_NS = 1_000_000_000
"""Age from which a time of change is trusted: the clock of file systems advances in steps of up to ten milliseconds."""
_MAX_REPORTED = 50
_MAX_SEARCHED = 4
"""Maximum number of folders whose names a supervisor remembers, the most recently searched ones."""
_WILDCARDS = frozenset("*?")
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_PEM_KEY = re.compile(rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY")
_DER_KEY = re.compile(
    rb"\x30(?:[\x00-\x7f]|\x81.|\x82..|\x83...)"  # a sequence (X.690), whose first element is
    rb"(?:\x02\x01[\x00\x01]"  # a version: PKCS #1, PKCS #8 and SEC 1
    rb"|\x30(?:[\x00-\x7f]|\x81.|\x82..)\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x05)",  # or a cipher: encrypted PKCS #8
    re.DOTALL,
)
_TOKEN = re.compile(rb"(?im)^[^#;\n]*(?:_authtoken|_password|_auth)\s*=\s*[^\s$]")
"""A value that is not a variable, such as `${NPM_TOKEN}`."""


def holds_private_key(content: bytes) -> bool:
    """Return whether a file holds a private key, as text or binary, and not only certificates."""
    return bool(_PEM_KEY.search(content) or _DER_KEY.match(content))


def holds_token(content: bytes) -> bool:
    """Return whether npm's settings hold a token or a password."""
    return bool(_TOKEN.search(content))


CONDITIONAL: Mapping[str, Callable[[bytes], bool]] = {
    "*.pem": holds_private_key,
    "*.key": holds_private_key,
    ".npmrc": holds_token,
}
"""Rules that hide a file only if its content is a secret."""


class HidingRules(NamedTuple):
    """What is hidden in the granted folders, except for what is shown."""

    hidden: Sequence[str] = ()
    shown: Sequence[str] = ()


NOTHING = HidingRules()


class HiddenPath(NamedTuple):
    """A file or folder to hide, by its real path and its identity."""

    path: str
    device: int
    inode: int
    is_folder: bool


class _HidingRule(NamedTuple):
    """A rule, in lower case."""

    parts: tuple[str, ...]
    is_anchored: bool
    is_folder: bool
    shows: bool
    check: Callable[[bytes], bool] | None

    @classmethod
    def read(cls, rule: str, *, shows: bool) -> "_HidingRule":
        parts = tuple(rule.lower().strip("/").split("/"))
        check = None if shows else CONDITIONAL.get(rule)
        return cls(parts, rule.startswith("/"), rule.endswith("/"), shows, check)

    def matches(self, top: Sequence[str], path: Sequence[str]) -> bool:
        """Return whether the rule names a path below a folder, both as names in lower case."""
        names = path if self.is_anchored else (*top, *path)[-len(self.parts) :]
        return len(names) == len(self.parts) and all(map(_fits, self.parts, names))


def _fits(part: str, name: str) -> bool:
    return part == name or (not _WILDCARDS.isdisjoint(part) and bool(_compile_part(part).fullmatch(name)))


@functools.lru_cache(maxsize=512)
def _compile_part(part: str) -> re.Pattern[str]:
    wildcards = {"*": ".*", "?": "."}
    return re.compile("".join(wildcards.get(each) or re.escape(each) for each in part), re.DOTALL)


class _RuleIndex(NamedTuple):
    """Rules by their last names, most of which have no wildcard, so that most files are sorted out fast."""

    plain: Mapping[str, Sequence[_HidingRule]]
    starts: tuple[str, ...]
    ends: tuple[str, ...]
    others: re.Pattern[str] | None
    with_wildcards: Sequence[_HidingRule]
    deep: Sequence[_HidingRule]
    """Rules with several names, the first of which may name a link to a folder."""

    def find(self, name: str) -> list[_HidingRule]:
        """Return the rules whose last name is this one, in lower case, in the order in which they decide."""
        found = [
            *self.plain.get(name, ()),
            *(rule for rule in self.with_wildcards if _fits(rule.parts[-1], name)),
        ]
        return sorted(found, key=lambda rule: (not rule.shows, rule.check is not None))


@functools.lru_cache(maxsize=8)
def _index_rules(hidden: tuple[str, ...], shown: tuple[str, ...]) -> _RuleIndex:
    rules = [_HidingRule.read(rule, shows=True) for rule in shown] + [
        _HidingRule.read(rule, shows=False) for rule in hidden
    ]
    plain: dict[str, list[_HidingRule]] = {}
    with_wildcards: list[_HidingRule] = []
    starts, ends, others = set[str](), set[str](), set[str]()
    for rule in rules:
        last = rule.parts[-1]
        if _WILDCARDS.isdisjoint(last):
            plain.setdefault(last, []).append(rule)
            continue
        with_wildcards.append(rule)
        if last.endswith("*") and _WILDCARDS.isdisjoint(last[:-1]):
            starts.add(last[:-1])
        elif last.startswith("*") and _WILDCARDS.isdisjoint(last[1:]):
            ends.add(last[1:])
        else:
            others.add(_compile_part(last).pattern)
    form = re.compile("|".join(others), re.DOTALL) if others else None
    deep = [rule for rule in rules if len(rule.parts) > 1 and not rule.shows]
    return _RuleIndex(plain, tuple(starts), tuple(ends), form, with_wildcards, deep)


class _DirectoryListing(NamedTuple):
    """What the search needs to know of a folder that has not changed."""

    stamp: tuple[int, ...]
    names: int
    folders: tuple[str, ...]
    """Folders in it that are searched, too."""
    candidates: tuple[tuple[str, bool], ...]
    """Names, other than shown ones, whose last name a rule has; whether each is a folder."""
    links: tuple[str, ...]
    """Links whose name a rule has before its last one."""


class _HiddenSearch:
    """The search of one folder with the same rules. It remembers the names in folders that have not changed."""

    def __init__(self, top: str, rules: HidingRules) -> None:
        self._top = top
        self._parts = top.lower().strip("/").split("/")
        self._rules = _index_rules(tuple(rules.hidden), tuple(rules.shown))
        self._known: dict[str, _DirectoryListing] = {}
        self._names = 0
        """Names that this search has looked at."""

    def find(self) -> list[HiddenPath]:
        """Return what is to hide now. Raises TooLargeError; OSError if the folder cannot be read."""
        os.close(open_itself(self._top))  # no link may stand in its place
        known: dict[str, _DirectoryListing] = {}
        found: dict[str, HiddenPath] = {}
        now, self._names = time.time_ns(), 0
        pending = [""]
        while pending:
            folder = pending.pop()
            listing = self._try_to_list(folder, now, found)
            if listing is None:
                continue
            known[folder] = listing
            self._count(listing.names + _FOLDER_NAMES * (1 + len(listing.links)))
            pending += listing.folders
            for name, is_folder in listing.candidates:
                self._add(_join(folder, name), found, is_folder=is_folder)
            for name in listing.links:
                self._add_through_link(_join(folder, name).split("/"), found)
            if len(found) > MAX_HIDDEN:
                raise TooLargeError(f"there are more than {MAX_HIDDEN:,} of them")
        self._known = known
        self._add_other_names(found)
        return list(found.values())

    def _count(self, names: int) -> None:
        self._names += names
        if self._names > MAX_NAMES:
            raise TooLargeError(f"the folder holds more than {MAX_NAMES:,} names")

    def _try_to_list(self, folder: str, now: int, found: dict[str, HiddenPath]) -> _DirectoryListing | None:
        """Return the listing of a folder; None if it is closed or no longer there. Raises TooLargeError; OSError."""
        try:
            return self._list(folder, now)
        except PermissionError:
            if not folder:
                raise
            self._add_closed(folder, found)
        except OSError as error:  # another process has just removed or replaced it
            if not folder:
                raise
            if error.errno == errno.ENAMETOOLONG:
                raise _explain_depth(folder) from error
            if error.errno not in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
                raise
        return None

    def _list(self, folder: str, now: int) -> _DirectoryListing:
        """Return the listing of a folder, read anew unless it is as before. Raises OSError."""
        path = f"{self._top}/{folder}" if folder else self._top
        known = self._known.get(folder)
        if known is not None and known.stamp == _stamp_of(os.lstat(path), now):
            return known
        opened = os.open(path, _FOLDER_FLAGS)
        try:
            stamp = _stamp_of(os.fstat(opened), now)  # before the names, so that a later change is seen
            with os.scandir(opened) as entries:
                found = [
                    (entry.name, entry.is_dir(follow_symlinks=False), entry.is_symlink()) for entry in entries
                ]
            links = [name for name, _, is_link in found if is_link and self._may_lead_to_hidden(name)]
            return self._sort(folder, stamp, [entry[:2] for entry in found], links)
        finally:
            os.close(opened)

    def _sort(
        self, folder: str, stamp: tuple[int, ...], entries: Sequence[tuple[str, bool]], links: Sequence[str]
    ) -> _DirectoryListing:
        plain, starts, ends, others, *_ = self._rules
        candidates = [
            entry
            for entry in entries
            if (name := entry[0].lower()) in plain
            or name.endswith(ends)
            or name.startswith(starts)
            or (others is not None and others.fullmatch(name))
        ]
        rules = {entry: self._find_rule(_join(folder, entry[0]), is_folder=entry[1]) for entry in candidates}
        return _DirectoryListing(
            stamp,
            len(entries),
            tuple(
                _join(folder, name)
                for name, is_folder in entries
                if is_folder and not rules.get((name, True))
            ),
            tuple(entry for entry, rule in rules.items() if rule is None or not rule.shows),
            tuple(links),
        )

    def _may_lead_to_hidden(self, name: str) -> bool:
        name = name.lower()
        return any(_fits(part, name) for rule in self._rules.deep for part in rule.parts[:-1])

    def _find_rule(self, path: str, *, is_folder: bool) -> _HidingRule | None:
        """Return the rule that decides on a path; None without one."""
        parts = path.lower().split("/")
        for rule in self._rules.find(parts[-1]):
            if rule.is_folder is is_folder and rule.matches(self._parts, parts):
                return rule
        return None

    def _add(self, path: str, found: dict[str, HiddenPath], *, is_folder: bool) -> None:
        """Add a path whose last name a rule has, if the whole path matches; and what it leads to if it is a link."""
        whole = f"{self._top}/{path}"
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            facts = os.lstat(whole)
            if stat.S_ISLNK(facts.st_mode):
                self._add_target(path, found)
            elif stat.S_ISDIR(facts.st_mode) == is_folder and self.is_hidden(
                path, whole, is_folder=is_folder
            ):
                found[whole] = HiddenPath(whole, facts.st_dev, facts.st_ino, is_folder)

    def _add_target(self, path: str, found: dict[str, HiddenPath]) -> None:
        """Add what a path with a link in it leads to, if that is in the searched folder and a rule has the path."""
        with contextlib.suppress(OSError):  # a program cannot open it, either
            target = os.path.realpath(f"{self._top}/{path}")
            facts = os.lstat(target)
            is_folder = stat.S_ISDIR(facts.st_mode)
            leads_to_itself = stat.S_ISLNK(facts.st_mode)
            if leads_to_itself or not target.startswith(f"{self._top}/"):
                return
            if self.is_hidden(path, target, is_folder=is_folder):
                found[target] = HiddenPath(target, facts.st_dev, facts.st_ino, is_folder)

    def _add_through_link(self, link: Sequence[str], found: dict[str, HiddenPath]) -> None:
        """Add what rules with several names hide below a link to a folder, such as `.aws/credentials`."""
        lower = [name.lower() for name in link]
        for rule in self._rules.deep:
            for count in range(1, len(rule.parts)):
                if rule.is_anchored and count != len(link):
                    continue
                names = (*self._parts, *lower)[-count:]
                if all(map(_fits, rule.parts, names)):
                    self._add_rest(link, rule.parts[count:], found)

    def _add_rest(self, path: Sequence[str], rest: Sequence[str], found: dict[str, HiddenPath]) -> None:
        """Add what the last parts of a rule name below a path that leads through a link."""
        if not rest:
            self._add_target("/".join(path), found)
            return
        names = [rest[0]]
        if not _WILDCARDS.isdisjoint(rest[0]):
            with contextlib.suppress(OSError):
                names = os.listdir("/".join((self._top, *path)))
            self._count(len(names))
        for name in names:
            if _fits(rest[0], name.lower()):
                self._add_rest((*path, name), rest[1:], found)

    def is_hidden(self, path: str, content: str, *, is_folder: bool) -> bool:
        """Return whether a path is hidden; for a rule about contents, the file `content` decides."""
        rule = self._find_rule(path, is_folder=is_folder)
        return rule is not None and not rule.shows and (rule.check is None or _holds(content, rule.check))

    def is_shown(self, path: str, *, is_folder: bool) -> bool:
        """Return whether a rule shows a path."""
        rule = self._find_rule(path, is_folder=is_folder)
        return rule is not None and rule.shows

    def _add_closed(self, folder: str, found: dict[str, HiddenPath]) -> None:
        """Add a folder that a program could open as its owner, or whose files it could open by their names."""
        path = f"{self._top}/{folder}"
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            facts = os.lstat(path)
            if stat.S_ISDIR(facts.st_mode) and (facts.st_uid == os.geteuid() or os.access(path, os.X_OK)):
                found[path] = HiddenPath(path, facts.st_dev, facts.st_ino, is_folder=True)

    def _add_other_names(self, found: dict[str, HiddenPath]) -> None:
        """Add the other names of hidden files (hard links), also those in shown folders. Raises TooLargeError."""
        missing: dict[tuple[int, int], int] = {}  # by identity, how many more names a file has
        for path, device, inode, is_folder in found.values():
            with contextlib.suppress(OSError):
                if not is_folder and (names := os.lstat(path).st_nlink) > 1:
                    missing[device, inode] = missing.get((device, inode), names) - 1
        inodes = {inode for _, inode in missing}
        pending = [*self._known]
        for folder in pending:  # grows during the loop: shown folders come after all others
            if not any(count > 0 for count in missing.values()):
                return
            entries = self._read_entries(folder, found)
            if folder not in self._known:
                self._count(len(entries) + _FOLDER_NAMES)
            for entry in entries:
                inner = _join(folder, entry.name)
                path = f"{self._top}/{inner}"
                if path in found or inner in self._known:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    pending.append(inner)
                elif entry.inode() in inodes and entry.is_file(follow_symlinks=False):
                    with contextlib.suppress(OSError):
                        facts = entry.stat(follow_symlinks=False)
                        identity = facts.st_dev, facts.st_ino
                        if identity in missing:
                            found[path] = HiddenPath(path, *identity, is_folder=False)
                            missing[identity] -= 1

    def _read_entries(self, folder: str, found: dict[str, HiddenPath]) -> list[os.DirEntry[str]]:
        """Return what a folder contains; nothing if it is closed or no longer there. Raises TooLargeError."""
        try:
            with os.scandir(f"{self._top}/{folder}") as entries:
                return list(entries)
        except PermissionError:
            self._add_closed(folder, found)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                raise _explain_depth(folder) from error
        return []


def is_hidden(path: str, top: str, rules: HidingRules) -> bool:
    """Return whether the rules hide an existing file below a real folder, by the names of its real path."""
    search, parts = _HiddenSearch(top, rules), path[len(top) + 1 :].split("/")
    for folder in ("/".join(parts[:end]) for end in range(1, len(parts))):
        if search.is_shown(folder, is_folder=True):
            return False
        if search.is_hidden(folder, "", is_folder=True):
            return True
    return search.is_hidden("/".join(parts), path, is_folder=False)


_LOCK = _thread.allocate_lock()
"""Searches keep what they found, and the threads of one process share them."""
_SEARCHES: OrderedDict[tuple[str, HidingRules], _HiddenSearch] = OrderedDict()


def find_hidden(folders: Iterable[str], rules: HidingRules, granted: Iterable[str] = ()) -> list[HiddenPath]:
    """Return what is to hide in some real folders now, sorted. Paths that are `granted` themselves are not hidden.

    Raises TooLargeError, and OSError if a folder cannot be read.
    """
    found: dict[str, HiddenPath] = {}
    with _LOCK:
        for top in dict.fromkeys(folders) if rules.hidden else ():
            key = top, rules
            search = _SEARCHES[key] = _SEARCHES.pop(key, None) or _HiddenSearch(top, rules)
            while len(_SEARCHES) > _MAX_SEARCHED:
                _SEARCHES.popitem(last=False)
            try:
                found |= {each.path: each for each in search.find()}
            except TooLargeError as error:
                raise TooLargeError(
                    f"the files that workspace.hide names cannot be found in {top}: {error.args[0]}; work in a smaller "
                    "folder, or name folders that need not be searched in workspace.show of the user's settings"
                ) from error
    for path in granted:
        found.pop(path, None)
    return sorted(each for each in found.values() if found.keys().isdisjoint(list_above(each.path)))


def find_rule(top: str, path: str, rules: HidingRules) -> str:
    """Return the rule that hides a path below a folder by its name, whether or not it exists; "" without one.

    A rule that also looks at the content, such as `*.pem`, counts.
    """
    above, names = top.lower().strip("/").split("/"), path.lower().split("/")
    for end in range(1, len(names) + 1):
        for texts, shows in ((rules.shown, True), (rules.hidden, False)):
            for text in texts:
                rule = _HidingRule.read(text, shows=shows)
                if (rule.is_folder or end == len(names)) and rule.matches(above, names[:end]):
                    return "" if shows else text
    return ""


def _explain_depth(folder: str) -> TooLargeError:
    return TooLargeError(f"folders are nested too deep in {folder.partition('/')[0]}")


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _stamp_of(facts: os.stat_result, now: int) -> tuple[int, ...]:
    """Return what changes with the names in a folder; empty, which equals no other, if it changed just now."""
    changed = max(facts.st_mtime_ns, facts.st_ctime_ns)
    if changed + _SETTLED_NS > now:
        return (now,)
    return facts.st_dev, facts.st_ino, facts.st_mtime_ns, facts.st_ctime_ns


def _holds(path: str, check: Callable[[bytes], bool]) -> bool:
    """Return whether a file holds what `check` looks for; also if that cannot be found out."""
    try:
        file = os.open(path, _FILE_FLAGS)
    except OSError:
        return True
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return False
        content = os.read(file, CONTENT_BYTES)
    except OSError:
        return True
    finally:
        os.close(file)
    return check(content) or (len(content) == CONTENT_BYTES and content.startswith(b"-----BEGIN"))


def spell_names(hidden: Iterable[Sequence[object]]) -> list[str]:
    """Return the names of some hidden paths, for a report: at most `_MAX_REPORTED`, each once."""
    names = dict.fromkeys(os.path.basename(str(each[0])) for each in hidden)
    return [name for name in names if name.isprintable()][:_MAX_REPORTED]
