"""Programs as people write them, in both styles where there are two."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.engines.programs.styles import PreparedProgram, prepare_program

STYLES = ("plain", "csharp", "php", "java", "kotlin")


@given(st.sampled_from(STYLES), st.text(alphabet=st.sampled_from("ab{}()\"'/*\n \\<?;$classvoidmain")))
def test_whatever_is_written_keeps_its_lines_and_a_plain_file_name(style, code):
    found = prepare_program(style, code, ".x")
    assert found.source.endswith(code)
    assert found.source.count("\n") == code.count("\n")
    assert "/" not in found.file_name
    assert found.file_name.rpartition(".")[2] in {"x", "kt"}


@pytest.mark.parametrize("style", STYLES)
def test_a_byte_order_mark_is_no_part_of_a_program(style):
    assert prepare_program(style, "\ufeff<?php f();", ".x") == prepare_program(style, "<?php f();", ".x")


@pytest.mark.parametrize(
    ("code", "source"),
    [
        ("echo 1;", "<?php echo 1;"),
        ("<?php echo 1;", "<?php echo 1;"),
        ("#!/usr/bin/env php\n<?php echo 1;", "#!/usr/bin/env php\n<?php echo 1;"),
        ("<p><?= 1 ?></p>", "<p><?= 1 ?></p>"),
        ("declare(strict_types=1);\necho 1;", "<?php declare(strict_types=1);\necho 1;"),
        ("$s = '<?php echo 1;'; # <?=\n// <?php", "<?php $s = '<?php echo 1;'; # <?=\n// <?php"),
        ("Dear <?= $name ?>,", "Dear <?= $name ?>,"),
        ('<a href="<?= 1 ?>">', '<a href="<?= 1 ?>">'),
        ("#!/usr/bin/php\necho 1;", "<?php #!/usr/bin/php\necho 1;"),
        ("<?PHP echo 1;", "<?PHP echo 1;"),
        ("\n<p>Nothing to run;\n", "\n<p>Nothing to run;\n"),
    ],
)
def test_php_is_opened_where_it_is_not(code, source):
    assert prepare_program("php", code, ".php") == PreparedProgram("code.php", source)


MAIN = "public static void main(String[] a) {}"


@pytest.mark.parametrize(
    ("code", "file_name", "main"),
    [
        (f"public class Hello {{ {MAIN} }}", "Hello.java", "Hello"),
        (f"class Helper {{ void f() {{}} }}\nclass App {{ {MAIN} }}", "App.java", "App"),
        (f"public class Model {{}}\nclass App {{ {MAIN} }}", "Model.java", "App"),
        (f"package a.b;\npublic final class App {{ {MAIN} }}", "App.java", "a.b.App"),
        (f"class Outer {{ static class Inner {{ {MAIN} }} }}\nclass App {{ {MAIN} }}", "App.java", "App"),
        (
            f"record P(int x) {{}}\nenum E {{ A }}\ninterface I {{}}\nclass App {{ {MAIN} }}",
            "App.java",
            "App",
        ),
        (
            f"// class Not {{\nclass App {{ String s = \"class No {{\"; char c = '{{'; {MAIN} }}",
            "App.java",
            "App",
        ),
        (
            f'/* class Not {{ */ class App {{ String s = """\n class "No" {{\n"""; {MAIN} }}',
            "App.java",
            "App",
        ),
        (f"class App {{ Class<?> k = String.class; {MAIN} }}\nclass Tail {{}}", "App.java", "App"),
        (f"class A {{ static void main(int x) {{}} }}\nclass B {{ {MAIN} }}", "B.java", "B"),
        ("class A {}\nclass B { void main() {} }", "B.java", "B"),
        ("void main() { System.out.println(1); }", "Main.java", "Main"),
        ("public class Empty {}", "Empty.java", "Empty"),
        (f"public class Ñandú {{ {MAIN} }}", "Ñandú.java", "Ñandú"),
        (f"class 世界 {{ {MAIN} }}", "世界.java", "世界"),
    ],
)
def test_java_runs_the_class_that_owns_main(code, file_name, main):
    assert prepare_program("java", code, ".java") == PreparedProgram(file_name, code, main)


STATIC = "@JvmStatic fun main(args: Array<String>) {}"


@pytest.mark.parametrize(
    ("code", "file_name", "main"),
    [
        ('println("x")', "code.kts", "Launch"),
        ("fun main() { }", "code.kt", "CodeKt"),
        ("import a.b\n\nsuspend fun main(args: Array<String>) {}", "code.kt", "CodeKt"),
        ("package a.b\nfun main() {}", "code.kt", "a.b.CodeKt"),
        ('@file:JvmName("App")\npackage a\nfun main() {}', "code.kt", "a.App"),
        ("data class P(val x: Int); fun main() { println(P(1)) }", "code.kt", "CodeKt"),
        ("    package a.b\n    fun main() {\n        f(1)\n    }", "code.kt", "a.b.CodeKt"),
        ("@OptIn(A::class) fun main() {}", "code.kt", "CodeKt"),
        ("    fun main() {}\n    main()", "code.kts", "Launch"),
        ("fun main() {}; main()", "code.kts", "Launch"),
        ("fun main() { if (x) { main() } }", "code.kt", "CodeKt"),
        ('val s = "${f("{")}"\nfun main() {}', "code.kt", "CodeKt"),
        ("fun String.main() {}\nval f = fun() {}\nf()", "code.kts", "Launch"),
        (f"object Über {{ {STATIC} }}", "code.kt", "Über"),
        ("fun main() {}\nmain()", "code.kts", "Launch"),
        ("class A { fun main() {} }\nA().main()", "code.kts", "Launch"),
        ("fun mainly() {}\nmainly()", "code.kts", "Launch"),
        (f"object App {{ {STATIC} }}", "code.kt", "App"),
        (
            f"package a.b\nclass App(val x: Int) {{\n  companion object {{\n    {STATIC}\n  }}\n}}",
            "code.kt",
            "a.b.App",
        ),
        (f"class A {{ object B {{ {STATIC} }} }}\nprintln(1)", "code.kts", "Launch"),
        (f"object App {{ {STATIC} }}\nApp.main(args)", "code.kts", "Launch"),
        (f"// object App {{ {STATIC} }}\nprintln(1)", "code.kts", "Launch"),
        ("/*\nfun main() {}\n*/\nprintln(1)", "code.kts", "Launch"),
        ('val s = """\nfun main() {}\n"""\nprintln(s)', "code.kts", "Launch"),
        ('val s = """\nmain()\n"""\nfun main() {}', "code.kt", "CodeKt"),
        ('/* package c */package a.b\nval s = """\\"""\nfun main() { """x""" }', "code.kt", "a.b.CodeKt"),
    ],
)
def test_kotlin_tells_scripts_from_programs(code, file_name, main):
    assert prepare_program("kotlin", code, ".kts") == PreparedProgram(file_name, code, main)


def test_java_has_no_line_for_an_interpreter():
    code = f"#!/usr/bin/java --source 17\nclass App {{ {MAIN} }}"
    assert prepare_program("java", code, ".java") == PreparedProgram("App.java", f"//{code}", "App")


def test_c_sharp_has_no_line_for_an_interpreter():
    assert (
        prepare_program("csharp", "#!/usr/bin/env dotnet\nreturn 1;", ".cs").source
        == "//#!/usr/bin/env dotnet\nreturn 1;"
    )
    assert prepare_program("csharp", "return 1;", ".cs").source == "return 1;"


PIECES = (
    *('\\"', '\\"""', "\\'", "'", '"""a', "/*", "//", "\n", "{", "<?", ";", "; ", "#", "$", "void main"),
    *(
        "public ",
        "public\n",
        "package\n",
        "suspend\n",
        "void\n",
        "class ",
        "@JvmStatic\n",
        "@JvmStatic public ",
    ),
)


@pytest.mark.parametrize("style", ["java", "kotlin", "php"])
@pytest.mark.parametrize("piece", PIECES)
def test_hostile_programs_cost_linear_time(style, piece):
    """Quadratic would be minutes; the bound is generous for slow machines."""
    started = time.process_time()
    prepare_program(style, '$x;"' + piece * (2**18 // len(piece)), ".x")
    prepare_program(style, piece * (2**18 // len(piece)), ".x")
    assert time.process_time() - started < 20


def test_a_type_of_java_whose_name_no_file_can_have_gets_another_file() -> None:
    long, longest = "é" * 121, "A" * 240
    assert prepare_program("java", f"public class {long} {{}}", ".java").file_name == "Main.java"
    assert prepare_program("java", f"public class {longest} {{}}", ".java").file_name == f"{longest}.java"
