"""A program that makes random changes in its working directory: `python overlay_program.py OPERATIONS` (JSON)."""

import errno
import json
import os
import shutil
import sys


def write(path, other, number):
    with open(path, "w", errors="surrogateescape") as file:
        file.write(f"{other} {number}\n" * (number % 5))


def append(path, other, number):
    with open(path, "a") as file:
        file.write(f"more {number}\n")


def rename(path, other, number):
    try:
        os.rename(path, other)
    except OSError as error:
        # An overlay renames no directory of the workspace; tools copy it then.
        if error.errno != errno.EXDEV or (os.path.lexists(other) and os.listdir(other)):
            raise
        if os.path.abspath(other).startswith(f"{os.path.abspath(path)}/"):
            raise
        if os.path.lexists(other):
            os.rmdir(other)
        shutil.copytree(path, other, symlinks=True)
        shutil.rmtree(path)


def symlink(path, other, number):
    os.symlink(["b", "missing", "../a", "/proc/nowhere"][number % 4], path)


def sparse(path, other, number):
    with open(path, "w") as file:
        file.truncate(number * 1000)


def file_to_directory(path, other, number):
    os.unlink(path)
    os.mkdir(path)
    write(f"{path}/a", other, number)


def directory_to_file(path, other, number):
    shutil.rmtree(path)
    write(path, other, number)


def renew_directory(path, other, number):
    shutil.rmtree(path)
    os.mkdir(path)
    write(f"{path}/b", other, number)


ACTIONS = {
    "write": write,
    "append": append,
    "truncate": lambda path, other, number: os.truncate(path, number % 4),
    "unlink": lambda path, other, number: os.unlink(path),
    "mkdir": lambda path, other, number: os.makedirs(path),
    "rmtree": lambda path, other, number: shutil.rmtree(path),
    "rename": rename,
    "link": lambda path, other, number: os.link(path, other, follow_symlinks=False),
    "symlink": symlink,
    "chmod": lambda path, other, number: os.chmod(path, number * 7919 % 0o1000),
    "special": lambda path, other, number: os.chmod(path, 0o6755),
    "touch": lambda path, other, number: os.utime(path, (number, number)),
    "sparse": sparse,
    "file_to_directory": file_to_directory,
    "directory_to_file": directory_to_file,
    "renew_directory": renew_directory,
}

if __name__ == "__main__":
    for kind, path, other, number in json.loads(sys.argv[1]):
        try:
            ACTIONS[kind](path, other, number)
        except (OSError, shutil.Error):
            continue
