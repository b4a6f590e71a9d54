"""How fast is it, and against what? What `evref bench` runs; `import evref` does not import it.

cases      what is computed, on which graphs, with which numbers, and how much work that is
peers_*    the same work by NumPy, SciPy, torch, JAX and PyTorch Geometric, and by evref itself
child      a process that owns one library with one number of threads and runs when it is told
clock      who runs when, and for how long
run        from cases to figures
targets    what the figures are held against
report     figures to text, Markdown and JSON
growth, guard, startup    time and memory against size; has it become slower; the first call
"""
