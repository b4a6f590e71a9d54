r"""Word adjacency networks (Segarra, Eisen and Ribeiro 2015).

For every function word i and every function word j that follows it in the same sentence d words later, 1 ≤ d ≤ D, the
entry (i, j) of the network grows by α^(d-1). A word that follows itself counts as well.

A network is kept as its pairs by distance, so that α can be chosen later and sums of networks are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from ...graph import Graph
from .words import Codes


class Pairs(NamedTuple):
    """How often word j follows word i at distance d: different (i, j, d), rising."""

    pair: np.ndarray  # (entries,) i * n_words + j
    distance: np.ndarray  # (entries,) d - 1
    times: np.ndarray  # (entries,)


def pairs(codes: Codes, n_words: int, window: int) -> Pairs:
    """
    >>> from evref.experiments.authorship.words import encode
    >>> pairs(encode("the cat and the dog. The end", ["the", "and"]), n_words=2, window=10)
    Pairs(pair=array([0, 1, 2]), distance=array([2, 1, 0]), times=array([1, 1, 1]))
    """
    keys = []
    for d in range(1, min(window, codes.word.size - 1) + 1):
        first, second = codes.word[:-d], codes.word[d:]
        found = (first >= 0) & (second >= 0) & (codes.sentence[:-d] == codes.sentence[d:])
        keys.append((first[found].astype(np.int64) * n_words + second[found]) * window + d - 1)
    key, times = np.unique(np.concatenate(keys) if keys else np.empty(0, np.int64), return_counts=True)
    return Pairs(key // window, key % window, times)


def network(pairs: Pairs, n_words: int, decay: float) -> np.ndarray:
    """The network W (n_words, n_words): W[i, j] = Σ_d α^(d-1) · (times that j follows i at distance d).

    >>> network(Pairs(np.array([1, 1]), np.array([0, 2]), np.array([3, 1])), n_words=2, decay=0.5)
    array([[0.  , 3.25],
           [0.  , 0.  ]])
    """
    weights = pairs.times * decay ** pairs.distance.astype(np.float64)
    return np.bincount(pairs.pair, weights, minlength=n_words**2).reshape(n_words, n_words)


def signature(W: np.ndarray, words: Sequence[str]) -> tuple[Graph, np.ndarray]:
    """An author's graph, from the sum W of the networks of known excerpts; its nodes have the names of the words.

    Rows are divided by their sums, words without any edge dropped, W made ½(W + Wᵀ), its largest component kept, and
    divided by its largest eigenvalue. (In that order: the words without edges are components of their own.)

    Returns
    -------
    graph : Graph
    kept : ndarray of int
        The numbers of the words that are its nodes, rising.
    """
    total = W.sum(axis=1, keepdims=True)
    W = np.divide(W, total, out=np.zeros_like(W), where=total > 0)
    W = (W + W.T) / 2
    _, label = connected_components(sparse.csr_array(W), directed=False)
    kept = np.flatnonzero(label == np.bincount(label).argmax())
    if kept.size < 2:
        raise ValueError(f"no two function words follow each other in the training excerpts; W has {W.size} zeros")
    graph = Graph.from_adjacency(W[np.ix_(kept, kept)], nodes=[words[word] for word in kept.tolist()])
    return graph.with_shift("normalized_adjacency"), kept
