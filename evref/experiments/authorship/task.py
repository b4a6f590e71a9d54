"""Authorship attribution: is an excerpt by Poe? The paper's section IV-B and its table II."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np

from ... import checks
from ...graph import Graph
from ...learn import Network
from ..experiment import Experiment
from ..models import BASELINE, BASELINE_LABEL, EXTRA_LABELS, MODELS, network
from ..train import Splits
from .adjacency import signature
from .corpus import SHIPPED, Corpus, digest, load_corpus

Array = np.ndarray

HeldOut = Literal["excerpts", "tales"]


class Division(NamedTuple):
    """Excerpts for training, validation and test, by number."""

    train: Array
    valid: Array
    test: Array


@dataclass(frozen=True)
class Authorship(Experiment):
    """The counts of function words in an excerpt, on the graph of the words an author sets side by side: whose is it?

    Defaults are the paper's protocol; see docs/authorship.md. The graph is made of the training excerpts of the target
    author alone. Labels are 1 for the target, 0 for the others, and there are as many of each in every part.
    "logistic" is the readout alone on the same counts: no graph.

    >>> experiment = Authorship(splits=1)
    >>> graph, data = experiment.problem({"split": 0})
    >>> [len(labels) for labels in (data.y_train, data.y_valid, data.y_test)]
    [1216, 136, 340]
    """

    name: ClassVar[str] = "authorship"
    summary: ClassVar[str] = "table II: is an excerpt by Edgar Allan Poe?"
    paper: ClassVar[dict[str, tuple[float, float]]] = {
        "spectral": (88.88, 1.50),
        "polynomial": (79.88, 15.31),
        "nv-degree": (88.88, 2.62),
        "nv-proxies": (86.12, 5.94),
        "ev": (89.00, 2.11),
        "hev-degree": (89.18, 1.99),
        "hev-proxies": (90.00, 1.21),
    }
    labels: ClassVar[dict[str, str]] = {**BASELINE_LABEL, **EXTRA_LABELS}
    classes: ClassVar[tuple[str, ...]] = ("others", "author")
    extent: ClassVar[tuple[str, ...]] = ("models", "splits")

    models: tuple[str, ...] = (*MODELS, BASELINE)
    splits: int = field(default=10, metadata={"help": "divisions into training, validation and test excerpts"})
    held_out: HeldOut = field(
        default="excerpts", metadata={"help": "what is kept from training", "choices": get_args(HeldOut)}
    )
    corpus: str = field(default=SHIPPED, metadata={"help": "a file that `evref authorship prepare` made"})
    train_samples: int = field(default=608, metadata={"help": "training excerpts of the author, and of the others"})
    valid_samples: int = field(default=68, metadata={"help": "validation excerpts of each"})
    test_samples: int = field(default=170, metadata={"help": "test excerpts of each"})
    features: int = field(default=2, metadata={"help": "F, the features of the filter"})
    order: int = field(default=1, metadata={"help": "K, the order of the filters"})
    privileged: int = field(default=2, metadata={"help": "|B|, the privileged nodes"})
    spline: int = field(default=2, metadata={"help": "b, the parameters of a spectral filter"})
    epochs: int = field(default=80, metadata={"help": "passes over the training excerpts"})
    batch: int = field(default=100, metadata={"help": "excerpts per step"})
    learning_rate: float = field(default=1e-3, metadata={"help": "of Adam"})
    validate_every: int = 20
    seed: int = field(default=0, metadata={"help": "of everything random"})

    def __post_init__(self) -> None:
        checks.as_choice("held_out", self.held_out, HeldOut)
        self._require_sound("splits", "train_samples", "valid_samples", "test_samples")
        if self.corpus != SHIPPED:
            object.__setattr__(self, "paper", {})  # its figures are Poe's

    def settings(self) -> dict[str, Any]:
        """The corpus by its contents, wherever the file is."""
        return {**super().settings(), "corpus": digest(self.corpus)}

    def cells(self) -> list[dict[str, int]]:
        self.divisions(load_corpus(self.corpus), {"split": 0})  # what is too small is said now, not in every cell
        return [{"split": split} for split in range(self.splits)]

    def prepare(self, model: str, cell: dict[str, int]) -> tuple[Network, Splits]:
        graph, data = self.problem(cell)
        net = network(
            model,
            graph,
            in_features=1,
            features=self.features,
            order=self.order,
            n_privileged=self.privileged,
            n_spline=self.spline,
            classes=2,
        )
        return net, data

    def quick(self) -> Authorship:
        return replace(self, splits=2, epochs=4)

    # ---- graph and data ----------------------------------------------------------------------------------------------
    def problem(self, cell: dict[str, int]) -> tuple[Graph, Splits]:
        """The graph of a cell, its nodes function words, and its signals: how often each occurs."""
        corpus = load_corpus(self.corpus)
        ours, others = self.divisions(corpus, cell)
        graph, kept = signature(corpus.network(ours.train), corpus.words)
        parts: list[Array] = []
        for mine, theirs in zip(ours, others, strict=True):
            chosen = np.concatenate([mine, theirs])
            parts += [corpus.counts[chosen][:, np.newaxis, kept].astype(np.float32)]
            parts += [np.repeat([1, 0], [mine.size, theirs.size])]
        return graph, Splits(*parts)

    def divisions(self, corpus: Corpus, cell: dict[str, int]) -> tuple[Division, Division]:
        """Excerpts of the target and of the others, as many in each part."""
        rng = np.random.default_rng(self.seeds("data", *cell.values()))
        sizes = (self.train_samples, self.valid_samples, self.test_samples)
        for whose in (True, False):
            there = corpus.excerpts(whose).size
            if there < sum(sizes):
                raise ValueError(
                    f"the corpus has {there} excerpts by {corpus.target if whose else 'others'}; "
                    f"training, validation and test need {' + '.join(map(str, sizes))} = {sum(sizes)} of each"
                )
        if self.held_out == "excerpts":
            ours, others = (
                Division(*np.split(rng.permutation(corpus.excerpts(whose))[: sum(sizes)], np.cumsum(sizes)[:-1]))
                for whose in (True, False)
            )
            return ours, others
        ours = _by_works(corpus, sizes, rng)
        return ours, _by_books(corpus, (ours.train.size, ours.valid.size, ours.test.size), rng)


def _by_works(corpus: Corpus, sizes: tuple[int, int, int], rng: np.random.Generator) -> Division:
    """The target's excerpts by whole works: test and validation are filled as far as works fit, the rest is training.

    An excerpt that runs from one work into the next is left out if they are not in the same part.
    """
    mine = corpus.excerpts(target=True)
    works = rng.permutation(np.unique([corpus.first[mine], corpus.last[mine]]))
    part = np.zeros(len(corpus.works), np.int64)  # 0 training, 1 validation, 2 test
    inside = [mine[(corpus.first[mine] == work) & (corpus.last[mine] == work)].size for work in works]
    for which in (2, 1):
        room = sizes[which]
        for work, size in zip(works, inside, strict=True):
            if part[work] == 0 and 0 < size <= room:
                part[work] = which
                room -= size
    ours = []
    for which, size in enumerate(sizes):
        here = mine[(part[corpus.first[mine]] == which) & (part[corpus.last[mine]] == which)]
        if here.size == 0:
            raise ValueError(
                f"{corpus.target} has {works.size} works, too few or too long ones to hold some out for "
                f"{('training', 'validation', 'test')[which]}; expected works of at most {min(sizes)} excerpts among "
                'them, or held_out="excerpts"'
            )
        ours.append(rng.permutation(here)[:size])
    return Division(*ours)


def _by_books(corpus: Corpus, sizes: tuple[int, int, int], rng: np.random.Generator) -> Division:
    """The others' excerpts, of different books in every part: books are shared out as the excerpts are to be."""
    theirs = corpus.excerpts(target=False)
    books = rng.permutation(np.unique(corpus.first[theirs]))
    excerpts = np.array([(corpus.first[theirs] == book).sum() for book in books])
    before = np.cumsum(excerpts) - excerpts
    bounds = np.cumsum(sizes[::-1])[:-1] / sum(sizes) * theirs.size  # test first, then validation
    part = 2 - np.searchsorted(bounds, before, side="right")
    chosen = []
    for which, size in enumerate(sizes):
        here = theirs[np.isin(corpus.first[theirs], books[part == which])]
        if here.size < size:
            raise ValueError(
                f"the other authors' {books.size} books cannot be shared out: {here.size} excerpts for "
                f"{('training', 'validation', 'test')[which]}; expected at least {size}"
            )
        chosen.append(rng.permutation(here)[:size])
    return Division(*chosen)
