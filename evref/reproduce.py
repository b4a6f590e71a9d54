"""The command `evref reproduce`: run an experiment, show and keep its table."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Executor
from functools import partial
from pathlib import Path
from typing import Any

from . import checks, experiments, files, terminal
from .arguments import as_folder
from .experiments.experiment import Experiment
from .kernels.threads import n_cores

DESCRIPTION = """\
    Run an experiment of the paper and print its table beside the paper's figures.

    Every result is written to DIR/results.jsonl as it comes. After Ctrl-C, or worse, the same command goes on where it
    stopped, and cells that failed are tried again. The figures are the same for any number of processes."""


def add_command(commands: Any, help_class: type[argparse.HelpFormatter], argv: Sequence[str]) -> None:
    """`reproduce` with a command for every experiment; only what `argv` names is imported."""
    command = commands.add_parser(
        "reproduce",
        help="run an experiment of the paper, print its table",
        description=DESCRIPTION,
        epilog="""\
            examples:
              evref reproduce source-localization --quick
              evref reproduce source-localization --jobs 2 --out table1
              evref reproduce source-localization --help""",
        formatter_class=help_class,
    )
    names = command.add_subparsers(dest="experiment", metavar="EXPERIMENT", required=True)
    for name in experiments.REGISTRY:
        cls = experiments.load(name) if "reproduce" in argv else None
        described = {} if cls is None else {"help": cls.summary, "description": f"{cls.summary}\n\n{DESCRIPTION}"}
        parser = names.add_parser(name, formatter_class=help_class, **described)
        if cls is not None:
            _add_options(parser, cls)


def _add_options(parser: argparse.ArgumentParser, cls: type[Experiment]) -> None:
    add = parser.add_argument
    add("--out", metavar="DIR", help="results and tables go here (default: results/ and the experiment's name)")
    add("--jobs", type=int, help="processes (default: one per core)")
    add("--dask", metavar="ADDRESS", help="run on the workers of a Dask scheduler, e.g. tcp://localhost:8786, instead")
    add(
        "--quick",
        action="store_true",
        help="a small version that ends in well under a minute; its figures prove nothing",
    )
    add("--no-pictures", action="store_true", help="tables only (pictures want matplotlib and a few seconds)")
    add("--runs", type=int, metavar="N", help="only the first N Monte-Carlo runs (default: all)")
    known = [*experiments.models.LABELS, *cls.labels]
    add("--models", type=_names, default=argparse.SUPPRESS, help=f"comma-separated, some of {', '.join(known)}")
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        if "help" in field.metadata:
            kind = int if field.default is None else type(field.default)
            shown = "" if field.default is None else f" (default {field.default})"
            choices = field.metadata.get("choices")
            add(
                f"--{field.name.replace('_', '-')}",
                dest=field.name,
                type=kind,
                choices=choices,
                metavar=None if choices else field.name[0].upper(),
                default=argparse.SUPPRESS,
                help=field.metadata["help"] + shown,
            )
    parser.set_defaults(run=reproduce)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def reproduce(arguments: argparse.Namespace) -> int:
    """0 if every cell has a result, else 1."""
    from .experiments import runner, statistics, table
    from .experiments.display import Display
    from .experiments.records import Record, Results, Task

    experiment = _experiment(arguments)
    jobs = n_cores() if arguments.jobs is None else checks.as_count("jobs", arguments.jobs, minimum=1)
    folder = as_folder("--out", arguments.out or f"results/{experiment.name}{'-quick' if arguments.quick else ''}")
    with Results(folder / "results.jsonl", experiment) as results:
        wanted, todo = runner.tasks(experiment, results, arguments.runs)

        def records() -> dict[Task, Record]:
            return {task: results.records[task] for task in wanted if task in results.records}

        def filling() -> str:
            return table.text(statistics.rows(experiment, records()), spelling=partial(terminal.as_written, sys.stderr))

        display = Display(len(wanted), len(wanted) - len(todo), filling)
        try:
            with _executor(arguments.dask) as executor:
                runner.run(experiment, todo, results, jobs, executor, display.update)
        except (KeyboardInterrupt, CancelledError, OSError) as end:
            display.close()
            done = sum(results.has(task) for task in wanted)
            there = f"{done} of {len(wanted)} are in {results.path}"
            if isinstance(end, OSError):  # a full disk
                raise OSError(f"{end.strerror or end}; {there}, and the same command goes on from there") from end
            why = "interrupted" if isinstance(end, KeyboardInterrupt) else "the scheduler is gone"
            print(f"{why}: {there}", file=sys.stderr)
            print("the same command goes on from there", file=sys.stderr)
            if isinstance(end, KeyboardInterrupt):
                raise
            return 1
        display.close()
        done_records = records()
        failed = sum(not results.has(task) for task in wanted)
    rows = statistics.rows(experiment, done_records)
    classes = next((len(record["confusion"]) for record in done_records.values() if "confusion" in record), 0)
    warning = table.quick_note(rows, classes) if arguments.quick and classes else ""
    unit = next(iter(experiment.cells()[0]))
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    here: dict[str, Any] = {"width": width, "spelling": partial(terminal.as_written, sys.stdout)}
    text = _written(rows, unit, warning, partial(table.text, **here), partial(table.spread_text, **here))
    print(text, flush=True)
    pictures = () if arguments.no_pictures else _draw(experiment, rows, done_records, folder)
    for path in itertools.chain(_keep(rows, unit, warning, folder), pictures):
        print(f"written: {path}", file=sys.stderr)
    if failed:
        print(f"{failed} of {len(wanted)} failed; the same command tries them again", file=sys.stderr)
    return 1 if failed else 0


def _experiment(arguments: argparse.Namespace) -> Experiment:
    """The experiment with the settings on the command line."""
    cls: Any = experiments.load(arguments.experiment)
    given = {f.name: getattr(arguments, f.name) for f in dataclasses.fields(cls) if hasattr(arguments, f.name)}
    known = {**experiments.models.LABELS, **cls.labels}
    for model in given.get("models", ()):
        checks.as_choice("models", model, tuple(known))
    experiment = cls()
    return dataclasses.replace(experiment.quick() if arguments.quick else experiment, **given)


@contextlib.contextmanager
def _executor(address: str | None) -> Iterator[Executor | None]:
    """The workers behind a Dask scheduler, or None."""
    if address is None:
        yield None
        return
    try:
        from distributed import Client
    except ImportError as error:
        raise ImportError('--dask needs dask and distributed; pip install "evref[dask]"') from error
    try:
        client = Client(address, timeout=10)
    except (OSError, TimeoutError) as error:
        raise ValueError(f"--dask is {address!r}; no scheduler answers there ({error})") from error
    with client:
        yield client.get_executor(pure=False)


def _written(
    rows: list[Any], unit: str, warning: str, main: Callable[[list[Any]], str], spread: Callable[[list[Any]], str]
) -> str:
    """The table as `main` has it, what warns of it, what its columns say, and the deviations as `spread` has them."""
    from .experiments import table

    parts = [main(rows), warning, table.note(unit)]
    if table.spread_rows(rows):
        parts += [spread(rows), table.spread_note(unit)]
    return "\n\n".join(part for part in parts if part)


def _keep(rows: list[Any], unit: str, warning: str, folder: Path) -> Iterator[Path]:
    """The table as text, Markdown and CSV."""
    from .experiments import table

    written = {
        "table.txt": _written(rows, unit, warning, table.text, table.spread_text) + "\n",
        "table.md": _written(rows, unit, warning, table.markdown, table.spread_markdown) + "\n",
        "table.csv": table.csv_text(rows),
    }
    for name, contents in written.items():
        files.write_text(folder / name, contents)
        yield folder / name


def _draw(experiment: Experiment, rows: list[Any], records: Any, folder: Path) -> Iterator[Path]:
    """Pictures, where matplotlib is installed."""
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("Agg")  # files alone: no window, no display needed
    import matplotlib.pyplot as plt

    from .plot.report import pictures
    from .plot.style import save

    for name, figure in pictures(experiment, rows, records):
        save(figure, folder / f"{name}.png")
        plt.close(figure)
        yield folder / f"{name}.png"
