"""The frame of every subcommand: its parser, its actions, and the exit statuses of errors."""

from __future__ import annotations

import argparse
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NoReturn

from pytest_accel.core import exits, output, paths
from pytest_accel.core.printable import printable


@dataclass(frozen=True)
class Subcommand:
    """An action of a subcommand: `add` declares its arguments, `run` returns the exit status."""

    help: str
    description: str | None
    add: Callable[[argparse.ArgumentParser], None] | None
    run: Callable[[argparse.Namespace], int]


Actions = Mapping[str, Subcommand]
"""The actions of a subcommand by name, in the order in which the help lists them."""


def declare(parser: argparse.ArgumentParser, actions: Actions) -> None:
    """Declare the actions of a subcommand, one of which has to be chosen; `do` of the options runs it."""
    subparsers = parser.add_subparsers(dest="action", required=True)
    for name, subcommand in actions.items():
        action = subparsers.add_parser(name, help=subcommand.help, description=subcommand.description)
        action.set_defaults(do=subcommand.run)
        if subcommand.add:
            subcommand.add(action)


def run_chosen(args: argparse.Namespace) -> int:
    """Run the chosen action, and return its exit status."""
    return int(args.do(args))


class Parser(argparse.ArgumentParser):
    """A parser whose errors end with the exit status that pytest has for wrong options."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the message, and end the process with exit status 4.

        An option that begins with "--accel-", as those of pytest do, is answered with the one of here.
        """
        self.print_usage(sys.stderr)
        options, hints = set(_options(self)), []
        for word in re.findall(r"--accel-[\w-]+", message) if "unrecognized arguments" in message else ():
            option = word.replace("--accel-", "--")
            hints += [f"; {word} is {option} here"] if option in options else []
        self.exit(exits.WRONG, f"{self.prog}: error: {message}{''.join(hints)}\n")


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the options of a parser and of its actions."""
    for argument in parser._actions:  # noqa: SLF001  argparse has no other way
        yield from argument.option_strings
        for action in argument.choices.values() if isinstance(argument.choices, dict) else ():
            yield from _options(action)


def guarded(work: Callable[[], int]) -> int:
    """Return the exit status of the work, or of what it raises: 3 for a bug, 4 for a refused file or folder."""
    # An output that cannot be written to, such as a pipe whose reader has ended, does not change the status.
    output.protect()
    try:
        status = work()
    except exits.WrongUse as error:
        print(error, file=sys.stderr)
        return exits.WRONG
    except OSError as error:
        # Without a file it is no file or folder that the system refuses, but a bug.
        if not error.filename:
            return _bug(error)
        print(printable(paths.refusal(error)), file=sys.stderr)
        return exits.WRONG
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return exits.INTERRUPTED
    except Exception as error:  # noqa: BLE001  any other status than exits.BROKEN would be taken for a verdict
        return _bug(error)
    sys.stdout.flush()
    return status


def _bug(error: Exception) -> int:
    """Print the traceback of an error of this package, and return its exit status."""
    traceback.print_exception(error)
    message = f"{type(error).__name__}: {error}"
    print(f"pytest-accel: an error of pytest_accel, not a verdict on the hardware: {message}", file=sys.stderr)
    # 3, since 1 stands for a device that fails.
    return exits.BROKEN
