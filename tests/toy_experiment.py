"""An experiment whose figures are known beforehand, and whose runs go wrong on demand."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from evref.experiments.experiment import Experiment


@dataclass(frozen=True)
class Toy(Experiment):
    """Figure = 10 · group + draw, + 1 for "ev"; `trouble` names a model whose cell (0, 0) misbehaves."""

    name: ClassVar = "toy"
    summary: ClassVar = "a toy"
    paper: ClassVar = {"ev": (85.47, 10.77)}
    labels: ClassVar = {"logistic": "Logistic regression"}
    extent: ClassVar = ("models", "groups", "draws")

    models: tuple[str, ...] = ("polynomial", "ev")
    groups: int = 3
    draws: int = 2
    features: int = 1
    seed: int = 0
    epochs: int = 1
    batch: int = 1
    learning_rate: float = 0.1
    trouble: str = ""
    how: str = ""  # "raise", "die" (every time), "die once" (`marker` remembers), "linger" (and then touch `marker`)
    marker: str = ""

    def cells(self) -> list[dict[str, int]]:
        return [{"group": g, "draw": d} for g in range(self.groups) for d in range(self.draws)]

    def run(self, model, cell):
        if model == self.trouble and sum(cell.values()) == 0:
            if self.how == "raise":
                raise ValueError("no good")
            if self.how == "linger":
                time.sleep(10)
                Path(self.marker).touch()
            elif self.how == "die" or not Path(self.marker).exists():
                Path(self.marker or os.devnull).touch()
                os.kill(os.getpid(), signal.SIGKILL)
        figure = 10.0 * cell["group"] + cell["draw"] + (model == "ev")
        return record(figure, figure - 1, pid=os.getpid(), threads=os.environ.get("OPENBLAS_NUM_THREADS"))


def record(best: float, last: float, **more):
    return {"best": best, "last": last, "parameters": 7, "operations": 9, "seconds_per_epoch": 0.5, **more}


def figures(folder):
    """Every record of a results file, without the clock's; each model and cell may be there once."""
    _, *lines = map(json.loads, (folder / "results.jsonl").read_text(encoding="utf-8").splitlines())
    kept = {(line["model"], *line["cell"].values()): line for line in lines}
    assert len(kept) == len(lines), "something ran twice"
    for line in lines:
        assert line.pop("seconds_per_epoch") >= 0 and line.pop("crc32")
    return kept
