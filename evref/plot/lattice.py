"""The lattice of filter classes, drawn from its data."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING

from ..verify.inclusions import Inclusion
from ..verify.inclusions import lattice as everything
from .style import new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def lattice(inclusions: tuple[Inclusion, ...] = everything, ax: Axes | None = None) -> Axes:
    """An arrow from each class to the classes that contain it; numbers stand for conditions, listed at the side.

    Classes that contain each other share a level. Arrows point upwards, to the larger class; a dashed one holds under a
    condition only.
    """
    if ax is None:
        ax = new_axes(figsize=(13, 7))
    names = list(dict.fromkeys(name for i in inclusions for name in (i.large, i.small)))
    level = _levels(names, inclusions)
    rows: dict[int, list[str]] = {}
    for name in names:
        rows.setdefault(level[name], []).append(name)
    place: dict[str, tuple[float, float]] = {}
    for height, members in rows.items():
        members.sort(key=lambda name: _pull(name, inclusions, place))
        shift = 0.08 * (-1) ** height if len(members) == 1 else 0.0  # lets long arrows pass beside a lonely class
        for i, name in enumerate(members):
            place[name] = ((i + 0.5) / len(members) + shift, float(height))
    conditions = list(dict.fromkeys(i.condition for i in inclusions if not i.condition.startswith("always")))
    boxes = {}
    for name, (x, y) in place.items():
        text = ax.text(
            x, y, fill(name.replace("_", " "), 15), ha="center", va="center", fontsize=9, zorder=4,
            bbox={"boxstyle": "round,pad=0.4", "facecolor": "#e0ecf4", "edgecolor": "#4a6fa5"},
        )  # fmt: skip
        boxes[name] = text.get_bbox_patch()
    for inclusion in inclusions:
        (x0, y0), (x1, y1) = place[inclusion.small], place[inclusion.large]
        free = inclusion.condition.startswith("always")
        ax.annotate(
            "", (x1, y1), (x0, y0), zorder=1,
            arrowprops={
                "arrowstyle": "-|>", "color": "0.35", "linestyle": "-" if free else "--", "shrinkA": 0, "shrinkB": 1,
                "patchA": boxes[inclusion.small], "patchB": boxes[inclusion.large],
                "connectionstyle": "arc3,rad=0.12" if y0 == y1 else "arc3,rad=0.04",
            },
        )  # fmt: skip
        if not free:
            number = str(conditions.index(inclusion.condition) + 1)
            spot = (0.55 * x0 + 0.45 * x1, 0.55 * y0 + 0.45 * y1)
            ax.annotate(
                number, spot, ha="center", va="center", fontsize=8, zorder=2, color="#7b3294",
                bbox={"boxstyle": "circle,pad=0.15", "facecolor": "white", "edgecolor": "#7b3294", "linewidth": 0.6},
            )  # fmt: skip
    key = "\n".join(f"{i}  {condition}" for i, condition in enumerate(conditions, start=1))
    ax.text(1.03, 0.5, f"dashed: under a condition\n\n{key}", transform=ax.transAxes, va="center", fontsize=8.5)
    ax.set_xlim(0, 1)
    ax.set_ylim(-0.5, max(level.values()) + 0.5)
    ax.axis("off")
    return ax


def _levels(names: list[str], inclusions: tuple[Inclusion, ...]) -> dict[str, int]:
    """Longest chain below each class; classes that contain each other are one step of it."""
    below = {name: {i.small for i in inclusions if i.large == name} for name in names}
    reach = {name: {name} for name in names}  # everything contained in a class
    for _ in names:
        reach = {name: reach[name].union(*(reach[b] for b in below[name])) for name in names}
    equal = {name: {other for other in reach[name] if name in reach[other]} for name in names}

    def height(name: str) -> int:
        strictly = {b for same in equal[name] for b in below[same]} - equal[name]
        return 1 + max((height(b) for b in strictly), default=-1)

    return {name: height(name) for name in names}


def _pull(name: str, inclusions: tuple[Inclusion, ...], place: dict[str, tuple[float, float]]) -> float:
    """Mean position of the neighbours drawn so far: keeps arrows short."""
    near = [place[i.large][0] for i in inclusions if i.small == name and i.large in place]
    near += [place[i.small][0] for i in inclusions if i.large == name and i.small in place]
    return sum(near) / len(near) if near else 0.5
