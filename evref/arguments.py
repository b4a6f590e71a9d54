"""What the commands of `evref` share on the command line."""

from __future__ import annotations

import argparse
import os
import re
import stat
from pathlib import Path
from typing import Any, NoReturn

from .checks import did_you_mean


class Parser(argparse.ArgumentParser):
    """Knows what a misspelt command or option was meant to be; so do its commands, which are of the same class."""

    def parse_known_args(self, *arguments: Any, **keywords: Any) -> tuple[Any, list[str]]:
        namespace, left = super().parse_known_args(*arguments, **keywords)
        option = next((word.partition("=")[0] for word in left if word.startswith("-")), None)
        if option is not None:  # said here: the parser above knows the command's name, and not its options
            known = re.findall(r"(?<![\w-])--?[\w-]+", self.format_usage())
            self.error(f"unrecognized arguments: {' '.join(left)}{did_you_mean(option, known)}")
        return namespace, left

    def error(self, message: str) -> NoReturn:
        wrong = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        if wrong:
            message += did_you_mean(wrong[1], re.findall(r"[\w-]+", wrong[2]))
        super().error(message)


def add_json(command: argparse.ArgumentParser, what: str) -> None:
    """`--json`, a flag everywhere: `what` goes to standard output as JSON, and nothing else does."""
    command.add_argument("--json", nargs="?", const=True, default=False, type=_no_file, metavar="", help=what)


def as_folder(option: str, path: str) -> Path:
    """A folder to write to, made if it is not there: asked for before the work starts, not after it."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{option} is {path!r}; expected a folder, there or to be made ({error.strerror})") from None
    return folder


def as_new_file(option: str, path: str | Path) -> Path:
    """A file to write, in a folder that is there."""
    file = Path(path)
    try:
        if stat.S_ISDIR(os.stat(file).st_mode):
            raise ValueError(f"{option} is {str(path)!r}, which is a folder; expected a file to write")
    except FileNotFoundError:
        if not file.parent.is_dir():
            raise ValueError(f"{option} is {str(path)!r}; there is no folder {str(file.parent)!r}") from None
    except OSError as error:
        raise ValueError(f"{option} is {str(path)!r}; expected a file to write ({error.strerror})") from None
    return file


def _no_file(value: str) -> Any:
    raise argparse.ArgumentTypeError(f"it takes no file and prints on standard output; use --json > {value}")
