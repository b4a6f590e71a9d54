"""`evref.compare` on layers in PyTorch, JAX and PyTorch Geometric, as people write and call them."""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from right_layers import right

import evref as ev
from evref.verify.compare import Case, compare_cases
from evref.verify.examples import probe_graph

with warnings.catch_warnings():  # PyG scripts a class when it is imported
    warnings.simplefilter("ignore", DeprecationWarning)
    from torch_geometric.nn import ChebConv, GATConv

GRAPH = probe_graph(7, "directed")
WEIGHTS = (probe_graph(7, "undirected").S.toarray() != 0).astype(float) * (1 - np.eye(7))
LAPLACIAN = ev.Graph(WEIGHTS).with_shift("scaled_laplacian", lambda_max=2.0)  # PyG's default
EDGES = torch.tensor(np.array(np.nonzero(WEIGHTS.T)))
CHEB = ev.Chebyshev(LAPLACIAN, order=2, in_features=2, out_features=4, bias=True)
NAMES = {f"lins.{k}.weight": ("theta", k) for k in range(3)} | {"bias": "bias"}


def torch_chebyshev(params, x, twice=2.0):
    S = torch.tensor(LAPLACIAN.S.toarray(), dtype=x.dtype)
    states = [x, x @ S.T]
    states.append(twice * states[-1] @ S.T - states[-2])
    return (
        sum(torch.einsum("fg,bgn->bfn", t, w) for t, w in zip(params["theta"], states, strict=True))
        + params["bias"][:, None]
    )


def jax_chebyshev(params, x, twice=2.0):
    S = jnp.asarray(LAPLACIAN.S.toarray(), x.dtype)
    states = [x, x @ S.T]
    states.append(twice * states[-1] @ S.T - states[-2])
    mixed = [jnp.einsum("fg,bgn->bfn", t, w) for t, w in zip(params["theta"], states, strict=True)]
    return sum(mixed) + params["bias"][:, None]


# ---- ideal uses ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("layer", "framework"), [(torch_chebyshev, "torch"), (jax_chebyshev, "jax")])
def test_functions_in_one_call(layer, framework):
    report = ev.compare(layer, CHEB)
    assert report.ok and report.setting.startswith(f"{framework}, float64"), str(report)
    assert max(row.error for row in report.rows if row.name != "own differences") < 2e-15


@pytest.mark.parametrize("layer", [torch_chebyshev, jax_chebyshev])
def test_a_missing_two_is_named(layer):
    report = ev.compare(lambda params, x: layer(params, x, twice=1.0), CHEB)
    assert "lacks its 2" in report.diagnosis and [cause.name for cause in report.causes] == ["chebyshev-recurrence"]


def test_a_layer_of_pyg_with_its_own_names():
    conv = ChebConv(2, 4, K=3)
    before = {name: p.detach().clone() for name, p in conv.named_parameters()}
    report = ev.compare(conv, CHEB, parameters=NAMES, call=lambda conv, x: conv(x, EDGES))
    assert report.ok and "batch, nodes, features" in report.setting, str(report)
    assert all(torch.equal(before[name], p) for name, p in conv.named_parameters())
    wrong = ev.Chebyshev(ev.Graph(WEIGHTS).with_shift("scaled_laplacian"), **CHEB.config())
    report = ev.compare(conv, wrong, parameters=NAMES, call=lambda conv, x: conv(x, EDGES))
    assert "lambda_max is taken as 2" in report.diagnosis


def test_a_layer_that_takes_one_sample_at_a_time():
    """GATConv wants (nodes, features)."""
    filt = ev.GraphAttention(ev.Graph(WEIGHTS), in_features=2, out_features=6, heads=2, bias=True)
    conv = GATConv(2, 3, heads=2)
    names = {"att_src": ("source", None), "att_dst": ("target", None), "bias": "bias"}

    class Flat(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(2, 3, 2))
            self.att_src, self.att_dst = conv.att_src, conv.att_dst
            self.bias = conv.bias

        def forward(self, x):
            named = {"lin.weight": self.weight.flatten(0, 1), "att_src": self.att_src, "att_dst": self.att_dst}
            return torch.func.functional_call(conv.to(x.dtype), {**named, "bias": self.bias}, (x, EDGES))

    report = ev.compare(Flat(), filt, parameters={"weight": "weight", **names})
    assert report.ok and "one sample at a time" in report.setting, str(report)


