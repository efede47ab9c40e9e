"""Programs that do not want to end, and what must become of each. They run as `python3 -I -S -c SOURCE`."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Program:
    source: str
    ends: tuple[tuple[str, str | None], ...]
    """Status and ceiling that are right."""
    limits: dict[str, int] = field(default_factory=dict)
    workspace: bool = False
    """Whether it gets a writable workspace, for which root stays root."""

    @property
    def timeout_ms(self) -> int:
        """Its wall time. What must end before that has plenty, however busy the machine is."""
        return 250 if ("timeout", "wall") in self.ends else 60_000


WALL = (("timeout", "wall"),)
OK = (("ok", None),)
FORK = "import os, signal, sys, time\n"
TERM_PROOF = "for n in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(n, signal.SIG_IGN)\n"

PROGRAMS = {
    "child": Program(FORK + "os.fork()\ntime.sleep(60)", WALL),
    "session": Program(FORK + "if os.fork() == 0: os.setsid()\ntime.sleep(60)", WALL),
    "daemon_left_behind": Program(
        FORK + "if os.fork() == 0:\n os.setsid()\n if os.fork(): os._exit(0)\n time.sleep(60)\nos.wait()", OK
    ),
    "term_proof": Program(FORK + TERM_PROOF + "os.fork()\nwhile True: time.sleep(60)", WALL),
    "stops_itself": Program(FORK + "os.fork()\nos.kill(os.getpid(), signal.SIGSTOP)", WALL),
    "respawner": Program(
        FORK + "while True:\n if os.fork(): os._exit(0)\n os.setsid()",
        OK,
    ),
    "respawner_with_a_parent": Program(
        FORK + "if os.fork() == 0:\n while True:\n  if os.fork(): os._exit(0)\n  os.setsid()\ntime.sleep(60)",
        WALL,
    ),
    "fork_bomb": Program(
        FORK + "while True:\n try: os.fork()\n except OSError: pass",
        (("process_limit", "processes"),),
    ),
    "fork_bomb_in_a_workspace": Program(
        FORK + "while True:\n try: os.fork()\n except OSError: pass",
        (("process_limit", "processes"),),
        workspace=True,
    ),
    "threads_in_a_workspace": Program(
        "import threading, time\nthreading.stack_size(65536)\n"
        "for _ in range(1000): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\ntime.sleep(600)",
        (("process_limit", "processes"), ("failed", None)),
        workspace=True,
    ),
    "output_flood": Program(
        "import os\nwhile True: os.write(1, b'x' * 65536 + b'\\n')",
        (("output_limit", "stdout"), ("timeout", "wall")),
        {"stdout_bytes": 64 * 1024 * 1024},
    ),
    "never_a_newline": Program(
        "import os\nwhile True: os.write(1, b'x' * 4096)", (*WALL, ("output_limit", "stdout"))
    ),
    "closes_its_output": Program(FORK + "os.close(1)\nos.close(2)\ntime.sleep(60)", WALL),
    "never_reads": Program(FORK + "time.sleep(60)", WALL),
    "grandchild_holds_the_pipe": Program(
        FORK + "if os.fork() == 0:\n if os.fork(): os._exit(0)\n os.setsid()\n time.sleep(60)\nprint('done')",
        OK,
    ),
    "busy": Program(FORK + "os.fork()\nwhile True: pass", (("timeout", "cpu"),), {"cpu_ms": 150}),
    "memory": Program(
        "keep = []\nwhile True: keep.append(bytearray(1 << 20))",
        (("memory_limit", "memory"),),
        {"memory_bytes": 96 << 20},
    ),
    "memory_of_many": Program(
        FORK + "os.fork()\nos.fork()\nkeep = bytearray(40 << 20)\ntime.sleep(60)",
        (("memory_limit", "memory"),),
        {"memory_bytes": 96 << 20},
    ),
    "scratch": Program(
        "import os\nn = 0\nwhile True:\n n += 1\n with open(f'{os.environ[\"TMPDIR\"]}/{n}', 'wb') as f:"
        " f.write(b'x' * (1 << 20))",
        (("output_limit", "scratch"),),
        {"scratch_bytes": 20 << 20},
    ),
    "closed_scratch": Program(
        "import os\nn = 0\nwhile True:\n n += 1\n d = f'{os.environ[\"TMPDIR\"]}/{n}'\n os.mkdir(d)\n"
        " with open(f'{d}/f', 'wb') as f: f.write(b'x' * (1 << 20))\n os.chmod(d, 0)",
        (("output_limit", "scratch"),),
        {"scratch_bytes": 20 << 20},
    ),
    "supervised_flood": Program(
        "import os, threading\nopen('f', 'w').close()\nfor _ in range(3): os.fork()\n"
        "def flood():\n while True: os.chmod('f', 0o600)\n"
        "for _ in range(4): threading.Thread(target=flood).start()",
        WALL,
        workspace=True,
    ),
    "supervised_flood_of_children": Program(
        "import os\nopen('f', 'w').close()\nfor _ in range(3): os.fork()\nwhile True:\n"
        " if not os.fork(): os.chmod('f', 0o600); os._exit(0)\n os.wait()",
        WALL,
        workspace=True,
    ),
    "large_file": Program(
        "import os, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n"
        "with open(f'{os.environ[\"TMPDIR\"]}/f', 'wb') as f:\n while True: f.write(b'x' * (1 << 20))",
        (("output_limit", "file_size"),),
        {"file_bytes": 5 << 20},
    ),
}
