"""Every spelling of a singular operation passes the gate and is read as that operation; what the catalogue implies."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import wherelint.interpret.intrinsics
from wherelint.findings import DetectOptions, detect
from wherelint.frameworks.torch import LAYERS
from wherelint.frontend import flow, screen
from wherelint.frontend.module import Module
from wherelint.interpret.lowering import FUNCTIONS, METHODS
from wherelint.interpret.programs import programs
from wherelint.ops import OPERATIONS, SIGNATURES, Signature, traits, words

WHERE = {"jax": "jax.numpy.where", "torch": "torch.where", "tensorflow": "tensorflow.where", "keras": "keras.ops.where"}
SPELLINGS = {
    name: signature
    for name, signature in SIGNATURES.items()
    if signature.op in traits.SINGULAR and not name.startswith("numpy.")
}
NAMESPACES = sorted({name.rpartition(".")[0] for name in SPELLINGS})
#: What a power is depends on its exponent.
POWERS = {"power", "power_static", "integer_power"}


def program(name: str, signature: Signature, form: str) -> str:
    """A file in which a selection, or a mask, drops a call of a name."""
    where = WHERE[name.partition(".")[0]]
    arguments = [f"x{i}" if keywords else "0" for i, keywords in enumerate(signature.operands)]
    inputs = [each for each in arguments if each != "0"]
    called = f"{name}({', '.join(arguments)})"
    if ".Array." in name or ".Tensor." in name:
        called = f"x0.{name.rpartition('.')[2]}({', '.join(arguments[1:])})"
    body = {"where": f"{where}(x0 > 0.5, {called}, 0.0)", "mask": f"(x0 > 0.5) * {called}"}[form]
    imports = f"import {name.partition('.')[0]}, {where.rpartition('.')[0]}"
    return f"{imports}\n\n\ndef f({', '.join(inputs)}):\n    return {body}\n"


@pytest.mark.parametrize("form", ["where", "mask"])
@pytest.mark.parametrize("space", NAMESPACES)
def test_every_spelling_of_a_singular_operation_is_looked_at(space: str, form: str) -> None:
    for name, signature in SPELLINGS.items():
        if name.rpartition(".")[0] != space:
            continue
        module = Module("a.py", program(name, signature, form))
        assert screen.roots(module) == [("f",)], name
        (lowered,) = programs(module, ("f",), module.frameworks())
        expected = POWERS if signature.op in POWERS else {signature.op}
        assert expected & {node.op for node in lowered.made}, name
        assert any(node.selection for node in lowered.made), name


@pytest.mark.parametrize("layer", [layer for layer in LAYERS if LAYERS[layer] in words(traits.SINGULAR)])
def test_every_layer_that_is_singular_is_looked_at(layer: str) -> None:
    text = f"import torch\n\n\ndef f(x):\n    return (x > 0) * torch.nn.{layer}()(x)\n"
    assert screen.roots(Module("a.py", text)) == [("f",)]


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("(x > 0) * jax.nn.log1mexp(x)", None),
        ("jnp.multiply(x > 0, jnp.sqrt(x))", "WL202"),
        ("jnp.greater(x, 0) * jnp.sqrt(x)", "WL202"),
        ("jnp.take(jnp.stack([0.0 * x, 1 / x]), 0)", None),
        ("jax.lax.max(jnp.sqrt(x), 1.0)", "WL204"),
        ("(x > 0) * jax.lax.rem(1.0, x)", None),
    ],
)
def test_masks_and_selections_by_any_name(call: str, code: str | None) -> None:
    text = f"import jax\nimport jax.numpy as jnp\n\n\ndef f(x):\n    return {call}\n"
    assert screen.roots(Module("a.py", text)) == [("f",)]
    found, _ = detect(text, "a.py", DetectOptions())
    assert code is None or [finding.code for finding in found] == [code]


def test_the_backend_of_keras_is_read() -> None:
    text = "from tensorflow.keras import backend as K\nimport tensorflow as tf\n\n\ndef f(x):\n"
    found, _ = detect(text + "    return tf.where(x > 0, K.log(x), 0.0)\n", "a.py", DetectOptions())
    assert [finding.op for finding in found] == ["log"]


def test_the_gate_needs_no_numpy() -> None:
    program = "import sys\nfrom wherelint.frontend import screen, module\nassert 'numpy' not in sys.modules\n"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_kinds_of_operations_fit_the_catalogue() -> None:
    assert traits.FINITE_TESTS | traits.ORDERINGS | traits.LOGICAL <= traits.TO_BOOL
    assert traits.QUOTIENTS < traits.SINGULAR
    assert OPERATIONS.keys() > traits.PIECEWISE
    assert set(traits.SELECTS.values()) <= traits.SELECTIONS.keys()


def test_what_drops_an_operand_is_a_selection() -> None:
    dropping = {name for name, operation in OPERATIONS.items() if operation.unselected is not None}
    assert dropping - POWERS == traits.SELECTS.keys() - {"multiply_no_nan"}


def test_the_kind_of_a_result_is_what_the_catalogue_computes() -> None:
    for signature in SIGNATURES.values():
        operands = [np.full((1, 2), 0.5, np.float32)] * sum(map(bool, signature.operands))
        with np.errstate(all="ignore"):
            out = np.asarray(OPERATIONS[signature.op].forward(*operands))
        kind = {"b": "bool", "i": "int", "f": "float"}[out.dtype.kind]
        assert OPERATIONS[signature.op].result.replace("same", "float") == kind, signature.op


def test_every_selection_of_a_handler_has_a_word() -> None:
    selecting = ("selection(low", "selection=", "nan_to_num(low", "boolean_mask(low")
    for name, handle in {**FUNCTIONS, **METHODS}.items():
        last = name.rpartition(".")[2]
        if any(call in inspect.getsource(handle) for call in selecting):
            assert last in screen._SELECT | screen._PICK, name


def test_every_kind_of_selection_is_known() -> None:
    folder = Path(wherelint.__file__).parent
    files = [*folder.glob("interpret/**/*.py")]
    trees = [ast.parse(path.read_text("utf-8")) for path in files]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    kinds = {
        value.value
        for call in calls
        for keyword in call.keywords
        if keyword.arg == "selection"
        for value in ast.walk(keyword.value)
        if isinstance(value, ast.Constant) and isinstance(value.value, str)
    }
    assert {"index", "multiply", "nan_to_num"} <= kinds <= traits.SELECTIONS.keys()


def test_every_singular_operation_of_a_handler_has_a_word() -> None:
    for name, handle in {**FUNCTIONS, **METHODS}.items():
        said = set(re.findall(r'"(\w+)"', inspect.getsource(inspect.unwrap(handle))))
        if not said.isdisjoint(traits.SINGULAR):
            assert name.rpartition(".")[2] in flow._SINGULAR_WORDS, name
