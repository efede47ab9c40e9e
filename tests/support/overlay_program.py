"""A program that makes random changes in its working directory: `python overlay_program.py OPERATIONS` (JSON)."""

import errno
import json
import os
import shutil
import sys


def write(path: str, other: str, number: int) -> None:
    with open(path, "w", errors="surrogateescape") as file:
        file.write(f"{other} {number}\n" * (number % 5))


def append(path: str, other: str, number: int) -> None:
    with open(path, "a") as file:
        file.write(f"more {number}\n")


def rename(path: str, other: str, number: int) -> None:
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


def symlink(path: str, other: str, number: int) -> None:
    os.symlink(["b", "missing", "../a", "/proc/nowhere"][number % 4], path)


def sparse(path: str, other: str, number: int) -> None:
    with open(path, "w") as file:
        file.truncate(number * 1000)


def file_to_directory(path: str, other: str, number: int) -> None:
    os.unlink(path)
    os.mkdir(path)
    write(f"{path}/a", other, number)


def directory_to_file(path: str, other: str, number: int) -> None:
    shutil.rmtree(path)
    write(path, other, number)


def renew_directory(path: str, other: str, number: int) -> None:
    shutil.rmtree(path)
    os.mkdir(path)
    write(f"{path}/b", other, number)


def truncate(path: str, other: str, number: int) -> None:
    os.truncate(path, number % 4)


def unlink(path: str, other: str, number: int) -> None:
    os.unlink(path)


def mkdir(path: str, other: str, number: int) -> None:
    os.makedirs(path)


def rmtree(path: str, other: str, number: int) -> None:
    shutil.rmtree(path)


def link(path: str, other: str, number: int) -> None:
    os.link(path, other, follow_symlinks=False)


def chmod(path: str, other: str, number: int) -> None:
    os.chmod(path, number * 7919 % 0o1000)


def special(path: str, other: str, number: int) -> None:
    os.chmod(path, 0o6755)


def touch(path: str, other: str, number: int) -> None:
    os.utime(path, (number, number))


ACTIONS = {
    action.__name__: action
    for action in (
        *(
            write,
            append,
            truncate,
            unlink,
            mkdir,
            rmtree,
            rename,
            link,
            symlink,
            chmod,
            special,
            touch,
            sparse,
        ),
        *(file_to_directory, directory_to_file, renew_directory),
    )
}

if __name__ == "__main__":
    for kind, path, other, number in json.loads(sys.argv[1]):
        try:
            ACTIONS[kind](path, other, number)
        except (OSError, shutil.Error):
            continue