def test_heads_side_by_side():
    """GATConv as it is: its weights are one matrix for all heads."""
    filt = ev.GraphAttention(ev.Graph(WEIGHTS), in_features=2, out_features=6, heads=2, bias=True)
    names = {"lin.weight": ("weight", lambda w: w.reshape(6, 2)), "bias": "bias"}
    names |= {"att_src": ("source", None), "att_dst": ("target", None)}
    report = ev.compare(GATConv(2, 3, heads=2), filt, parameters=names, call=lambda conv, x: conv(x, EDGES))
    assert report.ok, str(report)


def test_keyword_parameters_and_x_first():
    filt = ev.GCN(GRAPH, in_features=2, out_features=3, bias=True)
    S = torch.tensor(GRAPH.S.toarray())

    def by_name(x, theta, bias):
        return theta @ x @ S.T + bias[:, None]

    def x_first(x, params):
        return by_name(x, **params)

    assert ev.compare(by_name, filt).ok and ev.compare(x_first, filt).ok


# ---- gradients -------------------------------------------------------------------------------------------------------
def test_a_transposed_recursion_passes_gradcheck_and_fails_here():
    """Automatic differentiation is consistent with itself: that says nothing about the function."""
    filt = ev.EdgeVariant(GRAPH, order=2, in_features=2, out_features=2)
    layer = right(filt, "dense", Phi=lambda Phi: Phi.mT)
    params = {name: torch.tensor(a, requires_grad=True) for name, a in filt.init(0).items()}
    x = torch.randn(2, 2, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda phi, x: layer({"phi": phi}, x), (params["phi"], x))
    report = ev.compare(layer, filt)
    assert [cause.name for cause in report.causes] == ["shift-transposed"]
    assert {row.name: row.status for row in report.rows}["own differences"] == "ok"


def test_a_detached_state_shows_in_the_differences():
    filt = ev.EdgeVariant(GRAPH, order=3, in_features=1, out_features=1)

    def layer(params, x):
        Phi, w, states = GRAPH.phi_to_dense(params["phi"]), x[:, None], []
        for Phi_k in Phi:
            w = torch.einsum("fgij,bfgj->bfgi", Phi_k, w.detach())
            states.append(w)
        return sum(states).sum(2)

    report = ev.compare(layer, filt)
    assert "every state w(k-1) is detached" in report.diagnosis
    rows = {row.name: row.status for row in report.rows}
    assert rows["output"] == "ok" and rows["grad phi"] == rows["own differences"] == "off"


def test_a_dense_parameter_without_a_mask():
    filt = ev.EdgeVariant(GRAPH, order=2, in_features=2, out_features=3)

    def layer(params, x):
        w, y = x[:, None].expand(-1, 3, -1, -1), 0
        for Phi in params["Phi"]:
            w = torch.einsum("fgij,bfgj->bfgi", Phi, w)
            y = y + w
        return y.sum(2)

    mask = torch.tensor(GRAPH.phi_to_dense(np.ones(GRAPH.nnz)))
    dense = {"Phi": ("phi", "dense")}
    report = ev.compare(layer, filt, parameters=dense)
    assert [cause.name for cause in report.causes] == ["outside-support"]
    off = {row.name: row.where for row in report.rows if row.status == "off"}
    assert list(off) == ["grad Phi outside the support"] and off["grad Phi outside the support"].startswith("no edge")
    assert ev.compare(lambda params, x: layer({"Phi": mask * params["Phi"]}, x), filt, parameters=dense).ok


@pytest.mark.parametrize(
    ("steps", "named"),
    [
        ((lambda phi: phi.transpose(0, 2, 1, 3), "dense"), True),
        (("dense", lambda Phi: Phi.transpose(0, 2, 1, 3, 4)), True),
        ((lambda phi: phi.reshape(2, 3, 2, GRAPH.nnz).swapaxes(1, 2), "dense"), False),  # fits our entries alone
    ],
)
def test_a_dense_parameter_in_an_order_of_its_own(steps, named):
    filt = ev.EdgeVariant(GRAPH, order=2, in_features=2, out_features=3)

    def layer(params, x):
        w, y = x[:, None].expand(-1, 3, -1, -1), 0
        for Phi in params["Phi"].transpose(1, 2):
            w = torch.einsum("fgij,bfgj->bfgi", Phi, w)
            y = y + w
        return y.sum(2)

    report = ev.compare(layer, filt, parameters={"Phi": ("phi", *steps)})
    assert {row.name for row in report.rows if row.status == "off"} == {"grad Phi outside the support"}
    assert [cause.name for cause in report.causes] == ["outside-support"] * named


