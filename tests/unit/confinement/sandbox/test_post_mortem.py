"""What the end of a job shows of its limits."""

import struct

import pytest

from paddock.confinement.sandbox.child.messages import Ceilings, JobReport, JobSpec
from paddock.confinement.sandbox.child.post_mortem import find_limit, has_full_file

MIB = 1024 * 1024


def make_spec(tmp_path, program="/none"):
    return JobSpec(str(tmp_path), argv=(program,), ceilings=Ceilings(memory_bytes=64 * MIB, file_bytes=1000))


@pytest.mark.parametrize("ended_by", ["exit", "wall", "cpu", "scratch", "stdout"])
def test_a_peak_above_the_limit_counts_whatever_was_noticed_first(tmp_path, ended_by):
    spec = make_spec(tmp_path)
    assert find_limit(spec, JobReport(ended_by=ended_by, code=0, peak_bytes=64 * MIB + 1)) == "memory"
    assert find_limit(spec, JobReport(ended_by=ended_by, code=0, peak_bytes=64 * MIB)) == ""


@pytest.mark.parametrize("ended_by", ["cancelled", "start", "unrestored", "protected"])
def test_an_end_that_is_not_the_programs_stays(tmp_path, ended_by):
    assert find_limit(make_spec(tmp_path), JobReport(ended_by=ended_by, peak_bytes=65 * MIB)) == ""


def test_the_memory_of_the_shim_is_not_that_of_the_program(tmp_path):
    spec = make_spec(tmp_path)._replace(ceilings=Ceilings(memory_bytes=MIB, file_bytes=1000))
    assert find_limit(spec, JobReport(code=0, peak_bytes=12 * MIB)) == ""


def write_program(path, size, head=b"\x7fELF\x02\x01"):
    """Write the head of a 64-bit program with one writable segment."""
    segment = struct.pack("<II32xQ8x", 1, 6, size)
    header = head.ljust(16, b"\0") + struct.pack("<16xQ14xHH", 64, 56, 1)
    path.write_bytes(header.ljust(64, b"\0") + segment)
    return str(path)


def test_a_program_whose_data_do_not_fit_exceeded_its_memory(tmp_path):
    killed = JobReport(signal=11)
    fits = make_spec(tmp_path, write_program(tmp_path / "fits", 128 * MIB))
    large = make_spec(tmp_path, write_program(tmp_path / "large", 128 * MIB + 1))
    assert (find_limit(fits, killed), find_limit(large, killed)) == ("", "memory")
    assert find_limit(large, JobReport(signal=6)) == ""


def test_whatever_a_program_makes_of_its_own_file_is_harmless(tmp_path):
    killed = JobReport(signal=11)
    (tmp_path / "link").symlink_to(write_program(tmp_path / "large", 1 << 40))
    (tmp_path / "cut").write_bytes((tmp_path / "large").read_bytes()[:80])
    (tmp_path / "folder").mkdir()
    for name in ("link", "cut", "folder", "absent"):
        assert find_limit(make_spec(tmp_path, str(tmp_path / name)), killed) == "", name


def test_a_full_file_is_found_in_any_directory_and_through_no_link(tmp_path):
    spec, failed = make_spec(tmp_path), JobReport(code=1)
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c").write_bytes(b"x" * 999)
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.write_bytes(b"x" * 1000)
    (tmp_path / "link").symlink_to(outside)
    assert find_limit(spec, failed) == ""
    assert find_limit(spec, failed, is_file_full=True) == "file_size"
    (tmp_path / "a" / "b" / "c").write_bytes(b"x" * 1000)
    assert find_limit(spec, failed) == "file_size"
    assert find_limit(spec, JobReport(code=0)) == ""


def test_a_directory_that_cannot_be_read_is_left_out(tmp_path):
    assert not has_full_file([str(tmp_path / "absent")], 1)
