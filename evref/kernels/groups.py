"""Nodes that share coefficients: how a node-variant filter says whose coefficients each node uses."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

PIECE = 256  # members of a group whose gradients are added up together; fixed, so that threads do not change the sums


class Groups(NamedTuple):
    """Which group each node is in, and the nodes group by group, cut into pieces that threads may share."""

    size: int
    copied: np.ndarray  # (N,) the group of each node
    order: np.ndarray  # (N,) nodes, group after group, rising in each
    pieces: np.ndarray  # (pieces + 1,) places in `order`; a piece lies in one group
    first: np.ndarray  # (size,) first piece of each group
    starts: np.ndarray  # (size,) first place in `order` of each group


def group_nodes(copied: np.ndarray, count: int) -> Groups:
    """Groups from the number of each node's group; every group has at least one node.

    >>> group_nodes(np.array([1, 0, 1]), 2).order.tolist()
    [1, 0, 2]
    """
    sizes = np.bincount(copied, minlength=count)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    cuts = [np.arange(start, stop, PIECE) for start, stop in pairwise(starts)]
    first = np.concatenate([[0], np.cumsum([len(c) for c in cuts])])[:-1]
    return Groups(
        count,
        copied.astype(np.int32),
        np.argsort(copied, kind="stable").astype(np.int32),
        np.concatenate([*cuts, [len(copied)]]).astype(np.int64),
        first.astype(np.int64),
        starts[:-1],
    )


@cache
def one_group(n_nodes: int) -> Groups:
    """All nodes share: a polynomial filter."""
    return group_nodes(np.zeros(n_nodes, np.int32), 1)
