"""Tilewright's kernels inside functions that torch compiles (`torch.compile`).

Nothing has to be called: in compiled code `kernel[grid](...)` becomes one operator of torch's graph, which says which
arguments the kernel writes and launches it when the graph runs.  These modules are loaded at the first such launch.

    launch       what Dynamo reads in place of a launch: arguments, tuned choices and grid as values of the graph
    operators    the operators themselves, defined by `torch.library`

Tests: tests/torch/.
"""
