"""The layers are those of the publications: on many graphs, on one, and by their gradients."""

import torch
from traffic_layers import ChebLayer, DenseEdgeVariant

import evref as ev
from evref.testing import assert_gradients, assert_matches


def build_chebnet(graph, order, in_features, out_features, bias):
    return ChebLayer(torch.tensor(graph.S.toarray()), order, in_features, out_features, bias)


def names_of_chebnet(reference):
    names = {f"mix.{k}.weight": ("theta", k) for k in range(reference.order + 1)}
    return names | {"offset": "bias"} if reference.bias else names


def build_edge_variant(graph, order, in_features, out_features):
    return DenseEdgeVariant(torch.tensor(graph.S.toarray()) != 0, order, in_features, out_features)


def test_chebnet_on_many_graphs():
    report = assert_matches(build_chebnet, "chebyshev", parameters=names_of_chebnet)
    assert len(report.cases) > 40


def test_edge_variant_on_many_graphs():
    assert_matches(build_edge_variant, "edge_variant", parameters={"kernel": ("phi", "dense")})


def test_chebnet_on_our_roads():
    roads = ev.generators.grid(3, 4).with_shift("scaled_laplacian")
    filt = ev.Chebyshev(roads, order=3, in_features=2, out_features=5, bias=True)
    report = ev.compare(build_chebnet(roads, 3, 2, 5, True), filt, parameters=names_of_chebnet(filt))
    report.raise_for_error()


def test_gradients():
    layer = ChebLayer(torch.eye(4).roll(1, 0), 2, 3, 2)
    assert_gradients(layer, x=torch.randn(2, 4, 3).numpy())
