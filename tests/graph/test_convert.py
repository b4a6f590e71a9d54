"""Bad graphs are refused with a message that names the argument; odd but valid ones give the same graph."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import sparse

from evref import checks
from evref.graph import Graph
from evref.graph.convert import MAX_NODES, as_n_nodes, canonical

FORMATS = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")
DENSE = np.array([[0.0, 2.0, 0.0, 0.0], [0.0, 5.0, 0.0, -1.0], [3.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])


def broken(fmt, **changes):
    """A valid sparse matrix with some attributes then set by hand, as callers can."""
    matrix = sparse.csr_array(DENSE).asformat(fmt)
    for name, value in changes.items():
        setattr(matrix, name, value)
    return matrix


def csr(**changes):
    return broken("csr", **changes)


def dok_out_of_range():
    matrix = sparse.dok_array(DENSE)
    matrix._dict[(7, 0)] = 1.0
    return matrix


def lil(row, columns, values):
    matrix = sparse.lil_array(DENSE)
    matrix.rows[row], matrix.data[row] = columns, values
    return matrix


BAD_VALUES = [
    ("one dimension", lambda: np.ones(3), r"S has shape \(3,\); expected a square"),
    ("three dimensions", lambda: np.ones((2, 2, 2)), r"S has shape \(2, 2, 2\)"),
    ("a number", lambda: 3.0, r"S has shape \(\)"),
    ("not square", lambda: np.ones((2, 3)), r"S has shape \(2, 3\)"),
    ("not square, sparse", lambda: sparse.csr_array(np.ones((3, 2))), r"S has shape \(3, 2\)"),
    ("one dimension, sparse", lambda: sparse.coo_array(np.ones(3)), r"S has shape \(3,\)"),
    ("ragged", lambda: [[0, 1], [1]], "S is not a rectangular array"),
    ("no nodes", lambda: np.zeros((0, 0)), "at least one node"),
    ("no nodes, sparse", lambda: sparse.csr_matrix((0, 0)), "at least one node"),
    ("too many nodes", lambda: sparse.coo_array((2**31, 2**31)), "expected at most"),
    ("NaN", lambda: [[0, np.nan], [1, 0]], r"S has 1 value\(s\) that are not finite, the first nan at \[0, 1\]"),
    ("inf", lambda: [[0, 1], [-np.inf, 0]], r"first -inf at \[1, 0\]"),
    ("NaN, sparse", lambda: sparse.csr_array(np.diag([1.0, np.nan])), r"first nan at \[1, 1\]"),
    ("duplicates overflow", lambda: sparse.coo_array(([1e308] * 2, ([0, 0], [1, 1])), shape=(2, 2)), "not finite"),
    ("csr index too large", lambda: csr(indices=np.array([1, 1, 3, 4])), r"S\.indices holds the index 4; .* < 4"),
    ("csr index negative", lambda: csr(indices=np.array([1, -1, 3, 0])), r"S\.indices holds the index -1"),
    ("csr indptr falls", lambda: csr(indptr=np.array([0, 3, 1, 4, 4])), r"S\.indptr holds 1 at position 2"),
    ("csr indptr starts late", lambda: csr(indptr=np.array([1, 1, 3, 4, 4])), r"S\.indptr holds 1 at position 0"),
    ("csr indptr negative", lambda: csr(indptr=np.array([0, -1, 3, 4, 4])), r"S\.indptr holds the index -1"),
    ("csr indptr past the end", lambda: csr(indptr=np.array([0, 1, 3, 4, 9])), r"S\.indptr holds the index 9"),
    ("csr indptr short", lambda: csr(indptr=np.array([0, 1, 4])), r"S\.indptr has shape \(3,\); expected \(5,\)"),
    ("csr data short", lambda: csr(data=np.ones(2)), "S has 4 indices and 2 values"),
    ("csr indices short", lambda: csr(indices=np.array([1], dtype=np.int32)), "S has 1 indices and 4 values"),
    ("csc index too large", lambda: broken("csc", indices=np.array([2, 0, 9, 1])), r"S\.indices holds the index 9"),
    ("csc indptr falls", lambda: broken("csc", indptr=np.array([0, 2, 1, 4, 4])), r"S\.indptr holds 1 at position 2"),
    ("bsr index too large", lambda: broken("bsr", indices=np.array([1, 1, 3, 8])), r"S\.indices holds the index 8"),
    ("bsr blocks", lambda: broken("bsr", data=np.ones((4, 3, 1))), r"S has blocks of shape \(3, 1\)"),
    ("coo row too large", lambda: broken("coo", coords=(np.array([0, 1, 2, 4]), np.zeros(4, int))), "index 4"),
    ("coo column negative", lambda: broken("coo", coords=(np.zeros(4, int), np.array([0, 1, -3, 3]))), "index -3"),
    ("coo lengths", lambda: broken("coo", coords=(np.zeros(3, int), np.zeros(4, int))), "3 row indices, 4 column"),
    ("dia offsets", lambda: broken("dia", offsets=np.array([0])), "one row of data per offset"),
    ("dok key", dok_out_of_range, "S"),
    ("lil lengths", lambda: lil(0, [1, 2], [1.0]), "rows and data of different lengths"),
    ("lil column", lambda: lil(0, [9], [1.0]), "index 9"),
]
BAD_TYPES = [
    ("object", lambda: np.array([[0, None], [1, 0]], dtype=object), "S has dtype object"),
    ("text", lambda: [["a", "b"], ["c", "d"]], "S has dtype <U1"),
    ("float16", lambda: np.eye(2, dtype=np.float16), "S has dtype float16; supported are"),
    ("longdouble", lambda: np.eye(2, dtype=np.longdouble), "S has dtype .*; supported are"),
    ("complex", lambda: np.eye(2) * 1j, "S has dtype complex128; supported are"),
    ("complex, sparse", lambda: sparse.csr_array(np.eye(2) * 1j), "S has dtype complex128"),
    ("longdouble, sparse", lambda: sparse.csr_array(np.eye(2, dtype=np.longdouble)), "S has dtype"),
    ("float indices", lambda: csr(indices=np.array([1.0, 1.0, 3.0, 0.0])), r"S\.indices has dtype float64"),
    ("float offsets", lambda: broken("dia", offsets=np.arange(4.0)), r"S\.offsets has dtype"),
    ("None", lambda: None, "S has dtype object"),
]


@pytest.mark.parametrize(("make", "message"), [row[1:] for row in BAD_VALUES], ids=[row[0] for row in BAD_VALUES])
def test_bad_matrices_are_value_errors(make, message):
    with pytest.raises(ValueError, match=message):
        Graph(make())


@pytest.mark.parametrize(("make", "message"), [row[1:] for row in BAD_TYPES], ids=[row[0] for row in BAD_TYPES])
def test_bad_dtypes_are_type_errors(make, message):
    with pytest.raises(TypeError, match=message):
        Graph(make())


def test_complex_is_refused_even_while_the_complex_step_is_allowed():
    with checks.complex_allowed(), pytest.raises(TypeError, match="complex128"):
        Graph(np.eye(2) * 1j)


def test_a_networkx_graph_given_as_a_matrix_points_to_the_right_door():
    nx = pytest.importorskip("networkx")
    with pytest.raises(TypeError, match="from_networkx"):
        Graph(nx.path_graph(3))


# ---- odd but valid ---------------------------------------------------------------------------------------------------
def is_canonical(S):
    fresh = sparse.csr_array((S.data.copy(), S.indices.copy(), S.indptr.copy()), shape=S.shape)
    return fresh.has_canonical_format and np.all(S.data != 0)


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("fmt", FORMATS)
def test_every_sparse_format_gives_the_dense_graph(fmt, kind):
    matrix = getattr(sparse, f"{fmt}_{kind}")(DENSE)
    S = canonical("S", matrix)
    assert isinstance(S, sparse.csr_array)
    assert is_canonical(S)
    np.testing.assert_array_equal(S.toarray(), DENSE)


@pytest.mark.parametrize("block", [(1, 1), (2, 2), (4, 1), (2, 4)])
def test_bsr_blocks_carry_no_zeros_over(block):
    S = canonical("S", sparse.bsr_array(DENSE, blocksize=block))
    assert S.nnz == np.count_nonzero(DENSE)
    np.testing.assert_array_equal(S.toarray(), DENSE)


@pytest.mark.parametrize("fmt", ["csr", "csc", "coo"])
def test_unsorted_duplicates_and_explicit_zeros_become_canonical_and_the_input_stays(fmt):
    rows, columns = np.array([2, 0, 0, 1, 1, 2, 2]), np.array([2, 2, 2, 1, 1, 0, 1])
    values = np.array([0.0, 1.0, 2.0, 4.0, -4.0, 5.0, 6.0])  # an explicit zero, a sum, and a sum that is zero
    matrix = sparse.coo_array((values, (rows, columns)), shape=(3, 3))
    if fmt != "coo":
        indptr = np.array([0, 2, 4, 7])
        order = np.argsort(rows, kind="stable")
        matrix = getattr(sparse, f"{fmt}_array")((values[order], columns[order], indptr), shape=(3, 3))
    before = {k: np.array(v) for k, v in vars(matrix).items() if isinstance(v, np.ndarray)}
    expected = np.array([[0, 0, 3], [0, 0, 0], [5, 6, 0.0]])
    S = canonical("S", matrix)
    assert is_canonical(S)
    np.testing.assert_array_equal(S.toarray(), expected.T if fmt == "csc" else expected)
    for k, v in before.items():
        np.testing.assert_array_equal(getattr(matrix, k), v)
    assert Graph(matrix) == Graph(expected.T if fmt == "csc" else expected)


def test_spare_room_past_indptr_is_not_read():
    matrix = csr()
    matrix.indices = np.append(matrix.indices, 99).astype(np.int32)
    matrix.data = np.append(matrix.data, np.nan)
    np.testing.assert_array_equal(canonical("S", matrix).toarray(), DENSE)


def layouts(tmp_path):
    yield "Fortran", np.asfortranarray(DENSE)
    yield "strided", np.repeat(np.repeat(DENSE, 2, axis=0), 3, axis=1)[::2, ::3]
    yield "reversed", DENSE[::-1, ::-1].copy()[::-1, ::-1]
    frozen = DENSE.copy()
    frozen.setflags(write=False)
    yield "read-only", frozen
    mapped = np.memmap(tmp_path / "A.bin", dtype=np.float64, mode="w+", shape=DENSE.shape)
    mapped[:] = DENSE
    mapped.flush()
    yield "memory-mapped", np.memmap(tmp_path / "A.bin", dtype=np.float64, mode="r", shape=DENSE.shape)
    yield "big-endian", DENSE.astype(">f8")
    yield "big-endian integers", DENSE.astype(">i4")
    yield "nested lists", DENSE.tolist()
    yield "big-endian csr", csr(data=csr().data.astype(">f8"), indices=csr().indices.astype(">i4"))


def test_layout_and_byte_order_make_no_difference(tmp_path):
    for name, array in layouts(tmp_path):
        graph = Graph(array)
        np.testing.assert_array_equal(graph.S.toarray(), DENSE, err_msg=name)
        assert graph.S.dtype.isnative, name
        if not sparse.issparse(array):
            np.testing.assert_array_equal(array, DENSE, err_msg=name)


def test_nothing_is_shared_with_the_caller():
    dense, matrix = DENSE.copy(), csr()
    graphs = Graph(dense), Graph(matrix), Graph.from_adjacency(matrix, direction="target-source")
    dense[:] = 7
    matrix.data[:] = 7
    assert all(np.array_equal(graph.S.toarray(), DENSE) for graph in graphs)
    assert matrix.indices.flags.writeable and matrix.data.flags.writeable


@pytest.mark.parametrize("wrap", [np.asarray, sparse.csr_array, sparse.coo_array])
@pytest.mark.parametrize(("given", "kept"), [("f4", "f4"), ("f8", "f8"), ("i1", "f8"), ("u8", "f8"), ("?", "f8")])
def test_dtype(given, kept, wrap):
    assert Graph(wrap(np.eye(3).astype(given))).S.dtype == np.dtype(kept)


def test_dtype_of_foreign_byte_order():
    assert Graph(np.eye(3, dtype=">f4")).S.dtype == np.dtype(np.float32)


def test_bool_duplicates_count_twice():
    matrix = sparse.coo_array((np.ones(2, dtype=bool), ([0, 0], [1, 1])), shape=(2, 2))
    assert Graph(matrix).S[0, 1] == 2


# ---- edge lists ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("error", "message", "arguments"),
    [
        (TypeError, "n_nodes is True", (True, [0], [0])),
        (TypeError, r"n_nodes is 3\.0", (3.0, [0], [0])),
        (ValueError, "n_nodes is -1", (-1, [], [])),
        (ValueError, "n_nodes is 0", (0, [], [])),
        (ValueError, "n_nodes is 2147483648; expected at most", (2**31, [], [])),
        (ValueError, "source has 2 entries and target has 1", (3, [0, 1], [2])),
        (ValueError, "source holds the index 3; expected 0 <= index < 3", (3, [3], [2])),
        (ValueError, "target holds the index -1; expected 0 <= index < 3", (3, [0], [-1])),
        (TypeError, "source has dtype float64; expected integers", (3, [0.0], [1])),
        (TypeError, "target has dtype bool; expected integers", (3, [0], [True])),
        (ValueError, r"source has shape \(1, 1\)", (3, [[0]], [1])),
        (ValueError, "source is not a rectangular", (3, [[0], [1, 2]], [1])),
        (ValueError, r"weight has shape \(2,\); expected \(1,\)", (3, [0], [1], [1.0, 2.0])),
        (ValueError, r"weight has shape \(\); expected \(1,\)", (3, [0], [1], 2.0)),
        (ValueError, "weight has 1 value", (3, [0], [1], [np.inf])),
        (TypeError, "weight has dtype complex128", (3, [0], [1], [1j])),
    ],
)
def test_bad_edge_lists(error, message, arguments):
    with pytest.raises(error, match=message):
        Graph.from_edges(*arguments)


def test_undirected_edge_lists_name_each_edge_once():
    with pytest.raises(TypeError, match="undirected is 1 "):
        Graph.from_edges(3, [0], [1], undirected=1)
    with pytest.raises(ValueError, match="in both orders"):
        Graph.from_edges(3, [0, 1], [1, 0], undirected=True)


@pytest.mark.parametrize(
    ("error", "message", "edge_index", "weight"),
    [
        (ValueError, r"edge_index has shape \(3, 2\); .*transposed\?", [[0, 1], [1, 2], [2, 0]], None),
        (ValueError, r"edge_index has shape \(2,\); expected \(2, edges\)$", [0, 1], None),
        (ValueError, "edge_index is not a rectangular", [[0, 1], [1]], None),
        (ValueError, r"edge_index\[1\] holds the index 5", [[0, 1], [1, 5]], None),
        (TypeError, r"edge_index\[0\] has dtype float64", [[0.0, 1.0], [1, 2]], None),
        (ValueError, r"edge_weight has shape \(1,\); expected \(2,\)", [[0, 1], [1, 2]], [1.0]),
    ],
)
def test_bad_edge_indices(error, message, edge_index, weight):
    with pytest.raises(error, match=message):
        Graph.from_edge_index(edge_index, 3, weight)


def test_the_largest_number_of_nodes_is_the_range_of_int32():
    assert as_n_nodes("n_nodes", MAX_NODES) == np.iinfo(np.int32).max
    with pytest.raises(ValueError, match=re.escape("2**31 - 1")):
        as_n_nodes("n_nodes", MAX_NODES + 1)
