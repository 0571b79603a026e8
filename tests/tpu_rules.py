"""What a TPU asks of a compiled function, looked for in its graph and in what XLA makes of it.

Sources: "Available TensorFlow Ops" of Cloud TPU's documentation, and tf2xla: operations that run on the host
(TPUs have no file system, no Python, no strings), whose results have a shape that depends on values, or that
are of double precision (emulated). XLA on a CPU compiles some of them all the same.
"""

from __future__ import annotations

import re

import tensorflow as tf

HOST = re.compile(
    r"(Stateless|Eager)?PyFunc|EagerPyFunc|PyFuncStateless|Print(V2)?|Assert|ReadFile|WriteFile|Iterator\w*|"
    r"\w*Dataset\w*|(Mutable)?HashTable\w*|LookupTable\w*|String\w*|AsString|Decode\w*|Encode\w*|"
    r"Write\w*Summary|Timestamp|OutfeedEnqueue\w*|TensorArrayV?\d?|(Random|Truncated)\w*Normal|RandomUniform\w*"
)
DYNAMIC = re.compile(
    r"Where|Unique\w*|DynamicPartition|DynamicStitch|ListDiff|SparseToDense|NonMaxSuppression\w*|SetSize|"
    r"RaggedTensorTo\w*|MatchingFiles|QueueDequeue\w*"
)
REFUSED_TYPES = (tf.float64, tf.complex128, tf.string)


def broken_rules(function) -> list[str]:
    """Each rule that a concrete function breaks, in words; nothing where a TPU would take it."""
    found = []
    graph = function.graph.as_graph_def(add_shapes=True)
    bodies = [("", graph.node), *[(each.signature.name, each.node_def) for each in graph.library.function]]
    for where, nodes in bodies:
        for node in nodes:
            name = f"{node.op} ({where + '/' if where else ''}{node.name})"
            if HOST.fullmatch(node.op):
                found.append(f"runs on the host: {name}")
            if DYNAMIC.fullmatch(node.op):
                found.append(f"has a shape that depends on values: {name}")
            types = {each.type for each in node.attr.values() if each.WhichOneof("value") == "type"}
            found += [
                f"is of type {each.name}: {name}" for each in REFUSED_TYPES if each.as_datatype_enum in types
            ]
            found += [f"has no static shape: {name}" for _ in _unknown(node)]
    return found


def _unknown(node) -> list:
    """The outputs whose shape is not fully known; of resources and lists the handle alone is meant."""
    # The last one is of shapes alone, which XLA knows: it computes it while it compiles.
    if node.op in ("NoOp", "Placeholder", "BroadcastGradientArgs") or "_output_shapes" not in node.attr:
        return []
    kinds = {each.type for each in node.attr.values() if each.WhichOneof("value") == "type"}
    listed = {each for value in node.attr.values() for each in value.list.type}
    if {tf.resource.as_datatype_enum, tf.variant.as_datatype_enum} & (kinds | listed):
        return []
    shapes = node.attr["_output_shapes"].list.shape
    return [each for each in shapes if each.unknown_rank or any(side.size < 0 for side in each.dim)]


def broken_in_xla(function, *arguments) -> list[str]:
    """The same of the program that XLA compiles: `function` is a tf.function with jit_compile.

    Raises TensorFlow's error where XLA refuses to compile it at all.
    """
    text = function.experimental_get_compiler_ir(*arguments)(stage="hlo")
    found = [f"bounded dynamic shape: {line.strip()[:80]}" for line in text.splitlines() if "<=" in line]
    calls = set(re.findall(r'custom_call_target="([^"]+)"', text))
    found += [f"calls a library of the host: {each}" for each in sorted(calls)]
    found += [f"talks to the host: {each}" for each in ("infeed", "outfeed") if f" {each}(" in text]
    return found
