"""evref's filters, layers and networks inside other libraries' programs; each bridge is imported on request.

    from evref.bridges.torch import FilterModule, NetworkModule    # torch.nn.Module; needs PyTorch
    from evref.bridges.jax import as_jax                           # f(params, x) for jax.grad, jit and vmap; needs JAX

This package itself imports neither.
"""