# ---- modes and dtypes ------------------------------------------------------------------------------------------------
class WithDropout(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.theta, self.bias = torch.nn.Parameter(torch.zeros(3, 4, 2)), torch.nn.Parameter(torch.zeros(4))
        self.dropout = torch.nn.Dropout(0.5)

    def forward(self, x):
        return self.dropout(torch_chebyshev({"theta": self.theta, "bias": self.bias}, x))


def test_train_mode_is_named():
    report = ev.compare(WithDropout(), CHEB)
    assert report.problem_kind == "random" and [cause.name for cause in report.causes] == ["train-mode"]
    assert "call model.eval()" in report.diagnosis and not report.ok
    assert ev.compare(WithDropout().eval(), CHEB).ok


def test_batch_normalisation_in_train_mode():
    class Normed(WithDropout):
        def __init__(self):
            super().__init__()
            self.dropout = torch.nn.BatchNorm1d(4, affine=False, eps=1e-15)

    report = ev.compare(Normed(), CHEB)
    assert [cause.name for cause in report.causes] == ["train-mode"], str(report)


def test_train_mode_is_said_beside_another_mistake():
    """Then no name can be given: the small eps of batch normalisation, or a layer that is wrong anyway."""

    class Normed(WithDropout):
        def __init__(self):
            super().__init__()
            self.dropout = torch.nn.BatchNorm1d(4, affine=False)

    report = ev.compare(Normed(), CHEB)
    assert not report.ok and any("the module is in train mode" in note for note in report.notes)
    assert not any("train mode" in note for note in ev.compare(Normed().eval(), CHEB).notes)

    class Wrong(WithDropout):
        def forward(self, x):
            return self.dropout(torch_chebyshev({"theta": self.theta, "bias": self.bias}, x, twice=1.0))

    report = ev.compare(Wrong(), CHEB)
    assert report.problem_kind == "random" and "The module is in train mode" in report.diagnosis
    assert "lacks its 2" in ev.compare(Wrong().eval(), CHEB).diagnosis


def test_frozen_parameters_are_said():
    module = WithDropout().eval()
    module.theta.requires_grad_(False)
    report = ev.compare(module, CHEB)
    assert report.ok and report.notes == ("compared as if trained, but requires_grad is False: theta",)
    assert compare_cases([Case("a", module, CHEB), Case("b", module, CHEB)]).notes == report.notes


def test_float32_inside_is_no_wrong_gradient():
    """Differences of numbers in float32 need longer steps."""

    def single(params, x, more=0.0):
        own = {name: p.float() for name, p in params.items()}
        return (torch_chebyshev(own, x.float()) + more * x.float()[:, :1]).double()

    report = ev.compare(single, CHEB)
    assert report.ok and {row.name: row.status for row in report.rows}["own differences"] == "ok"
    report = ev.compare(lambda params, x: single(params, x, more=0.1), CHEB)
    assert report.causes == () and not any("do not belong" in pattern for pattern in report.patterns)


def test_a_module_in_float32_with_constants_in_float32():
    S = torch.tensor(LAPLACIAN.S.toarray() / 3, dtype=torch.float32)
    filt = ev.GCN(ev.Graph(LAPLACIAN.S / 3), in_features=2, out_features=4)

    class Single(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.theta = torch.nn.Parameter(torch.zeros(4, 2))

        def forward(self, x):
            return self.theta @ (x @ S.T)

    report = ev.compare(Single(), filt)
    assert report.ok and "float32" in report.setting, str(report)


def test_dense_helpers_carry_gradients_in_torch_and_jax():
    phi = np.random.default_rng(0).standard_normal((2, GRAPH.nnz))
    G = np.random.default_rng(1).standard_normal((2, 7, 7))
    expected = GRAPH.dense_to_phi(G)
    leaf = torch.tensor(phi, requires_grad=True)
    dense = GRAPH.phi_to_dense(leaf)
    (dense * torch.tensor(G)).sum().backward()
    assert np.array_equal(leaf.grad.numpy(), expected)
    assert np.array_equal(GRAPH.dense_to_phi(dense).detach().numpy(), phi)
    with jax.enable_x64(True):
        grad = jax.grad(lambda p: (GRAPH.phi_to_dense(p) * G).sum())(jnp.asarray(phi))
        assert np.array_equal(np.asarray(grad), expected)
        assert np.array_equal(np.asarray(GRAPH.dense_to_phi(GRAPH.phi_to_dense(jnp.asarray(phi)))), phi)
