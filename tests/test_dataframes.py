"""pandas: signals, adjacency matrices and labels go by their names or are refused, and never by position."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import evref as ev
from evref import checks, plot
from evref.graph import shifts
from evref.verify import gradcheck

pd = pytest.importorskip("pandas", reason="pandas is in the extra test")
nx = pytest.importorskip("networkx", reason="networkx is in the extra graphs")

G = nx.Graph([("ann", "bob"), ("bob", "cyd"), ("cyd", "dan"), ("dan", "ann"), ("dan", "eve")])
GRAPH = ev.Graph.from_networkx(G)
NAMES = GRAPH.nodes
SHUFFLED = ["dan", "ann", "eve", "cyd", "bob"]
X = np.random.default_rng(0).standard_normal((6, 5))
TABLE = pd.DataFrame(X, columns=list(NAMES))[SHUFFLED]
FILTER = ev.EdgeVariant(GRAPH, order=3, out_features=2, bias=True)
PARAMS = FILTER.init(rng=1)


def network(**options):
    return ev.Network([FILTER, ev.Tanh(), ev.Dense((2, 5), outputs=2)], **options)


# ---- the same bits ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_shuffled_columns_give_the_same_bits(seed, dtype):
    order = np.random.default_rng(seed).permutation(5)
    x = (10 * X).astype(dtype)
    table = pd.DataFrame(x, columns=list(NAMES)).iloc[:, order]
    expected, tape = FILTER.forward(PARAMS, x[:, None])
    found, tape_of_table = FILTER.forward(PARAMS, table)
    assert type(found) is np.ndarray and found.shape == (6, 2, 5) and found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    (grads, grad_x), (grads_of_table, grad_of_table) = (
        FILTER.backward(PARAMS, each, np.ones((6, 2, 5))) for each in (tape, tape_of_table)
    )
    np.testing.assert_array_equal(grad_of_table, grad_x)  # in the order of the nodes, shape (6, 1, 5)
    for name in grads:
        np.testing.assert_array_equal(grads_of_table[name], grads[name])


def test_a_series_is_one_signal():
    one = ev.EdgeVariant(GRAPH, order=2)
    params = one.init(rng=0)
    y, tape = one.forward(params, TABLE.iloc[0])
    np.testing.assert_array_equal(y, one(params, X[0]))
    assert y.shape == (5,)
    v = pd.Series(X[1], index=list(NAMES))[SHUFFLED]
    (grads, grad_x), (expected, expected_x) = one.backward(params, tape, v), one.backward(params, tape, X[1])
    np.testing.assert_array_equal(grad_x, expected_x)
    np.testing.assert_array_equal(grads["phi"], expected["phi"])


def test_jvp_predict_and_call():
    one = ev.EdgeVariant(GRAPH, order=2)
    p, dp = one.init(rng=0), one.init(rng=1)
    expected = one.jvp(p, X[:, None], dp, 2 * X[:, None])
    np.testing.assert_array_equal(one.jvp(p, TABLE, dp, 2 * TABLE), expected)
    np.testing.assert_array_equal(one.jvp(p, TABLE, dp, 2 * X[:, None]), expected)
    v = pd.DataFrame(X, columns=list(NAMES))[SHUFFLED]
    tape = one.forward(p, TABLE)[1]
    np.testing.assert_array_equal(one.backward(p, tape, v)[1], one.backward(p, tape, X[:, None])[1])
    net = network()
    params = net.init(rng=0)
    np.testing.assert_array_equal(net.predict(params, TABLE), net.predict(params, X[:, None]))
    nested = ev.Network([ev.ReLU(), ev.Network([FILTER])])
    params = nested.init(rng=0)
    np.testing.assert_array_equal(nested.predict(params, TABLE), nested.predict(params, X[:, None]))


@pytest.mark.parametrize("cls", [*ev.catalogue.values(), ev.MaxActivation, ev.MedianActivation], ids=lambda c: c.name)
def test_every_filter_reads_names(cls):
    """On one feature where it can have one; else it says how many it wants."""
    symmetric = ev.Graph(GRAPH.S / 3, nodes=NAMES)
    for filt in cls.examples(symmetric, np.random.default_rng(0)):
        params = filt.init(rng=1)
        table = pd.DataFrame(X, columns=list(filt.graph.nodes)).iloc[:, [3, 0, 4, 2, 1]]
        if filt.in_shape[0] > 1:
            with pytest.raises(
                ValueError, match=f"x is a DataFrame, which has one feature; .* expects {filt.in_shape[0]}"
            ):
                filt.forward(params, table)
            x = np.stack([filt.graph.align(table)] * filt.in_shape[0], axis=1)
            assert filt(params, x).shape[0] == 6
        else:
            np.testing.assert_array_equal(filt(params, table), filt(params, X[:, None]))


def test_numbers_as_names_are_aligned_too():
    graph = ev.Graph(GRAPH.S)
    filt = ev.EdgeVariant(graph, order=2)
    params = filt.init(rng=0)
    table = pd.DataFrame(X)[[3, 1, 4, 0, 2]]
    np.testing.assert_array_equal(filt(params, table), filt(params, X[:, None]))
    # Renumbered without names, the graph knows what the columns were called before.
    order = [4, 2, 0, 1, 3]
    there = ev.Polynomial(graph.permuted(order), order=2)
    params = there.init(rng=0)
    np.testing.assert_array_equal(there(params, table), there(params, X[:, None, order]))


def test_attention_at_a_named_signal():
    filt = ev.GraphAttention(GRAPH)
    params = filt.init(rng=0)
    for of_table, expected in ((TABLE.iloc[0], X[0]), (TABLE.iloc[:1], X[:1, None])):
        np.testing.assert_array_equal(filt.matrix(params, of_table), filt.matrix(params, expected))


def test_align_stacks_several_features():
    several = np.stack([GRAPH.align(TABLE), GRAPH.align(2 * TABLE)], axis=1)
    np.testing.assert_array_equal(several, np.stack([X, 2 * X], axis=1))
    assert GRAPH.align(TABLE).flags.c_contiguous
    np.testing.assert_array_equal(GRAPH.align(TABLE.iloc[2]), X[2])


def test_names_that_are_tuples():
    graph = ev.Graph.from_networkx(nx.grid_2d_graph(2, 2))
    columns = pd.MultiIndex.from_tuples([(1, 1), (0, 1), (1, 0), (0, 0)])
    np.testing.assert_array_equal(graph.align(pd.DataFrame([[4.0, 2.0, 3.0, 1.0]], columns=columns)), [[1, 2, 3, 4]])


def test_the_table_is_not_changed_and_not_kept():
    table = TABLE.copy()
    y, tape = FILTER.forward(PARAMS, table)
    grads, _ = FILTER.backward(PARAMS, tape, np.ones_like(y))
    table.iloc[:, :] = 0.0
    assert not TABLE.equals(table)
    again, _ = FILTER.backward(PARAMS, tape, np.ones_like(y))
    np.testing.assert_array_equal(grads["phi"], again["phi"])


# ---- refused ---------------------------------------------------------------------------------------------------------
REFUSED = {
    "unknown and missing": (
        TABLE.rename(columns={"ann": "zoe"}),
        ValueError,
        "the columns of x differ from the nodes of the graph: missing 'ann'; unknown 'zoe'; expected the same names in "
        "any order$",
    ),
    "missing": (TABLE.drop(columns="ann"), ValueError, "missing 'ann'; expected the same names"),
    "too many": (
        TABLE.assign(label=1.0),
        ValueError,
        r"unknown 'label'; expected the same names in any order \(x\[list\(graph.nodes\)\] chooses them\)",
    ),
    "twice": (
        TABLE[["ann", *SHUFFLED]],
        ValueError,
        "the columns of x: 'ann' occurs at 0 and at 2; expected different",
    ),
    "no names": (
        pd.DataFrame(X),
        ValueError,
        "missing 'ann', 'bob', 'cyd' and 2 more; unknown 0, 1, 2 and 2 more; expected the same names in any order$",
    ),
    "rows for columns": (TABLE.T, ValueError, "its rows have them: x.T has a row per sample"),
    "a series without names": (pd.Series(X[0]), ValueError, "the names in x differ from the nodes of the graph"),
    "objects": (TABLE.astype(object), TypeError, "x has dtype object; supported are"),
    "text": (TABLE.astype(str), TypeError, "x has dtype"),
    "NaN": (TABLE.mask(TABLE == X[2, 1]), ValueError, r"not finite, the first nan at index \(2, 0, 1\)"),
}


@pytest.mark.parametrize(("table", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_wrong_names_are_refused(table, error, message):
    one = ev.EdgeVariant(GRAPH, order=1)
    params = one.init(rng=0)
    for call in (
        lambda: one.forward(params, table),
        lambda: one(params, table),
        lambda: one.jvp(params, table, params, table),
        lambda: network().predict(network().init(rng=0), table),
    ):
        with pytest.raises(error, match=message):
            call()


def test_a_graph_without_names_says_so():
    filt = ev.EdgeVariant(ev.Graph(GRAPH.S), order=1)
    with pytest.raises(ValueError, match="the graph was made without names, so that they are 0 to 4"):
        filt.forward(filt.init(rng=0), TABLE)


@pytest.mark.parametrize(
    "layer", [ev.ReLU(), ev.Tanh(), ev.Dense((1, 5), outputs=5), ev.Dense((5,), outputs=2)], ids=repr
)
def test_layers_without_a_graph_refuse_tables(layer):
    params = layer.init(rng=0)
    for module, given in ((layer, params), (ev.Network([layer]), {f"0.{name}": a for name, a in params.items()})):
        for table in (TABLE, TABLE.iloc[0]):
            with pytest.raises(
                TypeError, match=rf"x is a {type(table).__name__}, .*; expected an array \(x.to_numpy\(\)\)"
            ):
                module.forward(given, table)


def test_a_cotangent_without_nodes_is_refused():
    net = network()
    params = net.init(rng=0)
    tape = net.forward(params, X[0, None])[1]
    with pytest.raises(TypeError, match="grad_y is a Series"):
        net.backward(params, tape, pd.Series([1.0, 2.0]))


def test_who_knows_no_graph_refuses_tables():
    for call in (
        lambda: ev.fourier_basis(GRAPH).gft(TABLE),
        lambda: ev.fourier_basis(GRAPH).filter(lambda lam: lam, TABLE),
        lambda: ev.MeanSquaredError().forward(X[0], TABLE.iloc[0]),
        lambda: gradcheck.dot_test(FILTER, PARAMS, TABLE),
    ):
        with pytest.raises(TypeError, match=r"whose names are not looked at here; expected an array \(graph.align\("):
            call()


def test_lists_and_indexes_have_no_names():
    assert not any(map(checks.is_labelled, [[1, 2], (1,), X, {"a": 1}, "ab", None, pd.Index([1, 2]), GRAPH.S]))
    assert checks.is_labelled(TABLE) and checks.is_labelled(TABLE["ann"])


# ---- training --------------------------------------------------------------------------------------------------------
def test_fit_reads_names():
    net = network()
    start, labels = net.init(rng=0), pd.Series([0, 1, 0, 1, 1, 0])
    options = {"loss": ev.CrossEntropy(), "optimizer": ev.Adam(0.05), "epochs": 3, "batch_size": 4, "rng": 0}

    def trained(x, y):
        return ev.fit(net, start, (x, y), validation=(x, y), **options).last

    by_name, by_position = trained(TABLE, labels), trained(X[:, None], labels.to_numpy())
    for name in start:
        np.testing.assert_array_equal(by_name[name], by_position[name])
    with pytest.raises(ValueError, match=r"the columns of data\[0\] differ from the nodes of the graph: missing 'ann'"):
        trained(TABLE.rename(columns={"ann": "zoe"}), labels)
    with pytest.raises(ValueError, match=r"validation\[0\] differ"):
        ev.fit(net, start, (TABLE, labels), validation=(pd.DataFrame(X), labels), **options)


def test_targets_on_nodes_are_read_by_name():
    one = ev.EdgeVariant(GRAPH, order=2)
    net = ev.Network([one])
    start = net.init(rng=0)
    target = pd.DataFrame(X**2, columns=list(NAMES))[SHUFFLED[::-1]]
    options = {"loss": ev.MeanSquaredError(), "optimizer": ev.SGD(0.1), "epochs": 2, "rng": 0}
    by_name = ev.fit(net, start, (TABLE, target), **options).last
    by_position = ev.fit(net, start, (X[:, None], X[:, None] ** 2), **options).last
    np.testing.assert_array_equal(by_name["0.phi"], by_position["0.phi"])
    vector = net.to_vector(start)
    value, slope = net.objective(TABLE, target, ev.MeanSquaredError())(vector)
    expected, expected_slope = net.objective(X[:, None], X[:, None] ** 2, ev.MeanSquaredError())(vector)
    assert value == expected
    np.testing.assert_array_equal(slope, expected_slope)
    with pytest.raises(ValueError, match=r"the columns of data\[1\] differ"):
        ev.fit(net, start, (TABLE, pd.DataFrame(X)), **options)


# ---- adjacency matrices ----------------------------------------------------------------------------------------------
def test_an_adjacency_dataframe_names_its_nodes():
    D = nx.DiGraph([("ann", "bob"), ("bob", "cyd"), ("cyd", "ann"), ("ann", "cyd")])
    A = nx.to_pandas_adjacency(D)
    expected = ev.Graph.from_networkx(D)
    for table in (A, A[["cyd", "ann", "bob"]]):  # the rows decide
        graph = ev.Graph.from_adjacency(table, direction="source-target")
        assert graph == expected and graph.nodes == expected.nodes == ("ann", "bob", "cyd")
        assert ev.Graph(table.T).nodes == tuple(table.columns)
    rows = ev.Graph.from_adjacency(A.loc[["bob", "cyd", "ann"]], direction="source-target")
    assert rows.nodes == ("bob", "cyd", "ann") and rows == expected.permuted([1, 2, 0])
    chosen = ev.Graph.from_adjacency(A, direction="source-target", nodes=["bob", "cyd", "ann"])
    assert chosen.nodes == rows.nodes and chosen == rows
    np.testing.assert_array_equal(
        shifts.adjacency(A[["cyd", "ann", "bob"]]).toarray(), nx.to_numpy_array(D, nodelist=["ann", "bob", "cyd"])
    )


def test_an_adjacency_dataframe_whose_rows_and_columns_differ_is_refused():
    A = nx.to_pandas_adjacency(G)
    for make in (ev.Graph, ev.Graph.from_adjacency, shifts.adjacency):
        for table, message in (
            (
                A.rename(columns={"ann": "zoe"}),
                "the columns of .* differ from the rows of .*: missing 'ann'; unknown 'zoe'",
            ),
            (A.reset_index(drop=True), "missing 0, 1, 2 and 2 more; unknown 'ann'"),
            (A.iloc[:3], "unknown 'dan', 'eve'"),
            (A.rename(index={"ann": "bob"}), "the rows of .*: 'bob' occurs at 0 and at 1"),
        ):
            with pytest.raises(ValueError, match=message):
                make(table)
    with pytest.raises(ValueError, match="the rows of A differ from nodes: missing 'zoe'"):
        ev.Graph.from_adjacency(A, nodes=[*NAMES[:4], "zoe"])


# ---- labels ----------------------------------------------------------------------------------------------------------
COLUMNS = {
    "str": lambda values: pd.Series(values, dtype="str"),
    "object": lambda values: pd.Series(values, dtype=object),
    "string": lambda values: pd.Series(values, dtype="string"),
    "category": lambda values: pd.Series(values, dtype=pd.CategoricalDtype(["twain", "unused", "poe", "austen"])),
    "categorical": lambda values: pd.Categorical(values),
    "index": lambda values: pd.Index(values),
    "not from 0": lambda values: pd.Series(values, index=range(7, 7 + len(values))),
    "list": lambda values: values,
    "array of objects": lambda values: np.array(values, dtype=object),
}


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_encode_labels_takes_columns_of_strings(column):
    codes, classes = ev.encode_labels(column(["poe", "austen", "poe", "twain"]))
    assert codes.tolist() == [1, 0, 1, 2]
    assert classes.tolist() == ["austen", "poe", "twain"] and classes.dtype.kind == "U"


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT], ids=repr)
@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_encode_labels_refuses_missing_values(column, missing):
    with pytest.raises(
        ValueError, match=r"labels has 2 value\(s\) that are missing or not finite, the first .* at index 1"
    ):
        ev.encode_labels(column(["poe", missing, missing, "twain"]))


def test_encode_labels_of_other_columns():
    for column, expected in (
        (pd.Series([30, 10, 30]), [10, 30]),
        (pd.Series([30, 10, 30], dtype="Int64"), [10, 30]),
        (pd.Series([30, 10, 30], dtype="category"), [10, 30]),
        (pd.Series([30, 10, 30], dtype=object), [10, 30]),
        (pd.Series([True, False, True]), [False, True]),
        (pd.Series([True, False, True], dtype="boolean"), [False, True]),
        (pd.Series([0.5, -1.0, 0.5]), [-1.0, 0.5]),
    ):
        codes, classes = ev.encode_labels(column)
        assert codes.tolist() == [1, 0, 1] and classes.tolist() == expected and classes.dtype != object
    for column in (
        pd.Series([1, None], dtype="Int64"),
        pd.Series([True, None], dtype="boolean"),
        pd.Series([1.0, None]),
    ):
        with pytest.raises(ValueError, match="missing or not finite"):
            ev.encode_labels(column)
    for mixed in (["poe", 1], pd.Series(["poe", 1]), [True, 2], [("a",), "b"]):
        with pytest.raises(TypeError, match="at index [01]; expected numbers, bools or strings, all of one kind"):
            ev.encode_labels(mixed)
    with pytest.raises(ValueError, match="labels has shape"):
        ev.encode_labels(pd.DataFrame({"author": ["poe"]}))


def test_codes_may_be_a_series():
    prediction, codes = np.array([[2.0, 1.0], [0.0, 3.0], [1.0, 0.0]]), pd.Series([0, 0, 0], index=[5, 6, 7])
    assert ev.accuracy(prediction, codes) == 2 / 3
    assert ev.CrossEntropy().forward(prediction, codes)[0] == ev.CrossEntropy().forward(prediction, [0, 0, 0])[0]
    with pytest.raises(TypeError, match="encode_labels makes them from others"):
        ev.accuracy(prediction, pd.Series(["a", "b", "a"]))


# ---- all of it -------------------------------------------------------------------------------------------------------
def test_from_networkx_and_dataframe_to_a_file_and_back(tmp_path):
    authors = pd.Series(["poe", "austen", "poe", "poe", "austen", "austen"])
    codes, classes = ev.encode_labels(authors)
    net = network(classes=classes)
    options = {"loss": ev.CrossEntropy(), "optimizer": ev.Adam(0.05), "epochs": 60, "rng": 0}
    params = ev.fit(net, net.init(rng=0), (TABLE, codes), **options).params
    ev.save_network(tmp_path / "net", net, params)
    loaded, loaded_params = ev.load_network(tmp_path / "net")
    assert loaded.graph.nodes == NAMES
    again = TABLE[SHUFFLED[::-1]]
    assert loaded.classes[loaded.predict(loaded_params, again).argmax(axis=-1)].tolist() == authors.tolist()
    with pytest.raises(ValueError, match="the columns of x differ"):
        loaded.predict(loaded_params, pd.DataFrame(X))


def test_drawings_read_names():
    plt = pytest.importorskip("matplotlib.pyplot", reason="the extra plot")
    figure, axes = plt.subplots(1, 2)
    by_name = plot.graph(GRAPH, TABLE.iloc[0], ax=axes[0]).collections[-1].get_facecolors()
    by_position = plot.graph(GRAPH, X[0], ax=axes[1]).collections[-1].get_facecolors()
    np.testing.assert_array_equal(by_name, by_position)
    plt.close(figure)
    one = ev.EdgeVariant(GRAPH, order=1)
    drawn = [plot.states(one, one.init(rng=0), x)[0].collections[-1].get_facecolors() for x in (TABLE.iloc[0], X[0])]
    np.testing.assert_array_equal(*drawn)
    plt.close("all")


def test_pandas_is_never_imported():
    code = (
        "import sys, numpy as np, evref as ev; net = ev.Network([ev.EdgeVariant(ev.generators.path(3), 1)]); "
        "params = net.init(rng=0); net(params, np.eye(3)[:, None]); ev.encode_labels(['a', 'b']); "
        "print('pandas' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
