"""The cache of compiled programs under several processes that keep, take and make room at once."""

import subprocess
import sys
from pathlib import Path

from paddock.engines.programs.cache import Cache

SIZE = 50_000
MOST = 4 * SIZE

WRITER = f"""
import os, random, sys
from pathlib import Path
from paddock.engines.programs.cache import Cache
folder, cache = Path(sys.argv[2]), Cache(Path(sys.argv[1]), {MOST})
folder.mkdir()
print("ready", flush=True)
sys.stdin.readline()
taken, choice = 0, random.Random(int(sys.argv[3]))
for turn in range(120):
    number = choice.randrange(6)
    target = folder / str(turn)
    if cache.take(f"k{{number}}", target, owner=os.getuid()):
        assert target.read_bytes() == bytes([number]) * {SIZE}, (number, target.stat().st_size)
        taken += 1
    else:
        assert not target.exists()
        target.write_bytes(bytes([number]) * {SIZE})
        cache.keep(f"k{{number}}", target)
    target.unlink()
print(taken)
"""


def test_writers_at_once_give_whole_programs_within_the_bound(tmp_path: Path) -> None:
    directory = tmp_path / "cache"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, directory, tmp_path / f"writer{number}", str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    ends = [writer.communicate("go\n", timeout=100) for writer in writers]
    assert [(writer.returncode, said[1]) for writer, said in zip(writers, ends, strict=True)] == [(0, "")] * 4
    assert sum(int(said[0]) for said in ends) > 0
    last = tmp_path / "last"
    last.write_bytes(b"x" * SIZE)
    Cache(directory, MOST).keep("last", last)  # who comes last counts all that is there
    kept = sorted(directory.iterdir())
    assert directory / "last" in kept
    assert all(path.name.startswith(("k", "last")) for path in kept)
    assert [sum(file.stat().st_size for file in path.iterdir()) for path in kept] == [SIZE] * len(kept)
    assert len(kept) * SIZE <= MOST
