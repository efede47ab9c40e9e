"""Scratch is measured and removed whatever a job left there."""

import os

import pytest

from paddock.confinement.sandbox.child import scratch


def total(directory):
    return [value for value in scratch.measure_in_slices(str(directory)) if value is not None]


def test_usage_counts_blocks_and_empty_files_too(tmp_path):
    (tmp_path / "full").write_bytes(b"x" * 100_000)
    for number in range(500):
        (tmp_path / f"empty{number}").touch()
    (found,) = total(tmp_path)
    assert 100_000 + 500 * 512 <= found < 1_000_000


def test_usage_pauses_every_few_hundred_entries(tmp_path):
    for number in range(450):
        (tmp_path / str(number)).touch()
    assert list(scratch.measure_in_slices(str(tmp_path)))[:2] == [None, None]


def dig(directory, depth):
    """Make directories deeper than a path may be long, as a program can by changing into each."""
    here = os.open(directory, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d" * 200, dir_fd=here)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)


def test_what_is_too_deep_to_be_seen_counts_as_too_much(tmp_path):
    dig(tmp_path, 60)
    assert total(tmp_path)[-1] > 2**60
    scratch.remove_directory(str(tmp_path))


def test_remove_takes_deep_trees_links_and_closed_directories(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    job = tmp_path / "job"
    closed = job / "a" / "closed"
    closed.mkdir(parents=True)
    (closed / "file").touch()
    (job / "link").symlink_to(outside)
    os.mkfifo(job / "fifo")
    closed.chmod(0)
    (job / "a").chmod(0)
    dig(job, 1500)
    scratch.remove_directory(str(job))
    assert not job.exists()
    assert (outside / "kept").exists()


def test_remove_touches_nothing_outside_when_a_directory_becomes_a_link_meanwhile(tmp_path, monkeypatch):
    outside, job = tmp_path / "outside", tmp_path / "job"
    outside.mkdir(0o755)
    (outside / "kept").touch()
    for name in ("a", "b"):
        (job / name / "deep").mkdir(parents=True)
        (job / name / "file").touch()
    unlink = os.unlink

    def swap(path, **how):
        unlink(path, **how)
        (other,) = [job / name for name in ("a", "b") if (job / name / "file").exists()]
        other.rename(tmp_path / "moved")
        other.symlink_to(outside)

    monkeypatch.setattr(os, "unlink", swap)
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        scratch.remove_directory(str(job))
    assert [path.name for path in outside.iterdir()] == ["kept"]
    assert outside.stat().st_mode & 0o777 == 0o755
