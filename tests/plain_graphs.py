"""Graphs that cost no more than to trace and run them: what TensorFlow does beyond, which tests do without.

TensorFlow is imported by who calls these, as the command line imports it.
"""

from __future__ import annotations

import inspect

import numpy as np


def rewrite(wanted):
    """Has TensorFlow rewrite graphs before it runs them (Grappler), or not.

    In runs this short that costs more than it brings. What users run is compiled by XLA, which takes graphs
    as they are; processes that a test starts do rewrite them."""
    import tensorflow as tf

    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": not wanted})


def note_no_stacks():
    """Has TensorFlow not note where in Python each operation is made, a seventh of the time of tracing.

    Only its own message about an operation that fails would say; Python's traceback is as ever."""
    from tensorflow.python.framework import ops

    make = inspect.unwrap(ops._create_c_op)
    if list(inspect.signature(make).parameters)[-1] == "extract_traceback":  # else it is another version
        make.__defaults__ = (*make.__defaults__[:-1], False)


def fold_no_constants():
    """Has TensorFlow not compute ahead what depends on constants alone, a quarter of a graph's first call.

    It is for the whole process, before TensorFlow's first operation."""
    from tensorflow.core.protobuf import config_pb2
    from tensorflow.python.eager import context

    config = config_pb2.ConfigProto()
    config.graph_options.optimizer_options.opt_level = config_pb2.OptimizerOptions.L0
    if context.context()._config is None:  # else it is another version
        context.context()._config = config


def share_constants():
    """Has a graph hold each constant once, as XLA and TensorFlow's optimizer make of it.

    Two thirds of a graph's constants are others' equals (the 1 of a sum, the axis of a mean), and they are a
    third of its operations: tracing and the first call take a fifth less. Where the place of a constant in
    the graph says more than its value (devices, control dependencies), it is made as ever."""
    from tensorflow.python.framework import ops

    make = ops._create_graph_constant

    def shared(value, dtype, shape, name, verify_shape, allow_broadcast):
        arguments = value, dtype, shape, name, verify_shape, allow_broadcast
        graph = ops.get_default_graph()
        stacks = graph._colocation_stack, graph._device_function_stack
        if graph._control_dependencies_stack or any(list(each.peek_objs()) for each in stacks):
            return make(*arguments)
        known, of_shape = _known(value), shape if shape is None else _known(shape)
        if known is None or (shape is not None and of_shape is None):
            return make(*arguments)
        if not hasattr(graph, "shared_constants"):
            graph.shared_constants = {}
        key = known, dtype, of_shape, verify_shape, allow_broadcast
        if key not in graph.shared_constants:
            graph.shared_constants[key] = make(*arguments)
        return graph.shared_constants[key]

    if list(inspect.signature(make).parameters) == list(inspect.signature(shared).parameters):
        ops._create_graph_constant = shared  # else it is another version


def build_in_c():
    """Has TensorFlow check an operation's inputs and attributes in C++ rather than in Python: up to a
    tenth of the time of tracing."""
    from tensorflow.core.config import flags

    flags.config().graph_building_optimization.reset(True)


def _known(value):
    """What is equal for equal values of a type, bits and all; None for what is large or rare."""
    kind = type(value)
    if kind in (bool, int, float):
        return kind, repr(value)
    if kind in (list, tuple):
        return (kind, tuple(value)) if all(type(each) is int for each in value) else None
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biuf" and value.size <= 16:
        return value.dtype.str, value.shape, value.tobytes()
    return None
