"""Properties of the layers on graphs and signals that Hypothesis draws."""

import numpy as np
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from traffic_layers import ChebLayer

from evref.testing import graphs, signals


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])  # torch takes its time at first
@given(graphs(min_nodes=2, directed=False, weights="positive"), st.data())
def test_a_sensor_that_nobody_hears_changes_nobody(graph, data):
    """With k steps a signal spreads k roads far, not further."""
    layer = ChebLayer(torch.tensor(graph.S.toarray()), 1, 1, 2).double()
    x = data.draw(signals((graph.n_nodes, 1)))
    changed = x.copy()
    changed[:, 0] += 1
    with torch.no_grad():
        difference = (layer(torch.tensor(changed)) - layer(torch.tensor(x))).abs().amax(dim=(0, 2)).numpy()
    far = (graph.S.toarray()[:, 0] == 0) & (np.arange(graph.n_nodes) > 0)
    assert (difference[far] == 0).all()
