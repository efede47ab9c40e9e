"""From a program to its commands."""

import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from paddock.engines.programs.recipe import recipes
from paddock.engines.programs.steps import NoProgramError, StepPaths, steps
from paddock.engines.programs.toolchain import ToolchainSearch, find

PROGRAMS = "node bun python3 bash pwsh ruby php perl Rscript elixir erl go java javac kotlinc dotnet mcs mono rustc cc gcc g++"
FILES = (
    "lib/kotlin-compiler.jar",
    "bin/sdk/9.0.1/Roslyn/bincore/csc.dll",
    "bin/sdk/10.0.100/Roslyn/bincore/csc.dll",
    "bin/sdk/10.0.100/dotnet.runtimeconfig.json",
    "bin/packs/Microsoft.NETCore.App.Ref/10.0.0/ref/net10.0/System.dll",
)
HEAP = "-Xmx768m -Xshare:auto"
HOME = "-Duser.home=/s/home"
AT_THE_END = "-XX:+ExitOnOutOfMemoryError -XX:+DisplayVMOutputToStderr"
COMPILER = "-Xmx768m -Xlog:disable -Xshare:auto"
JVM = "-XX:+UseSerialGC -XX:-UsePerfData -XX:ErrorFile=/dev/null -Djava.io.tmpdir=/s/tmp"
KOTLIN = "-Xallow-any-scripts-in-source-roots -no-reflect -nowarn -d /s/program /s/code.kts"
KOTLIN_JARS = ":".join(
    f"@/lib/kotlin-{jar}.jar"
    for jar in (
        "compiler",
        "scripting-compiler",
        "scripting-compiler-impl",
        "scripting-common",
        "scripting-jvm",
    )
)
SDK = "@/bin/sdk/10.0.100"
S28 = {
    "node": ("code.js", "", "@/bin/node --max-old-space-size=768 /s/code.js"),
    "typescript": ("code.ts", "", "@/bin/bun run /s/code.ts"),
    "python": ("program.py", "", "@/bin/python3 /s/program.py"),
    "shell": ("code.sh", "", "@/bin/bash --noprofile --norc /s/code.sh"),
    "powershell": ("code.ps1", "", "@/bin/pwsh -NoLogo -NoProfile -NonInteractive -File /s/code.ps1"),
    "ruby": ("code.rb", "", "@/bin/ruby /s/code.rb"),
    "php": (
        "code.php",
        "",
        "@/bin/php -d memory_limit=768M -d display_errors=stderr -d log_errors=0 -d html_errors=0 /s/code.php",
    ),
    "perl": ("code.pl", "", "@/bin/perl /s/code.pl"),
    "r": ("code.R", "", "@/bin/Rscript --no-environ --no-site-file --no-save --no-restore /s/code.R"),
    "elixir": ("code.exs", "", "@/bin/elixir /s/code.exs"),
    "go": (
        "code.go",
        "@/bin/go build -buildmode=exe -trimpath -ldflags=-s -w -o /s/program /s/code.go",
        "/s/program",
    ),
    "java": (
        "Main.java",
        f"@/bin/java {COMPILER} -XX:TieredStopAtLevel=1 {JVM} -cp /none com.sun.tools.javac.Main"
        " -proc:none -implicit:none -XDstringConcat=inline -encoding UTF-8 -d /s/program /s/Main.java",
        f"@/bin/java {HEAP} {JVM} -Duser.home=/s/home {AT_THE_END} -ea -cp /s/program Main",
    ),
    "kotlin": (
        "code.kts",
        f"@/bin/java -Xmx768m -Xms768m -XX:NewRatio=1 -Xlog:disable -Xshare:auto -XX:TieredStopAtLevel=1 {JVM}"
        f" -cp {KOTLIN_JARS} org.jetbrains.kotlin.cli.jvm.K2JVMCompiler -kotlin-home @ {KOTLIN} /s/launch.kt",
        f"@/bin/java {HEAP} {JVM} -Duser.home=/s/home {AT_THE_END}"
        " --class-path=/s/program:@/lib/kotlin-stdlib.jar:@/lib/kotlin-script-runtime.jar Launch",
    ),
    "csharp": (
        "code.cs",
        f"@/bin/dotnet exec {SDK}/Roslyn/bincore/csc.dll -nologo -noconfig -nostdlib -warn:0 -debug:embedded -pathmap:/s=. -define:DEBUG"
        " -out:/s/program.dll -r:@/bin/packs/Microsoft.NETCore.App.Ref/10.0.0/ref/net10.0/System.dll"
        " /s/code.cs /s/usings.cs",
        f"@/bin/dotnet exec --runtimeconfig {SDK}/dotnet.runtimeconfig.json /s/program.dll",
    ),
    "rust": (
        "code.rs",
        "@/bin/rustc --edition=2021 --crate-name=code -Cdebuginfo=0 -Cstrip=symbols -Clinker=@/bin/cc -o /s/program /s/code.rs",
        "/s/program",
    ),
    "c": (
        "code.c",
        "@/bin/gcc -pipe -include /s/paddock.h -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc -o /s/program /s/code.c -lm",
        "/s/program",
    ),
    "cpp": (
        "code.cpp",
        "@/bin/g++ -std=c++20 -pipe -include /s/paddock.h -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc -o /s/program /s/code.cpp",
        "/s/program",
    ),
}
"""File, compile command and run command of each runtime, `@` for where the toolchain is."""


