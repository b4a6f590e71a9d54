"""The graph: a shift operator S and the support of I + S on which every edge-variant parameter lives."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy import sparse

from .. import checks
from . import convert, names, shifts
from .pattern import Pattern

Direction = Literal["source-target", "target-source"]


class Graph(Pattern):
    """A weighted graph, immutable.

    S[i, j] weighs the edge j → i, so that (S x)_i gathers at node i what its in-neighbours j hold. The parameters of
    an edge-variant filter sit on the support of I + S: the edges and every node's own entry. That support is stored
    row by row (CSR, for products with Φ) together with the permutation to column order (for products with Φᵀ).

    An edge is a *nonzero* entry. Explicit zeros, and duplicates that sum to zero, are dropped; other duplicates are
    summed. The same matrix given dense or sparse is therefore the same graph.

    Two graphs are equal if their S are equal, entry by entry; the dtype does not matter, nor do the names of the nodes.
    These decide one thing: in which order the columns of a DataFrame are read.

    Parameters
    ----------
    S : array_like or scipy.sparse matrix or array, shape (N, N)
        Weights in the convention above. To give a matrix in the other convention, or to have the direction asked for,
        use :meth:`from_adjacency`. The matrix is copied. A DataFrame must name the same nodes in its rows and in its
        columns, in whatever order; the rows decide.
    nodes : sequence, optional
        Names of the nodes: N different hashable objects. Those of a DataFrame by default, else the numbers 0..N-1.
        Given with a DataFrame, they are its own names in the order in which the nodes shall come.

    Attributes
    ----------
    n_nodes : int
        N.
    nodes : tuple or range
        The names. All graphs made from this one keep them, and saved networks do.
    S : scipy.sparse.csr_array, shape (N, N)
        Sorted, no duplicates, no explicit zeros; float32 stays, float64 stays, integers and bools become float64.
    indptr, indices : ndarray of int64 (N + 1,) and of int32 (nnz,)
        Support of I + S by rows, column indices rising in each.
    diagonal : ndarray of int64, shape (N,)
        Position in `indices` of the entry (i, i).
    column_indptr, row_indices : ndarray of int64 (N + 1,) and of int32 (nnz,)
        The same support by columns.
    transpose : ndarray of int32 (int64 from 2³¹ entries on), shape (nnz,)
        transpose[p] is the position in `indices` of the p-th entry in column order.

    Raises
    ------
    ValueError
        S is not square, has no nodes, holds NaN or inf, or is a sparse matrix whose indices are out of range.
    TypeError
        S holds objects, text, complex numbers, or floats other than float32 and float64.

    Examples
    --------
    >>> graph = Graph([[0, 0, 1], [2, 0, 0], [0, 3, 0]])  # 2 → 0, 0 → 1, 1 → 2
    >>> graph
    Graph(3 nodes, 3 edges, directed)
    >>> graph.indptr.tolist(), graph.indices.tolist()
    ([0, 2, 4, 6], [0, 2, 0, 1, 1, 2])
    >>> graph.S @ [1, 0, 0]  # what node 0 holds moves along 0 → 1
    array([0., 2., 0.])
    """

    S: sparse.csr_array
    diagonal: np.ndarray
    _entries = "one per entry of I + S"

    def __init__(self, S: Any, *, nodes: Any = None) -> None:
        S, nodes = names.named_matrix("S", S, nodes)
        S = convert.canonical("S", S)
        n_nodes = S.shape[0]
        nodes = names.as_names("nodes", nodes, n_nodes)
        ones = np.ones(max(n_nodes, S.nnz), dtype=np.int8)
        identity = sparse.csr_array((ones[:n_nodes], np.arange(n_nodes), np.arange(n_nodes + 1)), shape=S.shape)
        support = identity + sparse.csr_array((ones[: S.nnz], S.indices, S.indptr), shape=S.shape)
        super().__init__(support.indptr, support.indices)
        rows = np.repeat(np.arange(n_nodes), np.diff(support.indptr))
        diagonal = np.flatnonzero(support.indices == rows).astype(np.int64)
        for array in (S.data, S.indices, S.indptr, diagonal):
            array.setflags(write=False)
        self.__dict__.update(S=S, diagonal=diagonal, _nodes=nodes)

    # ---- other ways in -----------------------------------------------------------------------------------------------
    @classmethod
    def from_adjacency(cls, A: Any, *, direction: Direction | None = None, nodes: Any = None) -> Graph:
        """Graph of an adjacency matrix, dense or sparse, or of a DataFrame of one.

        Parameters
        ----------
        A : array_like or scipy.sparse matrix or array, shape (N, N)
        direction : {"source-target", "target-source"}, optional
            What A[a, b] weighs: the edge a → b (as networkx and PyGSP have it; S = Aᵀ), or the edge b → a (S = A).
            May be left out only if A is symmetric.
        nodes : sequence, optional
            As for the class, which also says what becomes of a DataFrame.

        Examples
        --------
        >>> Graph.from_adjacency([[0, 5], [0, 0]], direction="source-target").S.toarray()
        array([[0., 0.],
               [5., 0.]])
        """
        A, nodes = names.named_matrix("A", A, nodes)
        W = convert.canonical("A", A)
        if direction is None:
            if not convert.is_symmetric(W):
                raise ValueError(
                    "direction is None and A is not symmetric; expected 'source-target' if A[a, b] weighs the edge "
                    "a -> b (networkx, PyGSP), or 'target-source' if it weighs b -> a (S = A)"
                )
            return cls(W, nodes=nodes)
        S = W.T if checks.as_choice("direction", direction, Direction) == "source-target" else W
        return cls(S, nodes=nodes)

    @classmethod
    def from_networkx(cls, G: Any, *, weight: str | None = "weight", nodes: Any = None) -> Graph:
        """Graph of a networkx graph, nodes in its order and with their names; an edge u → v lands in S[v, u].

        An undirected edge goes both ways. Parallel edges of a multigraph are summed. An edge without the attribute
        `weight` weighs 1, and with ``weight=None`` every edge does. `nodes` are the nodes of G in another order.

        Examples
        --------
        >>> import networkx as nx
        >>> graph = Graph.from_networkx(nx.DiGraph([("a", "b")]))
        >>> graph.nodes
        ('a', 'b')
        >>> graph.S.toarray()
        array([[0., 0.],
               [1., 0.]])
        """
        if not all(hasattr(G, attribute) for attribute in ("nodes", "edges", "is_directed")):
            raise TypeError(f"G is {type(G).__name__}; expected a networkx graph")
        own = list(G.nodes)
        if not own:
            raise ValueError("G has 0 nodes; expected at least one")
        if nodes is not None:
            own = [own[i] for i in names.places("the nodes of G", own, names.listed("nodes", nodes), "nodes")]
        number = {node: i for i, node in enumerate(own)}
        # None is a legal attribute name to networkx, but no one stores weights under it.
        edges = [(number[u], number[v], 1 if weight is None else w) for u, v, w in G.edges(data=weight, default=1)]
        source, target, values = zip(*edges, strict=True) if edges else ((), (), ())
        arguments = ("source", "target", f"edge attribute {weight!r} of G")
        undirected = not G.is_directed()
        S = convert.from_pairs(len(own), source, target, values, undirected=undirected, names=arguments)
        return cls(S, nodes=own)

    @classmethod
    def from_edges(
        cls,
        n_nodes: int,
        source: Any,
        target: Any,
        weight: Any = None,
        *,
        undirected: bool = False,
        nodes: Any = None,
    ) -> Graph:
        """Graph of an edge list: source[e] → target[e] with weight[e], or 1.

        Edges given more than once are summed. With ``undirected=True`` each edge is given once, in either order, and
        mirrored (a self-loop stays one entry); a pair given in both orders is an error, since its weight would double.

        Examples
        --------
        >>> Graph.from_edges(3, source=[0, 1], target=[1, 2], undirected=True)
        Graph(3 nodes, 4 edges, undirected)
        """
        undirected = checks.as_flag("undirected", undirected)
        return cls(convert.from_pairs(n_nodes, source, target, weight, undirected=undirected), nodes=nodes)

    @classmethod
    def from_edge_index(cls, edge_index: Any, n_nodes: int, edge_weight: Any = None, *, nodes: Any = None) -> Graph:
        """Graph of an edge index as PyTorch Geometric has it: row 0 the sources, row 1 the targets.

        Whatever `numpy.asarray` takes will do, a torch tensor on the CPU among it. Edges given more than once are
        summed.

        Examples
        --------
        >>> Graph.from_edge_index([[0], [1]], n_nodes=2).S.toarray()
        array([[0., 0.],
               [1., 0.]])
        """
        pairs = checks.as_array("edge_index", edge_index)
        if pairs.ndim != 2 or pairs.shape[0] != 2:
            hint = "; is it transposed?" if pairs.ndim == 2 and pairs.shape[1] == 2 else ""
            raise ValueError(f"edge_index has shape {pairs.shape}; expected (2, edges){hint}")
        arguments = ("edge_index[0]", "edge_index[1]", "edge_weight")
        return cls(convert.from_pairs(n_nodes, pairs[0], pairs[1], edge_weight, names=arguments), nodes=nodes)

    # ---- what it is --------------------------------------------------------------------------------------------------
    @property
    def nodes(self) -> Sequence[Any]:
        """Names of the nodes, a tuple, or range(N) where they have none; ``nodes.index(name)`` is a node's number."""
        own = self.__dict__["_nodes"]
        return range(self.n_nodes) if own is None else own

    @property
    def n_edges(self) -> int:
        """M, the edges between different nodes as ordered pairs: an undirected edge counts twice."""
        return self.nnz - self.n_nodes

    @property
    def n_self_loops(self) -> int:
        """Nonzero diagonal entries of S."""
        return self.S.nnz - self.n_edges

    @cached_property
    def is_symmetric(self) -> bool:
        """S == Sᵀ, exactly."""
        return convert.is_symmetric(self.S)

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hex digits that name the support of I + S; neither weights nor names of nodes matter."""
        digest = hashlib.sha256(np.array([self.n_nodes], dtype="<i8").tobytes())
        digest.update(self.indptr.astype("<i8", copy=False).data)
        digest.update(self.indices.astype("<i4", copy=False).data)
        return digest.hexdigest()[:16]

    @cached_property
    def weights_fingerprint(self) -> str:
        """Sixteen hex digits that name the entries of S; with `fingerprint` they name the graph."""
        return hashlib.sha256(self.S.data.astype("<f8", copy=False).tobytes()).hexdigest()[:16]

    def __repr__(self) -> str:
        loops = f", {self.n_self_loops} self-loops" if self.n_self_loops else ""
        kind = "undirected" if self.is_symmetric else "directed"
        return f"Graph({self.n_nodes} nodes, {self.n_edges} edges{loops}, {kind})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Graph):
            return NotImplemented
        return self is other or (
            self.n_nodes == other.n_nodes
            and all(np.array_equal(getattr(self.S, k), getattr(other.S, k)) for k in ("indptr", "indices", "data"))
        )

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __reduce__(self) -> tuple:
        # Through the constructor: unpickled arrays are writable.
        return _rebuilt, (type(self), self.S, self._layout, self.__dict__["_nodes"])

    # ---- other graphs from it ----------------------------------------------------------------------------------------
    def with_shift(self, name: shifts.Shift, **options: Any) -> Graph:
        """Graph whose S is the named shift operator (see :mod:`evref.graph.shifts`) of this graph's weights.

        >>> Graph([[0, 1], [1, 0]]).with_shift("gcn").S.toarray()
        array([[0.5, 0.5],
               [0.5, 0.5]])
        """
        S = shifts.SHIFTS[checks.as_choice("name", name, shifts.Shift)](self, **options)
        shifted = self._with(S, self._layout)
        shifted.__dict__["_origin"] = (self, name, dict(options))
        return shifted

    @property
    def origin(self) -> tuple[Graph, str, dict[str, Any]] | None:
        """The graph that `with_shift` made this one from, the name of the shift and its options; else None.

        `evref.compare` asks it what else S could have been: normalised by other degrees, or not at all. Copies by
        pickling, and graphs made from this one, do not have it.
        """
        return self.__dict__.get("_origin")

    def permuted(self, order: Any) -> Graph:
        """The same graph renumbered: its node i is node order[i] of this one, S' = S[order][:, order].

        A node keeps its name. Where nodes have none, that is its number in this graph.

        >>> Graph([[0, 1, 0], [1, 0, 1], [0, 1, 0]]).permuted([2, 0, 1]).nodes
        (2, 0, 1)
        """
        order = convert.as_nodes("order", order, self.n_nodes)
        if order.size != self.n_nodes or np.unique(order).size != self.n_nodes:
            raise ValueError(f"order is not a permutation of 0..{self.n_nodes - 1}; expected each node exactly once")
        return self._on(order)

    def _on(self, chosen: np.ndarray) -> Graph:
        """The graph on some of the nodes, different ones, in that order: S[chosen][:, chosen], with their names."""
        own = self.nodes
        nodes = names.without_defaults([own[i] for i in chosen.tolist()])
        return _rebuilt(type(self), self.S[chosen][:, chosen], None, nodes)

    def _with(self, S: Any, order: np.ndarray | None) -> Graph:
        """The same nodes, another S and layout."""
        return _rebuilt(type(self), S, order, self.__dict__["_nodes"])

    def local_order(self) -> np.ndarray:
        """An order of the nodes in which neighbours are close to each other: reverse Cuthill–McKee.

        For ``permuted``, on large graphs whose nodes are numbered at random although each hears only nodes near it
        (meshes, roads, nearest neighbours): the signals of a node's neighbours then lie in the caches. At 10⁶ nodes and
        10 nearest neighbours an edge-variant filter runs 2 times as fast for one sample and 6 times for eight. A random
        graph has no such order. Signals go with it as ``x[..., order]``.

        Returns
        -------
        ndarray of int64, shape (N,)

        Examples
        --------
        A path whose nodes come as 0, 2, 4, 1, 3:

        >>> path = Graph.from_edges(5, [0, 2, 4, 1], [2, 4, 1, 3])
        >>> order = path.local_order()
        >>> S = path.permuted(order).S.tocoo()
        >>> int(abs(S.row - S.col).max())
        1
        """
        from scipy.sparse.csgraph import reverse_cuthill_mckee

        pattern = sparse.csr_matrix(abs(self.S) + abs(self.S.T))
        return reverse_cuthill_mckee(pattern, symmetric_mode=True).astype(np.int64)

    def with_local_layout(self) -> Graph:
        """The same graph, to the user, whose large edge-variant filters keep signals in `local_order` while they work.

        Nodes keep their numbers, parameters and gradients the order of this graph's entries; results may differ in
        their last bits, because blocks of nodes are others. To find the order takes a second at 10⁶ nodes; it pays
        where a filter runs often and the graph is local, as :meth:`local_order` says. Shifts made from it keep it.

        Examples
        --------
        >>> graph = Graph.from_edges(5, [0, 2, 4, 1], [2, 4, 1, 3])
        >>> graph.with_local_layout() == graph
        True
        """
        return self._with(self.S, self.local_order())

    def transposed(self) -> Graph:
        """The graph with every edge turned round: S' = Sᵀ."""
        return self._with(self.S.T, self._layout)

    # ---- signals by name ---------------------------------------------------------------------------------------------
    def align(self, table: Any, argument: str = "table") -> np.ndarray:
        """The numbers of a table in the order of the nodes, which are found by name.

        What filters and networks do with a table they are given. For signals of several features, with a table each,
        ``np.stack([graph.align(a), graph.align(b)], axis=1)`` has the shape (samples, 2, nodes).

        Parameters
        ----------
        table : pandas.DataFrame or Series, or what is like them
            A DataFrame has a row per sample and a column per node; a Series an entry per node. In any order.
        argument : str
            What an error message calls it.

        Returns
        -------
        ndarray, shape (samples, nodes) or (nodes,)

        Raises
        ------
        ValueError
            Its names are not those of the nodes; the message says which are missing and which unknown.
        TypeError
            It has no names, or its numbers have a dtype that is not supported.
        """
        return names.aligned(argument, table, self.nodes)

    # ---- on the support ----------------------------------------------------------------------------------------------
    def neighborhoods(self, hops: int) -> tuple[np.ndarray, np.ndarray]:
        """For each node i the nodes from which i is reached in at most `hops` steps, i itself among them.

        Returns
        -------
        indptr, indices : ndarray of int64 (N + 1,) and of int32
            indices[indptr[i]:indptr[i + 1]] are the nodes j, rising.

        Examples
        --------
        >>> Graph([[0, 0, 0], [1, 0, 0], [0, 1, 0]]).neighborhoods(2)[1].tolist()  # 0 → 1 → 2
        [0, 0, 1, 0, 1, 2]
        """
        hops = checks.as_count("hops", hops)
        for k, lists in enumerate(self.growing_neighborhoods()):  # noqa: B007  (the last one is what is asked for)
            if k == hops:
                break
        return lists

    def growing_neighborhoods(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """`neighborhoods(k)` for k = 0, 1, ... as long as they grow: all others are equal to the last."""
        step = self.to_csr(np.ones(self.nnz)).astype(bool)  # bools add as "or": path counts cannot overflow
        nodes = np.arange(self.n_nodes)
        reached = sparse.csr_array((np.ones(self.n_nodes, dtype=bool), nodes, np.arange(self.n_nodes + 1)), step.shape)
        before = 0
        while reached.nnz > before:
            reached.sort_indices()
            yield reached.indptr.astype(np.int64), reached.indices.astype(np.int32)
            # A hub of a sparse graph makes neighbourhoods dense at once: know the size of the product before making it.
            most = min(int(np.diff(reached.indptr)[step.indices].sum(dtype=np.int64)), self.n_nodes**2)
            checks.require_room(f"a list of neighbours on {self.n_nodes} nodes", most)
            before, reached = reached.nnz, step @ reached

    def dense_shift(self, features: int = 1) -> np.ndarray:
        """S as a dense array (N, N), for who is about to make `features` such arrays; ValueError if they are too large.

        See :func:`evref.checks.require_room` for the limit.
        """
        N = self.n_nodes
        checks.require_room(f"a matrix on {N} nodes", *((features, N, N) if features > 1 else (N, N)))
        return self.S.toarray()

    def shift_values(self) -> np.ndarray:
        """S on the support of I + S, shape (nnz,): zero on the diagonal entries that S lacks."""
        stored = np.ones(self.nnz, dtype=bool)
        stored[self.diagonal[self.S.diagonal() == 0]] = False
        values = np.zeros(self.nnz, dtype=self.S.dtype)
        values[stored] = self.S.data
        return values

    @cached_property
    def edge_pattern(self) -> Pattern:
        """The edges between different nodes alone: the support of I + S without its diagonal, M entries in CSR order.

        >>> Graph([[1, 0], [1, 0]]).edge_pattern.indices.tolist()  # a self-loop at 0, and 0 → 1
        [0]
        """
        between = np.ones(self.nnz, dtype=bool)
        between[self.diagonal] = False
        return Pattern(self.indptr - np.arange(self.n_nodes + 1), self.indices[between], self._layout)


def _rebuilt(kind: type[Graph], S: Any, order: np.ndarray | None, nodes: tuple[Any, ...] | None = None) -> Graph:
    """A graph with the layout `order` and the names `nodes`, if any."""
    graph = kind(S)
    graph.__dict__["_nodes"] = nodes  # known to be good
    if order is not None:
        order.setflags(write=False)
        graph.__dict__["_order"] = order
    return graph


def spans(begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """begins[0], ..., ends[0] - 1, begins[1], ..., ends[1] - 1, and so on.

    >>> spans(np.array([5, 0]), np.array([8, 2])).tolist()
    [5, 6, 7, 0, 1]
    """
    lengths = ends - begins
    upto = np.cumsum(lengths)
    return np.arange(lengths.sum()) + np.repeat(begins - (upto - lengths), lengths)
