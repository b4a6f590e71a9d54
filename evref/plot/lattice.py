"""The lattice of filter classes, drawn from its data."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from textwrap import fill
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from ..verify.inclusions import at_a_fixed_signal
from ..verify.inclusions import lattice as inclusions_with_maps
from .style import new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, STEP = 10.5, 1.25  # inches: of the drawing, and between levels
LINE, LETTER, PAD = 0.17, 0.082, 0.28  # inches: height of a line of text, width of a letter, both sides of a box
TWIN = 0.14  # bend of two arrows that join the same classes
SEED = 1  # of the search for places: another one, another drawing


class Arrow(Protocol):
    """What is drawn of an inclusion."""

    @property
    def small(self) -> str: ...
    @property
    def large(self) -> str: ...
    @property
    def condition(self) -> str: ...


EVERYTHING: tuple[Arrow, ...] = (*inclusions_with_maps, *at_a_fixed_signal)


def lattice(inclusions: Sequence[Arrow] = EVERYTHING, ax: Axes | None = None) -> Axes:
    """An arrow from each class to the classes that contain it; numbers stand for conditions, listed below.

    Classes that contain each other share a level. Arrows point to the larger class, and no arrow runs through the box
    of a third one; a dashed one holds under a condition only.
    """
    pairs = tuple((arrow.small, arrow.large) for arrow in inclusions)
    place, levels = _layout(pairs)
    if ax is None:
        ax = new_axes(figsize=(WIDTH, STEP * levels + 1.2))
    conditions = list(dict.fromkeys(a.condition for a in inclusions if not a.condition.startswith("always")))
    boxes = {}
    for name, (x, y) in place.items():
        text = ax.text(
            x, y, _written(name), ha="center", va="center", fontsize=9, zorder=4,
            bbox={"boxstyle": "round,pad=0.4", "facecolor": "#e0ecf4", "edgecolor": "#4a6fa5"},
        )  # fmt: skip
        boxes[name] = text.get_bbox_patch()
    spots = _spots(pairs, place, [not a.condition.startswith("always") for a in inclusions])
    for number, arrow in enumerate(inclusions):
        free = arrow.condition.startswith("always")
        bend = TWIN if (arrow.large, arrow.small) in pairs else 0.0
        ax.annotate(
            "", place[arrow.large], place[arrow.small], zorder=1,
            arrowprops={
                "arrowstyle": "-|>", "color": "0.35", "linestyle": "-" if free else "--", "shrinkA": 0, "shrinkB": 1,
                "patchA": boxes[arrow.small], "patchB": boxes[arrow.large], "connectionstyle": f"arc3,rad={bend}",
            },
        )  # fmt: skip
        if not free:
            ax.annotate(
                str(conditions.index(arrow.condition) + 1), spots[number], ha="center", va="center", fontsize=8,
                zorder=2, color="#7b3294",
                bbox={"boxstyle": "circle,pad=0.15", "facecolor": "white", "edgecolor": "#7b3294", "linewidth": 0.6},
            )  # fmt: skip
    ax.set_xlim(0, WIDTH)
    ax.set_ylim(-0.7 * STEP, (levels - 0.6) * STEP)
    ax.axis("off")
    if conditions:
        half = -(-len(conditions) // 2)
        lines = [f"{i}  {condition}" for i, condition in enumerate(conditions, start=1)]
        ax.text(0.02, 0.0, "dashed: under a condition", transform=ax.transAxes, va="top", fontsize=8.5)
        for column, part in enumerate((lines[:half], lines[half:])):
            ax.text(0.27 + 0.4 * column, 0.0, "\n".join(part), transform=ax.transAxes, va="top", fontsize=8.5)
    return ax


def _written(name: str) -> str:
    return fill(name.replace("_", " "), 15)


# ---- where things go -------------------------------------------------------------------------------------------------
Pairs = tuple[tuple[str, str], ...]  # (small, large)


class Cost(NamedTuple):
    """What is wrong with a layout, the worst first: layouts are compared in this order."""

    through: int  # arrows through boxes of other classes, and boxes that touch
    crossings: int
    length: float


@cache
def _layout(pairs: Pairs) -> tuple[dict[str, tuple[float, float]], int]:
    """A place for each class, and the number of levels.

    Levels follow from the inclusions; within a level the places are found by a random search (seeded: the same
    drawing every time) that moves or swaps boxes as long as that does no harm.
    """
    names = tuple(dict.fromkeys(name for pair in pairs for name in reversed(pair)))
    level = _levels(names, pairs)
    height = np.array([level[name] for name in names])
    rng = np.random.default_rng(SEED)
    size = np.array([_size(name) for name in names])
    ends, bend = _arrows(names, pairs)
    found: list[tuple[Cost, np.ndarray]] = []
    for _ in range(2):  # starts
        x = np.empty(len(names))
        for value in np.unique(height):
            members = rng.permutation(np.flatnonzero(height == value))
            x[members] = (np.arange(members.size) + 0.5) / members.size * WIDTH
        place = np.stack([x, height * STEP], axis=1)
        cost = _cost(place, size, ends, bend)
        for _ in range(1500):
            trial = place.copy()
            i = int(rng.integers(len(names)))
            j = int(rng.choice(np.flatnonzero(height == height[i])))
            if i != j and rng.random() < 0.4:
                trial[[i, j]] = trial[[j, i]]
            else:
                half = size[i, 0] / 2
                trial[i, 0] = rng.uniform(half, WIDTH - half)
                trial[i, 1] = STEP * (height[i] + rng.uniform(-0.22, 0.22))
            trial_cost = _cost(trial, size, ends, bend)
            if trial_cost <= cost:
                place, cost = trial, trial_cost
        found.append((cost, place))
    _, best = min(found, key=lambda pair: pair[0])
    return {name: (float(x), float(y)) for name, (x, y) in zip(names, best, strict=True)}, int(height.max()) + 1


def _arrows(names: tuple[str, ...], pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of the classes that each arrow joins, (A, 2), and its bend, (A,)."""
    number = {name: i for i, name in enumerate(names)}
    ends = np.array([[number[small], number[large]] for small, large in pairs])
    return ends, np.array([TWIN if (large, small) in pairs else 0.0 for small, large in pairs])


