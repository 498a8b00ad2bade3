"""Files that are whole or absent, and lines of files that may be too long to hold.

What it leaves to you: to say in an error of your own what the file was meant to be.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from triage_gym.errors import InputError


@contextmanager
def replacing(target: Path) -> Iterator[IO[bytes]]:
    """A new file that takes the place of ``target`` at the end, once it is on the disk; the old one stays if that fails.

    A reader sees the old file or the new one, never half of one.
    """
    tmp = target.with_name(f".{target.name}.tmp")
    try:
        with tmp.open("wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        os.replace(tmp, target)
    except BaseException:
        tmp.unlink(missing_ok=True)
        raise


def numbered_lines(file: IO[bytes], most: int, where: object) -> Iterator[tuple[int, bytes]]:
    """The lines of an open file with their numbers, from 1.

    Args:
        file: Never more than a line of it is held.
        most: Bytes of the longest line.
        where: Its name, for the error.

    Raises:
        InputError: For a longer line.
    """
    number = 0
    while line := file.readline(most + 1):
        number += 1
        if len(line) > most:
            raise InputError(f"Expected lines of at most {most} bytes, got a longer one at {where}:{number}")
        yield number, line
