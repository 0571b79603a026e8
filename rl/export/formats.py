"""The files that a policy is written to, and how each is run again without this package."""

from __future__ import annotations

import contextlib
import importlib.util
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from rl.errors import UsageError, nearest
from rl.export.program import Program
from rl.runners.acting import quiet
from rl.storage.files import literally

Arrays = dict[str, np.ndarray]
SIGNATURE = "serving_default"  # the name that servers ask for
OPSET = 18  # of ONNX


def write_savedmodel(program: Program, path: Path) -> None:
    """Writes TensorFlow's SavedModel, a folder."""
    with quiet():
        tf.saved_model.save(program, str(path), signatures={SIGNATURE: program.function})


def write_litert(program: Program, path: Path) -> None:
    """Writes LiteRT's flat buffer, one file."""
    with quiet():
        converter = tf.lite.TFLiteConverter.from_concrete_functions([program.concrete], program)
        with _converting("litert"):
            found = converter.convert()
        path.write_bytes(found)


def write_onnx(program: Program, path: Path) -> None:
    """Writes an ONNX model, one file."""
    _needs("tf2onnx", "onnx")
    import tf2onnx

    specs = [tf.TensorSpec(each.shape, each.dtype, each.name) for each in program.inputs]
    with quiet():
        names = [each.name for each in program.inputs]
        flat = tf.function(
            lambda *inputs: program.function(dict(zip(names, inputs, strict=True))),
            input_signature=specs,
            autograph=False,
        )
        handlers: dict[str, tuple[Any, list[Any]]] = {"Log1p": (_log1p, []), "Expm1": (_expm1, [])}
        with _converting("onnx"):
            tf2onnx.convert.from_function(
                flat, specs, opset=OPSET, output_path=str(path), custom_op_handlers=handlers
            )


@contextlib.contextmanager
def _converting(name: str) -> Iterator[None]:
    """Raises UsageError where a converter knows less than TensorFlow; of a page of text the line that says
    what."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        said = re.search(r"error: (?:loc\(.*\): )?(.+)", str(error)) or re.search(r"\s*(.+)", str(error))
        what = type(error).__name__ if said is None else said[1].strip()[:300]
        raise UsageError(f"--format {name}: its converter cannot write this policy: {what}") from error


def _log1p(graph: Any, node: Any, name: str, args: list[Any]) -> None:
    """Makes log(1 + x) of an operation that ONNX has not."""
    x, y = node.input[0], node.output[0]
    one = graph.make_const(f"{name}/one", np.float32(1.0))
    kind = {"dtypes": [graph.get_dtype(y)], "shapes": [graph.get_shape(y)]}
    plus = graph.make_node("Add", [x, one.output[0]], **kind)
    graph.replace_input(node, x, plus.output[0], 0)
    node.type = "Log"


def _expm1(graph: Any, node: Any, name: str, args: list[Any]) -> None:
    """Makes exp(x) - 1 of an operation that ONNX has not. Near 0 it is 2 t / (1 - t) with t = tanh(x / 2),
    which loses no digits: a tree search compares small differences of values."""
    from onnx import TensorProto

    x, y = node.input[0], node.output[0]

    def made(kind: str, *inputs: str, dtype: Any = None) -> str:
        types = {"dtypes": [dtype or graph.get_dtype(y)], "shapes": [graph.get_shape(y)]}
        return str(graph.make_node(kind, list(inputs), **types).output[0])

    half, one, two = (
        graph.make_const(f"{name}/{each}", np.float32(each)).output[0] for each in (0.5, 1.0, 2.0)
    )
    t = made("Tanh", made("Mul", x, half))
    near = made("Div", made("Mul", two, t), made("Sub", one, t))
    far = made("Sub", made("Exp", x), one)
    is_near = made("Less", made("Abs", x), half, dtype=TensorProto.BOOL)
    node.type = "Where"
    graph.replace_inputs(node, [is_near, near, far])


def run_savedmodel(path: Path) -> Callable[[Arrays], Arrays]:
    """Returns the function in a SavedModel, of arrays by name."""
    with literally(path) as folder:
        loaded = tf.saved_model.load(str(folder))
    call = loaded.signatures[SIGNATURE]

    def run(inputs: Arrays) -> Arrays:
        found = call(**{name: tf.constant(each) for name, each in inputs.items()})
        return {name: each.numpy() for name, each in found.items()}

    run.loaded = loaded  # type: ignore[attr-defined]  # its variables live as long as this
    return run


def run_litert(path: Path) -> Callable[[Arrays], Arrays]:
    """Returns the function in a LiteRT file, of arrays by name."""
    with quiet():
        from ai_edge_litert.interpreter import Interpreter

        interpreter = Interpreter(model_path=str(path), num_threads=1)
        interpreter.allocate_tensors()
        runner = interpreter.get_signature_runner(next(iter(interpreter.get_signature_list())))
    taken = set(runner.get_input_details())
    return lambda inputs: dict(runner(**{name: each for name, each in inputs.items() if name in taken}))


def run_onnx(path: Path) -> Callable[[Arrays], Arrays]:
    """Returns the function in an ONNX file, of arrays by name."""
    _needs("onnxruntime")
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    taken = {each.name for each in session.get_inputs()}
    names = [each.name for each in session.get_outputs()]

    def run(inputs: Arrays) -> Arrays:
        values = session.run(None, {name: each for name, each in inputs.items() if name in taken})
        return dict(zip(names, values, strict=True))

    return run


# Name: file below the output folder, writer, runner.
FORMATS: dict[str, tuple[str, Callable[[Program, Path], None], Callable[[Path], Any]]] = {
    "savedmodel": ("savedmodel", write_savedmodel, run_savedmodel),
    "litert": ("policy.tflite", write_litert, run_litert),
    "onnx": ("policy.onnx", write_onnx, run_onnx),
}


def chosen_formats(text: str) -> list[str]:
    """Returns the formats that a comma list names. Raises UsageError for another name, or a package that is
    missing."""
    names = [each.strip() for each in text.split(",") if each.strip()]
    for name in names:
        if name == "keras":
            raise UsageError(
                "--format keras: a .keras file of this network loads nowhere without this package: take "
                "savedmodel, which keras.layers.TFSMLayer(FOLDER, call_endpoint='function') loads"
            )
        if name not in FORMATS:
            raise UsageError(f"--format {name}: {nearest(name, FORMATS)}")
    if not names:
        raise UsageError(f"--format: name some of {', '.join(FORMATS)}")
    if "onnx" in names:
        _needs("tf2onnx", "onnx", "onnxruntime")
    return list(dict.fromkeys(names))


def _needs(*packages: str) -> None:
    missing = [each for each in packages if importlib.util.find_spec(each) is None]
    if missing:
        raise UsageError(
            f"--format onnx needs the extra 'export' ({', '.join(missing)} is missing): "
            "./setup.sh --extra export"
        )
