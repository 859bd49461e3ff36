"""Does a gradient flow there? What the names and the place of a function say of it, by the score's table.

Most selections with a singular operation stand in code that nobody differentiates: labels, metrics, environments,
optimizers. Their names and folders are conventions of the whole field, and evidence, not proof.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import PurePath

import numpy as np

from wherelint.graph.node import Node
from wherelint.graph.run import Hazard
from wherelint.interpret.values import Origin

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
#: At the beginning of a line, it is about the file.
_SAID = re.compile(r"#\s*wherelint:\s*not-differentiated\b")
#: What tests, metrics and the like are called, as folders and files.
_PLACES = {
    "in a test": "test tests testing conftest",
    "in a metric": "metric metrics eval evaluation evaluate evaluator evaluators val validation",
    "in an environment": "env envs environment environments",
    "in a data pipeline": "data dataset datasets preprocessing augmentation augmentations",
    "in an optimizer": "optim optimizer optimizers driver drivers",
}
_PLACE_OF = {word: place for place, words in _PLACES.items() for word in words.split()}
#: The last word of the classes that do such work.
_CLASS_OF = {
    "Metric": "in a metric",
    "Evaluator": "in a metric",
    "Validator": "in a metric",
    "Env": "in an environment",
    "Environment": "in an environment",
    "Dataset": "in a data pipeline",
    "Optimizer": "in an optimizer",
}
#: Methods that a trainer calls without gradients.
_STEPS = frozenset({"validation_step", "test_step", "predict_step"})
#: What is given and not learned, by the words that the field keeps for it.
_DATA = frozenset(
    """target targets label labels gt truth truths index indices idx ids count counts num number reward rewards
    advantage advantages adv returns mask masks valid""".split()
)
_SETTINGS = frozenset("eps epsilon tol rtol atol rcond".split())
#: Parameters of a backward pass that somebody wrote.
_COTANGENTS = ("grad_output", "grad_input", "grad_out", "cotangent")


def flow(hazard: Hazard, program: Iterable[Node]) -> Iterator[str]:
    """What speaks against a gradient through a hazard of a program."""
    yield from standing(hazard.select, program)
    poisoned = [n for n, g in hazard.gradient.items() if n.differentiable and not np.isfinite(g).all()]
    said = [_words(str(n.params["name"])) for n in poisoned]
    for words, name in ((_DATA, "poisons data"), (_SETTINGS, "poisons settings")):
        if said and all(words & each for each in said):
            yield name


def standing(select: Node, program: Iterable[Node]) -> Iterator[str]:
    """What speaks against a gradient through a selection of a program, whatever the hazard."""
    origin = select.origin
    if isinstance(origin, Origin):
        yield from dict.fromkeys(_places(origin))
        if _SAID.search(origin.block.module.text) and _said_of(origin):
            yield "said not to be differentiated"
    if any(str(n.params["name"]).startswith(_COTANGENTS) for n in program if n.op == "leaf"):
        yield "in a backward pass"


def _said_of(origin: Origin) -> bool:
    """Whether a comment says so of the file, or in the head of a class or function around."""
    text = origin.block.module.text
    lines = text.split("\n")
    if any(_SAID.match(line) for line in lines):
        return True
    row = origin.block.region(origin.node)[0].row
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.end_lineno is not None:
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            head = lines[first - 1 : max(node.lineno, node.body[0].lineno - 1)]
            if first <= row <= node.end_lineno and any(map(_SAID.search, head)):
                return True
    return False


def _places(origin: Origin) -> Iterator[str]:
    module = origin.block.module
    path = PurePath(os.path.relpath(module.filename))
    folders = () if ".." in path.parts else path.parts[:-1]
    words = path.stem.lower().split("_")
    for part in (*module.package.split("."), *folders, words[0], words[-1]):  # test_model.py, model_test.py
        if part in _PLACE_OF:
            yield _PLACE_OF[part]
    for name in origin.function.split("."):
        words = _WORD.findall(name)
        if name[:1].isupper() and words and words[-1] in _CLASS_OF:
            yield _CLASS_OF[words[-1]]
        if name in _STEPS:
            yield "in a metric"


def _words(name: str) -> frozenset[str]:
    """The words of an input's name: of ``self.target_boxes`` the attribute's, of a call the function's."""
    last = re.split(r"[(\[]", name)[0].rpartition(".")[2]
    return frozenset(word.lower() for word in _WORD.findall(last.replace("_", " ")))
