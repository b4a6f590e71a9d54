"""A polynomial filter in PyTorch: a function, and a module that tests spoil."""

from __future__ import annotations

import torch

import evref as ev
from evref.verify.examples import probe_graph

GRAPH = probe_graph(5, "directed")
FILT = ev.Polynomial(GRAPH, order=2, in_features=2, out_features=3, bias=True)
S = torch.tensor(GRAPH.S.toarray())


def right(params, x):
    w, y = x, 0
    for phi in params["phi"]:
        y = y + torch.einsum("fg,bgn->bfn", phi, w)
        w = w @ S.T.to(x.dtype)
    return y + params["bias"][:, None]


class Right(torch.nn.Module):
    """A right one; what a test spoils it overrides: `prepare` before, `after` on the output."""

    def __init__(self):
        super().__init__()
        self.phi = torch.nn.Parameter(torch.zeros(3, 3, 2))
        self.bias = torch.nn.Parameter(torch.zeros(3))
        self.prepare()

    def prepare(self):
        """To be overridden."""

    def forward(self, x):
        return self.after(right({"phi": self.phi, "bias": self.bias}, x))

    def after(self, y):
        return y
