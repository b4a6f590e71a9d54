"""Graph layers for traffic sensors."""

from .chebnet import ChebLayer
from .dense_edge_variant import DenseEdgeVariant

__all__ = ["ChebLayer", "DenseEdgeVariant"]
