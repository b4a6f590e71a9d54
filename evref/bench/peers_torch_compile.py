"""The same work through torch.compile: the best of several forms, each compiled by the call that is also checked.

Beside the forms of :mod:`evref.bench.peers_torch`, compiled whole, one that suits a compiler: every row has a list of
its neighbours, padded to the longest, so that a step is a sum of reads and nothing is scattered,

    w'_i     = sum_d phi[place[i, d]] w[neighbour[i, d]]
    lam'_j   = sum_d phi[back_place[j, d]] lam[back_neighbour[j, d]],    grad_phi_p = <lam_row(p), w_column(p)>

with the adjoint written by hand: torch's own would scatter. Each line is compiled into a kernel of its own, without
messages in memory; compiled as one graph, the lines are cut and joined in ways that take six times as long (N=1000).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from .cases import Contender, Problem
from .clock import fastest
from .peers_torch import FORMS, MASKED, Forward, autograd
from .peers_torch import prepare as prepare_torch

CHECKED = True
NAMES = dict.fromkeys(("edge-variant", "training", "polynomial", "node-variant"), ("torch.compile",))


def prepare(threads: int) -> None:
    prepare_torch(threads)
    torch._inductor.config.assert_indirect_indexing = False  # its kernels need not look whether indices are in range
    torch._dynamo.config.recompile_limit = 64  # of one function: cases come one after the other


def contender(name: str, p: Problem) -> Contender:
    """The best of the forms that stand a chance: on small graphs gather and dense, else gather and lists.

    Not the gather form of many large filters, which takes them one by one: it compiles for minutes into slow code.
    """
    forms = []
    if p.case.is_small:
        forms.append(compiled(p, torch.compile(FORMS["torch dense"](p), dynamic=False), "torch dense" in MASKED))
    elif p.case.kind == "edge-variant":
        forms.append(compiled(p, lists(p), masked=False))
    if p.case.is_small or p.case.kind != "edge-variant" or p.case.F * p.case.G == 1:
        forms.append(compiled(p, torch.compile(FORMS["torch gather"](p), dynamic=False), masked=False))
    return min(forms, key=lambda form: fastest(form.run))


def compiled(p: Problem, forward: Forward, masked: bool) -> Contender:
    """Compiled by the first call, whose answer is the one that is checked: a training goes on from there."""
    contender = autograd(p, forward, masked)
    answer = contender.result()
    return Contender(contender.run, lambda: answer)


def lists(p: Problem) -> Forward:
    N, F, G = p.case.N, p.case.F, p.case.G
    order = np.argsort(p.indices, kind="stable")  # entries by columns
    columns, rows = torch.tensor(p.indices, dtype=torch.int64), torch.tensor(p.rows)
    forwards = total(*padded(np.arange(p.nnz), np.bincount(p.rows, minlength=N), columns))
    backwards = total(*padded(order, np.bincount(p.indices, minlength=N), rows))
    products = torch.compile(lambda lam, w: (lam[..., rows, :] * w[..., columns, :]).sum(-1), dynamic=False)

    class Step(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, phi: Any, w: Any) -> Any:
            ctx.save_for_backward(phi, w)
            return forwards(phi, w)

        @staticmethod
        def backward(ctx: Any, lam: Any) -> tuple[Any, Any]:
            phi, w = ctx.saved_tensors
            lam = lam.contiguous()  # samples of a node side by side, as in w
            return products(lam, w), backwards(phi, lam)

    def forward(phi: Any, x: Any) -> Any:
        w = x.permute(1, 2, 0).contiguous().expand(F, G, N, -1)
        y: Any = 0.0
        for phi_k in phi.unbind():
            w = Step.apply(phi_k, w)
            y = y + w
        return y.sum(1).permute(2, 0, 1)

    return forward


def total(places: Any, used: Any, neighbors: Any) -> Callable[[Any, Any], Any]:
    """(phi, w) -> sum_d phi[places[:, d]] w[neighbors[:, d]]"""

    def sums(phi: Any, w: Any) -> Any:
        weights = phi[..., places] if used is None else phi[..., places] * used
        return sum(weights[..., d, None] * w[..., neighbors[:, d], :] for d in range(places.shape[1]))

    return torch.compile(sums, dynamic=False)


def padded(entries: Any, lengths: Any, neighbors: Any) -> tuple[Any, Any, Any]:
    """(nodes, longest): which entry, whether there is one (None: always), and the neighbour it leads to."""
    starts = np.cumsum(lengths) - lengths
    d = np.arange(lengths.max())
    used = d < lengths[:, None]
    places = torch.tensor(entries[np.where(used, starts[:, None] + d, 0)])
    return places, None if used.all() else torch.tensor(used), neighbors[places]
