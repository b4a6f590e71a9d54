"""What the commands of `evref` share on the command line."""

from __future__ import annotations

import argparse
import re
from typing import Any, NoReturn

from .checks import did_you_mean


class Parser(argparse.ArgumentParser):
    """Knows what a misspelt command was meant to be; so do its commands, which are of the same class."""

    def error(self, message: str) -> NoReturn:
        wrong = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        if wrong:
            message += did_you_mean(wrong[1], re.findall(r"[\w-]+", wrong[2]))
        super().error(message)


def add_json(command: argparse.ArgumentParser, what: str) -> None:
    """`--json`, a flag everywhere: `what` goes to standard output as JSON, and nothing else does."""
    command.add_argument("--json", nargs="?", const=True, default=False, type=_no_file, metavar="", help=what)


def _no_file(value: str) -> Any:
    raise argparse.ArgumentTypeError(f"it takes no file and prints on standard output; use --json > {value}")