@pytest.fixture(scope="module")
def machine():
    """A machine that has every toolchain, in one place."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        root.chmod(0o755)
        for name in (*(f"bin/{name}" for name in PROGRAMS.split()), *FILES):
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)
            path.chmod(0o755)
        yield root


def toolchain(machine, name, executable=""):
    return find(recipes()[name], ToolchainSearch(f"{machine}/bin"), executable=executable)


def in_scratch(plan):
    scratch = Path("/s")
    return StepPaths(f"{scratch}/{plan.file_name}", f"{scratch}/{plan.output_name}", str(scratch), 1 << 30)


def shown(step, plan, machine):
    return " ".join(step.fill_in(in_scratch(plan))[0]).replace(str(machine), "@") if step else ""


@pytest.mark.parametrize("name", recipes())
def test_s28_extension_and_commands_of_each_runtime(machine, name):
    plan = steps(toolchain(machine, name), "1", ["a", "b c"])
    compile_, run = shown(plan.compile, plan, machine), shown(plan.run, plan, machine)
    assert (plan.file_name, compile_, run) == (*S28[name][:2], f"{S28[name][2]} a b c")
    assert plan.run.arguments == ("a", "b c")


def test_s28_names_every_runtime():
    assert set(S28) == set(recipes())


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("node", "@/bin/node --max-old-space-size=768 -e 1"),
        ("python", "@/bin/python3 -e 1"),
        ("go", "@/bin/go run -e 1"),
        (
            "java",
            f"@/bin/java -Xmx768m -XX:-UsePerfData -XX:ErrorFile=/dev/null -Djava.io.tmpdir=/s/tmp {HOME} -e 1",
        ),
        ("rust", "@/bin/rustc -e 1"),
        ("r", "@/bin/Rscript --vanilla -e 1"),
    ],
)
def test_s18_arguments_alone_go_to_the_toolchain(machine, name, command):
    plan = steps(toolchain(machine, name), None, ["-e", "1"])
    assert (plan.compile, plan.source, plan.file_name) == (None, "", "")
    assert shown(plan.run, plan, machine) == command


def test_go_runs_its_own_commands_and_modules_where_there_is_no_program(machine):
    go = toolchain(machine, "go")
    own, package = steps(go, None, ["test", "./..."]), steps(go, None, ["./test"])
    assert shown(own.run, own, machine) == "@/bin/go test ./..."
    assert shown(package.run, package, machine) == "@/bin/go run ./test"
    assert shown(steps(go, None).run, own, machine) == "@/bin/go run"
    off = steps(go, "package main")
    variables = [each.fill_in(in_scratch(off))[1] for each in (own.run, off.run)]
    assert [(each["GO111MODULE"], each.get("GODEBUG")) for each in variables] == [
        ("auto", "goindex=0"),
        ("off", None),
    ]


@pytest.mark.parametrize("name", ["shell", "kotlin", "powershell"])
def test_s53_where_a_program_is_needed_arguments_are_not_enough(machine, name):
    with pytest.raises(NoProgramError, match="needs the code parameter"):
        steps(toolchain(machine, name), None, ["x"])


def test_what_the_caller_gives_is_never_looked_at_for_places(machine):
    plan = steps(toolchain(machine, "python"), "{scratch}", ["{executable}", "{source}", "*", "-r:*"])
    assert plan.source == "{scratch}"
    assert plan.run.fill_in(in_scratch(plan))[0][2:] == ["{executable}", "{source}", "*", "-r:*"]


def test_memory_goes_to_the_heap_in_part_and_never_to_nothing(machine):
    plan = steps(toolchain(machine, "csharp"), "1")
    small = StepPaths("/s/code.cs", "/s/program.dll", "/s", 1)
    assert plan.run.fill_in(small)[1]["COMPlus_GCHeapHardLimit"] == "1000000"
    assert plan.run.fill_in(in_scratch(plan))[1]["COMPlus_GCHeapHardLimit"] == "30000000"


def test_another_executable_has_its_own_commands(machine):
    classic = toolchain(machine, "csharp", "mcs")
    plan = steps(classic, "1")
    assert shown(plan.compile, plan, machine) == (
        "@/bin/mcs -nologo -warn:0 -define:DEBUG -out:/s/program /s/code.cs"
    )
    assert shown(plan.run, plan, machine) == "@/bin/mono /s/program"
    assert plan.files == {}


@contextmanager
def warmed(machine, name):
    """Yield a toolchain that is warm, the same one cold, and where its warm start is."""
    cold = toolchain(machine, name)
    with tempfile.TemporaryDirectory() as folder:
        warm = Path(folder, name, cold.identity)
        warm.mkdir(parents=True)
        Path(folder).chmod(0o755)
        yield find(recipes()[name], ToolchainSearch(f"{machine}/bin", warm=Path(folder))), cold, warm


def test_what_is_warm_is_used_and_granted_and_what_is_not_leaves_no_word(machine):
    with warmed(machine, "go") as (found, cold, warm):
        assert "GOCACHE" not in cold.environment
        plan = steps(found, "1")
        assert plan.compile.fill_in(in_scratch(plan))[1]["GOCACHE"] == str(warm)
        assert found.prefixes == (machine, warm.resolve())
        assert found.identity == cold.identity


def test_what_stands_in_for_a_warm_start_leaves_no_word_when_there_is_one(machine):
    """A script of Kotlin is begun by a class that is compiled with it, unless one is there."""
    with warmed(machine, "kotlin") as (found, _, warm):
        plan = steps(found, "1")
        compile_, run = shown(plan.compile, plan, machine), shown(plan.run, plan, machine)
    assert compile_ == (
        "@/bin/java -Xmx768m -Xms768m -XX:NewRatio=1 -Xlog:disable -Xshare:auto"
        f" -XX:SharedArchiveFile={warm}/kotlinc.jsa -XX:TieredStopAtLevel=1 {JVM} -cp {KOTLIN_JARS}"
        f" org.jetbrains.kotlin.cli.jvm.K2JVMCompiler -kotlin-home @ {KOTLIN}"
    )
    assert run == (
        f"@/bin/java {HEAP} {JVM} -Duser.home=/s/home {AT_THE_END}"
        " --class-path=/s/program:@/lib/kotlin-stdlib.jar:@/lib/kotlin-script-runtime.jar"
        f" --class-path=/s/program:{warm}/launch:@/lib/kotlin-stdlib.jar:@/lib/kotlin-script-runtime.jar Launch"
    )
