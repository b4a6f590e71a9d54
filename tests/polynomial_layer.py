"""A polynomial filter written by hand in NumPy, and as an object on the contract: what tests spoil."""

from __future__ import annotations

import numpy as np

import evref as ev
from evref.verify.examples import probe_graph

GRAPH = probe_graph(5, "directed")
FILT = ev.Polynomial(GRAPH, order=2, in_features=2, out_features=3, bias=True)
S = GRAPH.S.toarray()


def right(params, x):
    w, y = x, 0
    for phi in params["phi"]:
        y, w = y + np.einsum("fg,bgn->bfn", phi, w), w @ S.T.astype(x.dtype)
    return y + params["bias"][:, None]


class Contract:
    """A right one; what a test spoils it overrides."""

    def forward(self, params, x):
        return FILT.forward(params, x)

    def backward(self, params, tape, grad_y):
        return FILT.backward(params, tape, grad_y)