def _cost(place: np.ndarray, size: np.ndarray, ends: np.ndarray, bend: np.ndarray) -> Cost:
    points = _points(place, ends, bend, count=24)  # (A, P, 2)
    room = size / 2 + 0.06
    inside = (np.abs(points[:, :, None] - place) < room).all(axis=-1).any(axis=1)  # (A, boxes)
    inside[np.arange(len(ends))[:, None], ends] = False
    apart = np.abs(place[:, None] - place) < (size[:, None] + size) / 2 + 0.12
    touching = (apart.all(axis=-1).sum() - len(place)) // 2
    start, end = place[ends[:, 0]], place[ends[:, 1]]
    return Cost(
        int(inside.sum() + touching), _crossings(start, end, ends), float(np.hypot(*(end - start).T).sum().round(1))
    )


def _points(place: np.ndarray, ends: np.ndarray, bend: np.ndarray, count: int) -> np.ndarray:
    """Along each arrow from middle to middle, (A, count, 2): a straight line, or matplotlib's "arc3"."""
    start, end = place[ends[:, 0]], place[ends[:, 1]]
    along = end - start
    control = (start + end) / 2 + bend[:, None] * np.stack([along[:, 1], -along[:, 0]], axis=1)
    t = np.linspace(0, 1, count)[:, None]
    start, control, end = (array[:, None] for array in (start, control, end))
    return (1 - t) ** 2 * start + 2 * t * (1 - t) * control + t**2 * end


def _crossings(start: np.ndarray, end: np.ndarray, ends: np.ndarray) -> int:
    """Pairs of straight arrows without a common class that cross."""

    def side(p: np.ndarray, q: np.ndarray, r: np.ndarray) -> np.ndarray:
        return (q[:, 0] - p[:, 0])[:, None] * (r[None, :, 1] - p[:, None, 1]) - (q[:, 1] - p[:, 1])[:, None] * (
            r[None, :, 0] - p[:, None, 0]
        )

    apart = side(start, end, start) * side(start, end, end) < 0  # (A, A): the ends of b lie on both sides of a
    shared = (ends[:, None, :, None] == ends[None, :, None, :]).any(axis=(-1, -2))
    return int((apart & apart.T & ~shared).sum()) // 2


def _spots(pairs: Pairs, place: dict[str, tuple[float, float]], numbered: list[bool]) -> list[tuple[float, float]]:
    """Where on each arrow its number goes: far from boxes, from other arrows and from other numbers."""
    names = tuple(place)
    where, size = np.array(list(place.values())), np.array([_size(name) for name in names])
    points = _points(where, *_arrows(names, pairs), count=41)
    taken = np.zeros((0, 2))
    spots: list[tuple[float, float]] = []
    for a, wanted in enumerate(numbered):
        candidates = points[a, 8:33]
        if wanted:
            others = np.delete(points, a, axis=0).reshape(-1, 2)
            from_arrows = np.hypot(*(candidates[:, None] - others).transpose(2, 0, 1)).min(axis=1, initial=0.4)
            beside = np.maximum(np.abs(candidates[:, None] - where) - size / 2, 0)
            from_boxes = np.hypot(*beside.transpose(2, 0, 1)).min(axis=1, initial=0.4)
            from_numbers = np.hypot(*(candidates[:, None] - taken).transpose(2, 0, 1)).min(axis=1, initial=0.4)
            chosen = candidates[np.argmax(np.minimum(np.minimum(from_arrows, from_boxes), from_numbers))]
            taken = np.vstack([taken, chosen])
        else:
            chosen = candidates[12]
        spots.append((float(chosen[0]), float(chosen[1])))
    return spots


def _size(name: str) -> tuple[float, float]:
    """Width and height of the box of a class, in inches."""
    lines = _written(name).splitlines()
    return LETTER * max(map(len, lines)) + PAD, LINE * len(lines) + PAD - 0.08


def _levels(names: Sequence[str], pairs: Pairs) -> dict[str, int]:
    """Longest chain below each class; classes that contain each other are one step of it."""
    below = {name: {small for small, large in pairs if large == name} for name in names}
    reach = {name: {name} for name in names}  # everything contained in a class
    for _ in names:
        reach = {name: reach[name].union(*(reach[b] for b in below[name])) for name in names}
    equal = {name: {other for other in reach[name] if name in reach[other]} for name in names}

    def height(name: str) -> int:
        strictly = {b for same in equal[name] for b in below[same]} - equal[name]
        return 1 + max((height(b) for b in strictly), default=-1)

    return {name: height(name) for name in names}
