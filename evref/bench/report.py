"""Figures to text, Markdown and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from .. import files
from . import targets

RULES = """\
Everyone does the same work on the same numbers: y and the gradients of phi and x from arrays in the user's layout
(batch, features, nodes), conversions to any other layout on the clock; for training, one step of Adam. Every library
runs in a process of its own, one at a time, round-robin; answers are checked against the NumPy reference in float64
before anything is timed; compilation is off the clock. Times are medians (quartiles in brackets) at the best of one
and of all threads, for us and for each peer. Ratios are peer time / our time.

Rates: useful flops and compulsory traffic as written in `evref/bench/cases.py`; GEMM is NumPy's, the bandwidth the
better of a copy and a STREAM triad, all measured in the same run on as many threads as our figure. How far cores are
apart is the time in which a word goes from one to another and back, quartiles over the time of the line."""


class Comparison(NamedTuple):
    peer: str
    ratio: float
    target: float | None

    @property
    def met(self) -> bool | None:
        return None if self.target is None else self.ratio >= self.target


def best(line: dict[str, Any], contender: str) -> tuple[str, dict[str, Any]]:
    """Threads and times of a contender's best setting."""
    return min(line["seconds"][contender].items(), key=lambda item: item[1]["median"])


def bandwidth(line: dict[str, Any], threads: str) -> float | None:
    """Bytes per second, the better of copy and triad."""
    rates = [line["limits"][name].get(threads) for name in ("copy", "triad") if name in line["limits"]]
    return max((rate for rate in rates if rate), default=None)


def rates(line: dict[str, Any]) -> dict[str, float]:
    """GF/s and GB/s of ours, with their shares of what the machine can do."""
    threads, times = best(line, "evref")
    figures = {"GF/s": 1e-9 * line["flops"] / times["median"]}
    gemm = line["limits"].get("GEMM", {}).get(threads)
    if gemm:
        figures["share of GEMM"] = 1e9 * figures["GF/s"] / gemm
    if line["traffic"]:
        figures["GB/s"] = 1e-9 * line["traffic"] / times["median"]
        if rate := bandwidth(line, threads):
            figures[targets.BANDWIDTH] = 1e9 * figures["GB/s"] / rate
    return figures


def comparisons(line: dict[str, Any]) -> list[Comparison]:
    """Strongest peer first; a target for a family of peers stands beside its strongest member."""
    if "evref" not in line["seconds"]:
        return []
    ours = best(line, "evref")[1]["median"]
    ratios = {name: best(line, name)[1]["median"] / ours for name in line["seconds"] if name != "evref"}
    ratios = dict(sorted(ratios.items(), key=lambda item: item[1]))
    wanted = {}
    for target in targets.of_line(line):
        strongest = next((name for name in ratios if name.startswith(target.peer)), None)
        if strongest:
            wanted[strongest] = target.at_least
        elif target.peer == targets.BANDWIDTH and target.peer in (shares := rates(line)):
            ratios[target.peer] = shares[target.peer]
            wanted[target.peer] = target.at_least
    return [Comparison(name, ratio, wanted.get(name)) for name, ratio in ratios.items()]


def verdicts(lines: Iterable[dict[str, Any]]) -> tuple[int, list[str]]:
    """How many targets were held against a figure, and which were missed."""
    count, missed = 0, []
    for line in lines:
        for c in comparisons(line):
            count += c.target is not None
            if c.met is False:
                missed.append(f"{line['case']} {line['dtype']} {c.peer}: {c.ratio:.3g} of {c.target:g}")
    return count, missed


# ---- text ------------------------------------------------------------------------------------------------------------
def milliseconds(times: dict[str, Any]) -> str:
    return f"{1e3 * times['median']:.3g} ms ({1e3 * times['low']:.3g}–{1e3 * times['high']:.3g})"


