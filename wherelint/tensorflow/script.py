"""A script that computes a loss and its gradient by the operations that the program ran, from the numbers it had."""

from __future__ import annotations

import inspect
import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from wherelint.io import disk
from wherelint.tensorflow import compat
from wherelint.tensorflow.locate import Call

_NUMBERS, _NAME = "numbers.npz", "repro.py"
#: A script that is longer says nothing.
_LONGEST = 5000
_SCRIPT = '''\
"""{title}"""

from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow import raw_ops

SOURCES = {sources}


@tf.autograph.experimental.do_not_convert
def value(t):
    t = dict(t)
{body}
    return {roots}


def value_and_gradients():
    saved = np.load(Path(__file__).with_name("{numbers}"))
    t = {{int(name): tf.constant(saved[name]) for name in saved}}
    with tf.GradientTape() as tape:
        tape.watch([t[number] for number in SOURCES.values()])
        roots = value(t)
    return roots, dict(zip(SOURCES, tape.gradient(roots, [t[number] for number in SOURCES.values()], {seeds})))


{compiled}if __name__ == "__main__":
    roots, gradients = value_and_gradients()
    print("the value is", *(float(tf.reduce_sum(each)) for each in roots))
    for name, gradient in gradients.items():
        at = [] if gradient is None else np.argwhere(~np.isfinite(tf.convert_to_tensor(gradient)))
        print(name, "has a gradient that is", f"not finite at {{at[0].tolist()}}" if len(at) else "finite")
'''


def save(
    directory: Path, title: str, calls: Sequence[Call], roots: Sequence[Any], seeds: Sequence[Any],
    sources: Sequence[Any], names: Sequence[str],
) -> list[str]:  # fmt: skip
    """Write the numbers, and the script if it shows a finite value whose gradient is not; the names of the files."""
    numbers: dict[int, Any] = {}
    labels: dict[int, int] = {}

    def label(tensor: Any) -> int:
        if id(tensor) not in labels:
            labels[id(tensor)] = len(labels)
            if tensor.dtype != tf.resource:
                numbers[labels[id(tensor)]] = tensor
        return labels[id(tensor)]

    lines: list[str] = []
    for call in calls:
        if not any(call.live):
            continue
        operands = [f"t[{label(each)}]" for each in call.operands]
        first = len(labels)
        results = [f"t[{label(each)}]" for each in call.results]
        for number in range(first, len(labels)):
            del numbers[number]
        if call.kind == "ReadVariableOp":
            numbers[label(call.operands[0])] = call.results[0]
        lines += _lines(call, operands, results)
    root_list = f"[{', '.join(f't[{label(each)}]' for each in roots)}]"
    seed_list = f"[{', '.join(f't[{label(each)}]' for each in seeds)}]"
    chosen = {name: labels[id(each)] for name, each in zip(_unique(names), sources, strict=True) if id(each) in labels}
    np.savez(directory / _NUMBERS, **{str(number): each.numpy() for number, each in numbers.items()})
    if any(call.backward for call in calls if any(call.live)) or len(lines) > _LONGEST:
        return [_NUMBERS]
    compiled = "value = tf.function(value, jit_compile=True)\n\n" if any(call.compiled for call in calls) else ""
    script = directory / _NAME
    text = _SCRIPT.format(
        title=title, sources=chosen, body="\n".join(lines), roots=root_list, seeds=seed_list, numbers=_NUMBERS,
        compiled=compiled,
    )  # fmt: skip
    disk.write(script, text.encode())
    if _shows(script):
        return [_NUMBERS, _NAME]
    script.unlink()
    return [_NUMBERS]


def _lines(call: Call, operands: Sequence[str], results: Sequence[str]) -> list[str]:
    place = next((each for each in call.places() if each), None)
    lines = [f"    # {place.shown}:{place.row}"] if place else []
    if call.kind == "ReadVariableOp":
        return [*lines, f"    {results[0]} = tf.identity({operands[0]})"]
    given = iter(operands)
    arguments = []
    attributes = dict(zip(call.attributes[::2], call.attributes[1::2], strict=True))
    definition = compat.definition(call.kind)
    wanted = inspect.signature(getattr(tf.raw_ops, call.kind)).parameters
    for name, each in zip(wanted, definition.input_arg, strict=False):
        many = attributes.get(each.number_attr) if each.number_attr else None
        if each.type_list_attr:
            many = len(operands) - len(definition.input_arg) + 1
        arguments.append((name, next(given) if many is None else f"[{', '.join(next(given) for _ in range(many))}]"))
    types = {each.name for each in definition.attr if each.type == "type"}
    for name, each in attributes.items():
        if name in wanted and each is not None:
            arguments.append((name, f"tf.{tf.as_dtype(each).name}" if name in types else _shown(each)))
    target = results[0] if len(results) == 1 else ", ".join(results)
    unpacked = "[:]" if len(results) > 1 else ""
    written = ", ".join(f"{name}={each}" for name, each in arguments)
    lines.append(f"    {target} = raw_ops.{call.kind}({written}){unpacked}")
    return lines


def _shown(each: Any) -> str:
    if isinstance(each, tf.TensorShape):
        return repr(each.as_list() if each.rank is not None else None)
    if isinstance(each, list | tuple):
        return f"[{', '.join(map(_shown, each))}]"
    return f"tf.{each.name}" if isinstance(each, tf.DType) else repr(each)


def _unique(names: Sequence[str]) -> list[str]:
    return [name if names.count(name) == 1 else f"{name} ({number})" for number, name in enumerate(names)]


def _shows(script: Path) -> bool:
    try:
        roots, gradients = runpy.run_path(str(script))["value_and_gradients"]()
        found = [tf.convert_to_tensor(each) for each in gradients.values() if each is not None]
        fine = [all(bool(np.isfinite(each).all()) for each in some) for some in (roots, found)]
        return fine == [True, False]
    except Exception:  # of an operation that can't be written down
        return False