def about_text(about: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {value}" for name, value in about["versions"].items())
    return f"{about['date']}; {about['cpu']}, {about['cores']} cores, {about['system']}; {versions}"


def rate_text(line: dict[str, Any]) -> str:
    figures = rates(line)
    parts = [f"{figures['GF/s']:.3g} GF/s"]
    if "share of GEMM" in figures:
        parts[-1] += f", {figures['share of GEMM']:.0%} of GEMM"
    if "GB/s" in figures:
        parts.append(f"{figures['GB/s']:.2g} GB/s")
    if targets.BANDWIDTH in figures:
        parts[-1] += f", {figures[targets.BANDWIDTH]:.0%} of bandwidth"
    if apart := line.get("round_trip", {}).get(best(line, "evref")[0]):
        low, high = (round(1e9 * apart[key]) for key in ("low", "high"))
        parts.append(f"cores {low}–{high} ns apart")
    return " · ".join(parts)


def block(line: dict[str, Any]) -> str:
    """One line of the report on a terminal: ours, then a row for each peer."""
    rows = [f"\n{line['case']} {line['dtype']}: {line['label']}, nnz={line['nnz']}"]
    if "evref" in line["seconds"]:
        threads, times = best(line, "evref")
        rows.append(
            f"  {'evref':22} {milliseconds(times):34} {threads} thread{'s'[: threads != '1']:1}  {rate_text(line)}"
        )
    for c in comparisons(line):
        where, time = "", ""
        if c.peer in line["seconds"]:
            threads, times = best(line, c.peer)
            where, time = f"{threads} thread{'s'[: threads != '1']:1}", milliseconds(times)
        figure = f"{c.ratio:.0%}" if c.peer == targets.BANDWIDTH else f"{c.ratio:.3g}×"
        rows.append(f"  {c.peer:22} {time:34} {where:10} {figure:>7}  {verdict(c)}".rstrip())
    rows += [f"  {name:22} skipped: {why}" for name, why in line["skipped"].items()]
    rows += [f"  {name:22} WRONG, not timed: {why}" for name, why in line["wrong"].items()]
    return "\n".join(rows)


def verdict(c: Comparison) -> str:
    if c.target is None:
        return ""
    wanted = f"{c.target:.0%}" if c.peer == targets.BANDWIDTH else f"{c.target:g}×"
    return f"target ≥ {wanted} {'met' if c.met else 'MISSED'}"


def closing(lines: list[dict[str, Any]]) -> str:
    count, missed = verdicts(lines)
    text = f"{count - len(missed)} of {count} targets met"
    if missed:
        text += f"; missed: {'; '.join(missed)}"
    if absent := sum(1 for line in lines for _ in targets.of_line(line)) - count:
        text += f"; {absent} without a figure (a peer that was left out, skipped or is not installed)"
    return text + "."


# ---- files -----------------------------------------------------------------------------------------------------------
def markdown(results: dict[str, Any]) -> str:
    head = ["case", "dtype", "ours", "threads", "rate", "peer / ours (target)"]
    table = [head, ["---"] * len(head)]
    for line in results["lines"]:
        if "evref" not in line["seconds"]:
            continue
        threads, times = best(line, "evref")
        cells = []
        for c in comparisons(line):
            figure = f"{c.ratio:.0%}" if c.peer == targets.BANDWIDTH else f"{c.ratio:.3g}"
            mark = "" if c.target is None else f" (≥ {c.target:g}: {'met' if c.met else '**missed**'})"
            cells.append(f"{c.peer} {figure}{mark}")
        name = f"{line['case']}: {line['label']}"
        table.append([name, line["dtype"], milliseconds(times), threads, rate_text(line), " · ".join(cells)])
    reasons = dict.fromkeys(
        f"{line['case']}, {name}: {why}" for line in results["lines"] for name, why in line["skipped"].items()
    )
    text = ["# Speed", "", RULES, "", f"{about_text(results['about'])}.", ""]
    text += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in table]
    text += ["", closing(results["lines"])]
    if reasons:
        text += ["", "Skipped:", "", *(f"- {reason}" for reason in reasons)]
    return "\n".join(text) + "\n"


def write_json(path: Path, results: dict[str, Any]) -> None:
    files.write_text(path, json.dumps(results, indent=1) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    try:
        results = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not JSON ({error})") from None
    if not isinstance(results, dict):
        raise ValueError(f"{path}: holds {type(results).__name__}; expected a JSON object")
    return results
